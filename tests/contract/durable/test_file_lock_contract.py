"""What every user of a lock may rely on, whatever is locked and by which way."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from agentforge_sessions.base.files import (
    DirectoryLock,
    FileLock,
    LockTimeout,
    OsFileSystem,
    Patience,
    WriteError,
    try_lock,
    unlock,
)
from agentforge_sessions.base.files.file_lock import has_name, wait_lock
from tests.support.clock import SleptClock
from tests.support.filesystem import FaultyFileSystem, nth_of

FS = OsFileSystem()
ROOT = Path(__file__).parents[3]
OWNER = """
import os, sys
from agentforge_sessions.base.files import (OsFileSystem, try_lock)

fd = os.open(sys.argv[1], os.O_RDONLY)
print(try_lock(OsFileSystem(), fd), flush=True)
sys.stdin.read()
"""


@pytest.fixture(params=["file", "directory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / "place"
    if request.param == "file":
        path.write_text("x")
    else:
        path.mkdir()
    return path


@pytest.fixture
def opened(place: Path) -> Iterator[Callable[[], int]]:
    fds: list[int] = []

    def open_it() -> int:
        fds.append(os.open(place, os.O_RDONLY | os.O_CLOEXEC))
        return fds[-1]

    yield open_it
    for fd in fds:
        with suppress(OSError):
            os.close(fd)


def lock_of(place: Path, **options: float) -> DirectoryLock | FileLock:
    kind = DirectoryLock if place.is_dir() else FileLock
    return kind(FS, place, **options)


def test_one_owner_holds_it_at_a_time(opened: Callable[[], int]) -> None:
    one, other = opened(), opened()
    assert try_lock(FS, one)
    assert not try_lock(FS, other)
    unlock(FS, one)
    assert try_lock(FS, other)


def test_closing_lets_go(opened: Callable[[], int]) -> None:
    one, other = opened(), opened()
    assert try_lock(FS, one)
    os.close(one)
    assert try_lock(FS, other)


def test_unlocking_lets_go_although_a_copy_of_the_descriptor_lives(
    opened: Callable[[], int],
) -> None:
    one, other = opened(), opened()
    assert try_lock(FS, one)
    copy = os.dup(one)
    try:
        os.close(one)
        assert not try_lock(FS, other)
        unlock(FS, copy)
        assert try_lock(FS, other)
    finally:
        os.close(copy)


def test_a_killed_owner_lets_go(place: Path, opened: Callable[[], int]) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER, str(place)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as owner:
        try:
            assert owner.stdout is not None
            assert owner.stdout.readline() == b"True\n"
            assert not try_lock(FS, opened())
        finally:
            owner.kill()
            owner.wait()
    wait_lock(FS, opened())


@pytest.mark.parametrize("refusal", [errno.ENOLCK, errno.EBADF, errno.EACCES, errno.EIO])
def test_a_file_system_without_locks_is_no_lock_that_somebody_holds(
    place: Path, opened: Callable[[], int], refusal: int
) -> None:
    fs = FaultyFileSystem(plan=nth_of("flock", 0, refusal))
    with pytest.raises(OSError, match=os.strerror(refusal)):
        try_lock(fs, opened())
    fs = FaultyFileSystem(plan=nth_of("flock", 0, refusal))
    kind = DirectoryLock if place.is_dir() else FileLock
    with pytest.raises(WriteError) as caught:
        kind(fs, place).acquire()
    assert not isinstance(caught.value, LockTimeout)
    assert caught.value.errno == refusal
    assert fs.open_descriptors == {}


def test_a_path_lock_keeps_out_whoever_locks_a_descriptor_and_the_reverse(
    place: Path, opened: Callable[[], int]
) -> None:
    with lock_of(place) as lock:
        assert has_name(FS, lock.fd, str(place))
        assert not try_lock(FS, opened())
    fd = opened()
    assert try_lock(FS, fd)
    with pytest.raises(LockTimeout):
        lock_of(place, timeout_s=0).acquire()
    unlock(FS, fd)
    lock_of(place, timeout_s=0).acquire().release()


def test_a_name_that_was_given_to_something_else_is_noticed(
    place: Path, opened: Callable[[], int]
) -> None:
    fd = opened()
    assert has_name(FS, fd, str(place))
    place.rename(place.with_name("moved"))
    with pytest.raises(FileNotFoundError):
        has_name(FS, fd, str(place))
    place.symlink_to("moved")
    assert not has_name(FS, fd, str(place))
    with pytest.raises(WriteError):
        (DirectoryLock if place.is_dir() else FileLock)(FS, place).acquire()


def test_pauses_double_up_to_the_longest_and_end_with_the_time() -> None:
    time = SleptClock()
    patience = Patience(1.0, monotonic=time.monotonic, sleep=time.sleep, first_s=0.1, longest_s=0.3)
    while patience.pause():
        pass
    assert time.pauses == pytest.approx([0.1, 0.2, 0.3, 0.3, 0.3])


@pytest.mark.parametrize("timeout_s", [0.0, -1.0])
def test_without_time_there_is_no_pause(timeout_s: float) -> None:
    time = SleptClock()
    assert not Patience(timeout_s, monotonic=time.monotonic, sleep=time.sleep).pause()
    assert time.pauses == []
