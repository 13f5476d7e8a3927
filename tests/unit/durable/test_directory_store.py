"""Directories that are still there after a power failure."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path

import pytest

from agentforge_sessions.base.files import OsFileSystem, WriteError, make_durable_directory
from tests.support.filesystem import FaultyFileSystem, nth_of


def test_a_missing_directory_is_made_with_its_parents_each_synced(tmp_path: Path) -> None:
    fs = FaultyFileSystem()
    path = tmp_path / "a" / "b" / "c"
    (tmp_path / "more").touch()

    assert make_durable_directory(fs, path) is True

    assert path.is_dir()
    changes = [c for c in fs.trace if c.operation in {"mkdir", "fsync"}]
    assert [(c.operation, os.path.relpath(c.path, tmp_path)) for c in changes] == [
        *(("mkdir", "a"), ("fsync", "."), ("mkdir", "a/b"), ("fsync", "a")),
        *(("mkdir", "a/b/c"), ("fsync", "a/b")),
    ]
    (path / "content").touch()
    fs.begin()
    assert make_durable_directory(fs, path) is False
    assert fs.trace == []


def test_an_empty_directory_may_be_a_killed_processs_and_is_synced(tmp_path: Path) -> None:
    """What is in a directory was put there after its name was durable."""
    fs = FaultyFileSystem()
    path = tmp_path / "a" / "b"
    path.mkdir(parents=True)

    assert make_durable_directory(fs, path) is False
    assert synced(fs, tmp_path) == ["a"]
    path.rmdir()
    assert make_durable_directory(fs, path) is True
    assert synced(fs, tmp_path) == [".", "a"]


def test_an_empty_directory_that_can_not_be_synced_is_an_error(tmp_path: Path) -> None:
    fs = FaultyFileSystem(plan=nth_of("fsync", 0, errno.EIO))
    (tmp_path / "a").mkdir()
    with pytest.raises(WriteError) as caught:
        make_durable_directory(fs, tmp_path / "a")
    assert caught.value.errno == errno.EIO
    assert os.listdir(tmp_path) == ["a"]


def synced(fs: FaultyFileSystem, top: Path) -> list[str]:
    found = [os.path.relpath(one.path, top) for one in fs.trace if one.operation == "fsync"]
    fs.begin()
    return found


def test_directories_that_could_not_be_synced_are_not_left_for_durable_ones(
    tmp_path: Path,
) -> None:
    fs = FaultyFileSystem(plan=nth_of("fsync", 1, errno.EIO))
    with pytest.raises(WriteError) as caught:
        make_durable_directory(fs, tmp_path / "a" / "b" / "c")
    assert caught.value.errno == errno.EIO
    assert os.listdir(tmp_path) == []


def test_something_on_the_way_that_is_no_directory_is_a_write_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "loop").symlink_to("loop")
    for path in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / "loop" / "x"):
        with pytest.raises(WriteError):
            make_durable_directory(OsFileSystem(), path)
    assert (tmp_path / "file").read_text() == "x"


def test_many_who_make_one_directory_at_once_all_succeed(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "c"
    failures: list[BaseException] = []
    start = threading.Barrier(8)

    def work() -> None:
        start.wait()
        try:
            make_durable_directory(OsFileSystem(), path)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert path.is_dir()
