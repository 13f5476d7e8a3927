"""What every way down a tree guarantees: over no link, never out, whatever is swapped meanwhile."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agentforge_sessions.base.files.safe_path import (
    Missing,
    directory_beneath,
    is_plain_name,
    open_directory,
)
from tests.support.filesystem import Call, FaultyFileSystem, every_call_from

ALL = list(Missing)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    path = tmp_path / "root"
    (path / "a/b/c").mkdir(parents=True)
    (tmp_path / "outside/b/c").mkdir(parents=True)
    return path


@pytest.fixture
def root_fd(root: Path) -> Iterator[int]:
    fd = os.open(root, os.O_RDONLY)
    yield fd
    os.close(fd)


def reached(fs: FaultyFileSystem, root_fd: int, names: list[str], missing: Missing) -> int:
    """Return the inode of the directory that a way leads to."""
    with directory_beneath(fs, root_fd, names, missing=missing) as fd:
        return os.fstat(fd).st_ino


@pytest.mark.parametrize("missing", ALL)
@pytest.mark.parametrize("path", ["", "a", "a/b", "a/b/c"])
def test_it_leads_where_the_names_say(
    root: Path, root_fd: int, path: str, missing: Missing
) -> None:
    names = path.split("/") if path else []
    assert reached(FaultyFileSystem(), root_fd, names, missing) == (root / path).stat().st_ino


@pytest.mark.parametrize("missing", ALL)
@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "/", "/a", "../outside", "a\0b", "\0"])
def test_a_name_that_is_not_plain_is_looked_up_by_nobody(
    root_fd: int, name: str, missing: Missing
) -> None:
    assert not is_plain_name(name)
    fs = FaultyFileSystem()
    with pytest.raises(OSError, match="leads out") as caught:
        reached(fs, root_fd, [name], missing)
    assert caught.value.errno == errno.EXDEV
    assert fs.trace == []
    with pytest.raises(OSError, match="leads out"):
        reached(fs, root_fd, ["a", name, "b"], missing)
    assert fs.open_descriptors == {}


@pytest.mark.parametrize("missing", ALL)
@pytest.mark.parametrize("where", ["a", "a/b", "a/b/c"])
@pytest.mark.parametrize("target", ["outside", "inside", "nowhere", "itself"])
def test_a_link_on_the_way_is_refused_wherever_it_leads(
    root: Path, root_fd: int, where: str, target: str, missing: Missing
) -> None:
    place = root / where
    place.rename(root / "moved")
    place.symlink_to(
        {"outside": root.parent / "outside", "inside": root / "moved", "nowhere": "x"}.get(
            target, place.name
        )
    )
    fs = FaultyFileSystem()
    with pytest.raises(OSError, match=os.strerror(errno.ELOOP)) as caught:
        reached(fs, root_fd, ["a", "b", "c"], missing)
    assert caught.value.errno == errno.ELOOP
    assert fs.open_descriptors == {}
    assert list((root.parent / "outside").rglob("*")) == [
        root.parent / "outside/b",
        root.parent / "outside/b/c",
    ]


@pytest.mark.parametrize("missing", ALL)
@pytest.mark.parametrize("make", [os.mkfifo, lambda path: Path(path).write_text("x")])
def test_what_is_no_directory_is_said_so_and_never_waited_on(
    root: Path, root_fd: int, make: Callable[[Path], object], missing: Missing
) -> None:
    make(root / "thing")
    with pytest.raises(NotADirectoryError):
        reached(FaultyFileSystem(), root_fd, ["thing", "x"], missing)
    with pytest.raises(NotADirectoryError):
        os.close(open_directory(FaultyFileSystem(), "thing", dir_fd=root_fd))


@pytest.mark.parametrize("missing", ALL)
def test_whatever_is_swapped_before_any_call_it_ends_below_the_root_or_is_refused(
    root: Path, root_fd: int, missing: Missing
) -> None:
    outside = root.parent / "outside"

    def calls_of(fs: FaultyFileSystem) -> int:
        reached(fs, root_fd, ["a", "b", "c"], missing)
        return len(fs.trace)

    total = calls_of(FaultyFileSystem())
    ours = {path.stat().st_ino for path in (root, *root.rglob("*"))}
    for number in range(total):
        fs = FaultyFileSystem()

        def swap(_: Call, fs: FaultyFileSystem = fs, number: int = number) -> None:
            if len(fs.trace) == number:
                (root / "a").rename(root / "aside")
                (root / "a").symlink_to(outside)

        fs.before = swap
        try:
            assert reached(fs, root_fd, ["a", "b", "c"], missing) in ours
        except OSError as error:
            assert error.errno == errno.ELOOP  # noqa: PT017 (it may also have been opened before)
        assert fs.open_descriptors == {}
        (root / "a").unlink()
        (root / "aside").rename(root / "a")
    assert sorted(os.listdir(outside)) == ["b"]


def test_what_is_missing_is_refused_unless_it_is_to_be_made(root: Path, root_fd: int) -> None:
    names = ["a", "new", "newer"]
    with pytest.raises(FileNotFoundError):
        reached(FaultyFileSystem(), root_fd, names, Missing.REFUSED)
    assert not (root / "a/new").exists()
    inode = reached(FaultyFileSystem(), root_fd, names, Missing.MADE)
    assert (root / "a/new/newer").stat().st_ino == inode
    assert (root / "a/new").stat().st_mode & 0o777 == 0o700


def test_each_directory_that_is_made_durably_is_synced_into_the_one_above(
    root: Path, root_fd: int
) -> None:
    fs = FaultyFileSystem()
    fs.names[root_fd] = str(root)
    reached(fs, root_fd, ["a", "new", "newer"], Missing.MADE_DURABLY)
    steps = [step for step in fs.steps(root) if step.split()[0] in {"mkdir", "fsync"}]
    assert steps == ["mkdir a", "mkdir a/new", "fsync a", "mkdir a/new/newer", "fsync a/new"]


def test_an_empty_one_which_a_killed_process_may_have_made_is_synced_as_well(
    root: Path, root_fd: int
) -> None:
    fs = FaultyFileSystem()
    fs.names[root_fd] = str(root)
    Path(root, "left", "empty").mkdir(parents=True)
    reached(fs, root_fd, ["left", "empty"], Missing.MADE_DURABLY)
    assert [step for step in fs.steps(root) if step.startswith("fsync")] == ["fsync left"]


@pytest.mark.parametrize("missing", ALL)
def test_two_descriptors_are_open_at_the_most_and_none_afterwards(
    root: Path, root_fd: int, missing: Missing
) -> None:
    names = [f"d{number}" for number in range(200)]
    Path(root, *names).mkdir(parents=True)
    fs = FaultyFileSystem()
    most = 0

    def count(_: Call) -> None:
        nonlocal most
        most = max(most, len(fs.open_descriptors))

    fs.before = count
    reached(fs, root_fd, names, missing)
    assert most <= 2
    assert fs.open_descriptors == {}
    os.fstat(root_fd)  # the caller's own is still open


@pytest.mark.parametrize("missing", ALL)
@pytest.mark.parametrize("refusal", [errno.EIO, errno.EACCES, errno.ENOSPC])
def test_whatever_call_fails_is_said_and_leaves_no_descriptor_open(
    root: Path, root_fd: int, refusal: int, missing: Missing
) -> None:
    for number in range(4):
        fs = FaultyFileSystem(plan=every_call_from(number, refusal, ("open", "mkdir", "fsync")))
        with pytest.raises(OSError, match=os.strerror(refusal)):
            reached(fs, root_fd, ["a", "b", "c", "d"], missing)
        assert fs.open_descriptors == {}
