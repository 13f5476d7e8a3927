"""What every walk of a tree guarantees: all of it once, over no link, and nothing left open."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentforge_sessions.base.files.trees import walk_tree
from tests.support.filesystem import Call, FaultyFileSystem, nth_call

VANISHED = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "root"
    for directory in ("a/b/c", "d", "e/empty"):
        (path / directory).mkdir(parents=True)
    for name in ("a/1", "a/b/2", "a/b/c/3", "d/4", "z"):
        (path / name).write_text(name)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/secret").write_text("x")
    (path / "link").symlink_to(tmp_path / "outside")
    (path / "d/dangling").symlink_to("nowhere")
    os.mkfifo(path / "e/pipe")
    return path


@pytest.fixture
def root_fd(root: Path) -> Iterator[int]:
    fd = os.open(root, os.O_RDONLY)
    yield fd
    os.close(fd)


def pass_over(error: OSError) -> None:
    if error.errno not in VANISHED:
        raise error


def expected(root: Path) -> list[tuple[str, ...]]:
    return sorted(path.relative_to(root).parts for path in root.rglob("*"))


def test_every_entry_comes_once_sorted_and_directories_before_what_they_hold(
    root: Path, root_fd: int
) -> None:
    fs = FaultyFileSystem()
    found = [entry.names for entry in walk_tree(fs, root_fd)]
    assert found == expected(root)
    assert fs.open_descriptors == {}
    assert [entry.names for entry in walk_tree(fs, root_fd)] == found  # the top can be walked again


def test_an_entry_is_what_is_there_itself_in_its_open_directory(root: Path, root_fd: int) -> None:
    for entry in walk_tree(FaultyFileSystem(), root_fd):
        path = root.joinpath(*entry.names)
        assert os.path.samestat(entry.status, path.lstat())
        assert os.fstat(entry.directory_fd).st_ino == path.parent.stat().st_ino
        assert entry.name == path.name
        assert entry.is_directory is (path.is_dir() and not path.is_symlink())


def test_what_is_not_to_be_entered_is_given_and_not_looked_at(root: Path, root_fd: int) -> None:
    found = [
        entry.names
        for entry in walk_tree(FaultyFileSystem(), root_fd, enter=lambda entry: entry.name != "b")
    ]
    assert found == [names for names in expected(root) if names[:2] != ("a", "b") or len(names) < 3]


def test_a_walk_that_is_ended_early_closes_what_it_opened(root: Path, root_fd: int) -> None:
    fs = FaultyFileSystem()
    walk = walk_tree(fs, root_fd)
    for entry in walk:
        if entry.names == ("a", "b", "c", "3"):
            break
    assert len(fs.open_descriptors) == 3
    walk.close()  # type: ignore[attr-defined]
    assert fs.open_descriptors == {}
    os.fstat(root_fd)


def test_whatever_call_fails_is_raised_or_passed_over_and_nothing_stays_open(
    root: Path, root_fd: int
) -> None:
    fs = FaultyFileSystem()
    assert list(walk_tree(fs, root_fd))
    for number in range(len(fs.trace)):
        if fs.trace[number].operation == "close":
            continue
        for onerror in (None, pass_over):
            faulty = FaultyFileSystem(plan=nth_call(number, errno.EIO))
            options = {} if onerror is None else {"onerror": onerror}
            with pytest.raises(OSError, match=os.strerror(errno.EIO)):
                list(walk_tree(faulty, root_fd, **options))
            assert faulty.open_descriptors == {}
        faulty = FaultyFileSystem(plan=nth_call(number, errno.EACCES))
        refused: list[OSError] = []
        if number:
            found = [entry.names for entry in walk_tree(faulty, root_fd, onerror=refused.append)]
            assert set(found) <= set(expected(root))
            assert len(refused) == 1
        assert faulty.open_descriptors == {}


def test_whatever_is_swapped_for_a_link_before_any_call_nothing_outside_is_seen(
    root: Path, root_fd: int
) -> None:
    fs = FaultyFileSystem()
    list(walk_tree(fs, root_fd))
    for number in range(len(fs.trace)):
        fs = FaultyFileSystem()

        def swap(_: Call, fs: FaultyFileSystem = fs, number: int = number) -> None:
            if len(fs.trace) == number:
                (root / "a").rename(root.parent / "aside")
                (root / "a").symlink_to(root.parent / "outside")

        fs.before = swap
        found = [entry.name for entry in walk_tree(fs, root_fd, onerror=pass_over)]
        assert "secret" not in found
        assert "z" in found
        assert fs.open_descriptors == {}
        (root / "a").unlink()
        (root.parent / "aside").rename(root / "a")
