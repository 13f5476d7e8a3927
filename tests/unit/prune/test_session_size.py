"""What a directory holds, whatever its shape: its sizes, and what in it is not ours."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from agentforge_sessions.base.files import OsFileSystem, empty_directory
from agentforge_sessions.prune import PruneResult, RetentionPolicy, prune
from agentforge_sessions.prune.removal.session_size import LEVELS, SessionSize
from agentforge_sessions.sandbox import SandboxTarget
from tests.support.filesystem import Call, FaultyFileSystem
from tests.support.prune_sites import Site

DEEP = LEVELS + 100
SIDES = 25


@pytest.fixture(autouse=True)
def _emptied(tmp_path: Path) -> Iterator[None]:
    """Leave no tree that is too deep for pytest to remove."""
    yield
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    assert empty_directory(OsFileSystem(), fd) == []
    os.close(fd)


def look(top: Path, fs: FaultyFileSystem) -> SessionSize:
    fd = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    try:
        return SessionSize(fs, fd, os.fstat(fd))
    finally:
        os.close(fd)


def _names(level: int) -> str:
    return "adz" if level % SIDES == 0 else "d"


@contextmanager
def bottom_of(top: Path, levels: int) -> Iterator[int]:
    """Nest directories, now and then between two others, with a file in each; open the last."""
    fd = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    for level in range(levels):
        for name in _names(level):
            os.mkdir(name, dir_fd=fd)
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
            file = os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=inner)
            os.write(file, b"0123456789")
            os.close(file)
            os.close(inner)
        below = os.open("d", os.O_RDONLY | os.O_DIRECTORY, dir_fd=fd)
        os.close(fd)
        fd = below
    try:
        yield fd
    finally:
        os.close(fd)


@pytest.mark.parametrize("levels", [1, LEVELS - 1, LEVELS, LEVELS + 1, DEEP])
def test_a_tree_of_any_depth_is_measured_whole_with_few_descriptors(
    tmp_path: Path, levels: int
) -> None:
    with bottom_of(tmp_path, levels):
        pass
    most = 0
    fs = FaultyFileSystem()

    def count(_: object) -> None:
        nonlocal most
        most = max(most, len(fs.open_descriptors))

    fs.before = count
    size = look(tmp_path, fs)

    directories = sum(len(_names(level)) for level in range(levels))
    assert size.size_bytes == directories * 10
    assert size.files == directories * 2
    assert (size.foreign, size.mounted, size.unseen) == (None, None, None)
    assert most <= LEVELS + 2
    assert fs.open_descriptors == {}


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a file away takes root")
@pytest.mark.parametrize("levels", [3, DEEP])
def test_another_users_file_is_found_however_deep_it_is(site: Site, levels: int) -> None:
    theirs, old = site.add(age_hours=60), site.add(age_hours=50)
    with bottom_of(site.root / theirs, levels) as bottom:
        os.chown("file", 12_345, -1, dir_fd=bottom)
        result = _run(site)
        assert os.stat("file", dir_fd=bottom).st_nlink == 1
    assert result.deleted_sessions == [old]
    assert [(one.session_id, str(one.reason)) for one in result.skipped] == [
        (theirs, "other_owner")
    ]


@pytest.mark.parametrize("call", ["open", "listdir"])
def test_what_can_not_be_looked_at_keeps_its_session(site: Site, call: str) -> None:
    hidden, old = site.add(age_hours=60), site.add(age_hours=50)
    (site.root / hidden / "deep" / "secret").mkdir(parents=True)

    def refused(_: int, one: Call) -> int | None:
        there = one.operation == call and one.path.endswith("/secret")
        return errno.EACCES if there else None

    site.fs.plan = refused
    result = _run(site)

    assert result.deleted_sessions == [old]
    assert result.skipped_sessions == []
    assert list(result.errors) == [hidden]
    assert "nobody knows whose it is" in result.errors[hidden]
    assert (site.root / hidden / "deep" / "secret").is_dir()


def test_directories_that_are_moved_meanwhile_are_told_as_unseen(tmp_path: Path) -> None:
    with bottom_of(tmp_path, DEEP):
        pass
    inner = tmp_path.joinpath(*["d"] * 50)
    fs = FaultyFileSystem()

    def move(call: Call) -> None:
        if call.path.endswith("/..") and inner.exists():
            inner.rename(tmp_path / "moved")

    fs.before = move
    size = look(tmp_path, fs)

    assert (tmp_path / "moved").exists()
    assert size.unseen == ".."
    assert fs.open_descriptors == {}


def test_what_goes_while_it_is_looked_at_is_not_missed(tmp_path: Path) -> None:
    with bottom_of(tmp_path, 3):
        pass
    fs = FaultyFileSystem()

    def remove(call: Call) -> None:
        with suppress(FileNotFoundError):
            if call.operation == "stat" and call.path.endswith("/file"):
                os.unlink(tmp_path / "z" / "file")

    fs.before = remove
    assert look(tmp_path, fs).unseen is None


def _run(site: Site) -> PruneResult:
    policy = RetentionPolicy(max_age_hours=24)
    return prune(SandboxTarget(site.root), policy, outside=site.outside())
