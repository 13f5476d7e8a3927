"""A lock on a directory: one owner at a time, gone with its owner."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from agentforge_sessions.base.files import DirectoryLock, LockTimeout, OsFileSystem, WriteError
from agentforge_sessions.base.files.file_lock import patient_for
from tests.support.clock import SleptClock
from tests.support.filesystem import FaultyFileSystem


def test_only_one_owner_at_a_time_between_threads(tmp_path: Path) -> None:
    fs = OsFileSystem()
    inside = 0
    most = 0
    turns = 0
    guard = threading.Lock()

    def work() -> None:
        nonlocal inside, most, turns
        for _ in range(40):
            # Nobody is promised a turn before the others have had all of theirs.
            with DirectoryLock(fs, tmp_path, timeout_s=60):
                with guard:
                    inside += 1
                    most = max(most, inside)
                os.stat(tmp_path)
                with guard:
                    inside -= 1
                    turns += 1

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    assert turns == 160


def test_a_held_lock_times_out_after_the_time_that_was_given(tmp_path: Path) -> None:
    time = SleptClock()
    fs = FaultyFileSystem()
    with DirectoryLock(OsFileSystem(), tmp_path):
        waiting = DirectoryLock(
            fs, tmp_path, timeout_s=2.5, monotonic=time.monotonic, sleep=time.sleep
        )
        with pytest.raises(LockTimeout) as caught:
            waiting.acquire()
    assert caught.value.path == tmp_path
    assert caught.value.timeout_s == 2.5
    assert 2.5 <= sum(time.pauses) < 2.6
    assert time.pauses == sorted(time.pauses)
    assert fs.open_descriptors == {}
    assert isinstance(caught.value, WriteError)


def test_a_lock_that_is_let_go_while_we_wait_is_taken(tmp_path: Path) -> None:
    owner = DirectoryLock(OsFileSystem(), tmp_path).acquire()
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            owner.release()

    with DirectoryLock(OsFileSystem(), tmp_path, sleep=sleep) as lock:
        assert lock.fd >= 0
    assert len(pauses) == 3
    assert lock.fd == -1


def test_a_directory_that_was_replaced_while_we_waited_is_not_taken_for_it(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    owner = DirectoryLock(OsFileSystem(), place).acquire()

    def replace_it(_: float) -> None:
        place.rename(tmp_path / "old")
        place.mkdir()
        owner.release()

    with DirectoryLock(OsFileSystem(), place, sleep=replace_it) as lock:
        assert os.fstat(lock.fd).st_ino == place.stat().st_ino
        assert os.fstat(lock.fd).st_ino != (tmp_path / "old").stat().st_ino


def test_a_directory_that_was_replaced_between_open_and_lock_is_opened_anew(
    tmp_path: Path,
) -> None:
    place = tmp_path / "place"
    place.mkdir()
    fs = FaultyFileSystem()

    def replace_it(call: object) -> None:
        if getattr(call, "operation", "") == "flock":
            fs.before = None
            place.rename(tmp_path / "old")
            place.mkdir()

    fs.before = replace_it
    with DirectoryLock(fs, place) as lock:
        assert os.fstat(lock.fd).st_ino == place.stat().st_ino
    assert [call.operation for call in fs.trace].count("flock") == 2
    assert fs.open_descriptors == {}


def test_a_directory_that_vanished_is_said_so(tmp_path: Path) -> None:
    fs = FaultyFileSystem()
    place = tmp_path / "place"
    with pytest.raises(FileNotFoundError):
        DirectoryLock(fs, place).acquire()
    place.mkdir()
    fs.before = lambda call: place.rmdir() if call.operation == "flock" else None
    with pytest.raises(FileNotFoundError):
        DirectoryLock(fs, place).acquire()
    assert fs.open_descriptors == {}


def test_a_link_is_followed_only_where_that_is_asked_for(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "link"
    link.symlink_to("real")
    with pytest.raises(WriteError):
        DirectoryLock(OsFileSystem(), link).acquire()
    with DirectoryLock(OsFileSystem(), link, follow=True) as lock:
        assert os.fstat(lock.fd).st_ino == (tmp_path / "real").stat().st_ino
    (tmp_path / "file").write_text("x")
    with pytest.raises(WriteError):
        DirectoryLock(OsFileSystem(), tmp_path / "file").acquire()


def test_releasing_twice_does_no_harm(tmp_path: Path) -> None:
    lock = DirectoryLock(OsFileSystem(), tmp_path).acquire()
    lock.release()
    lock.release()
    assert lock.fd == -1


def test_all_waits_of_a_block_together_take_as_long_as_it_may_wait(tmp_path: Path) -> None:
    fs, clock = OsFileSystem(), SleptClock()
    one, other = tmp_path / "one", tmp_path / "other"

    def wait(path: Path, *, timeout_s: float = 10.0) -> float:
        before = clock.monotonic()
        with pytest.raises(LockTimeout):
            DirectoryLock(
                fs, path, timeout_s=timeout_s, monotonic=clock.monotonic, sleep=clock.sleep
            ).acquire()
        return clock.monotonic() - before

    for path in (one, other):
        path.mkdir()
    with DirectoryLock(fs, one), DirectoryLock(fs, other):
        with patient_for(2.0):
            assert 1.0 <= wait(one, timeout_s=1.0) < 1.1
            assert 0.9 <= wait(other) < 1.1
            assert wait(one) == 0
        assert wait(one) >= 10.0
