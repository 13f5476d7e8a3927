"""Files that are replaced whole, and read only if they are files; directories that last."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentforge_sessions.durable import (
    OsFileSystem,
    ReadError,
    WriteError,
    make_durable_directory,
    read_regular_file,
    replace_file,
)
from tests.support.clock import FakeTokens
from tests.support.filesystem import FaultyFileSystem, nth_of


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[int]:
    fd = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield fd
    os.close(fd)


def test_the_pieces_become_one_file(tmp_path: Path, directory: int) -> None:
    pieces = [b"one ", bytearray(b"two "), memoryview(b"three"), b""] + [b"x"] * 3_000

    replace_file(OsFileSystem(), directory, "file", pieces, path=tmp_path / "file")

    assert (tmp_path / "file").read_bytes() == b"one two three" + b"x" * 3_000
    assert os.listdir(tmp_path) == ["file"]
    assert (tmp_path / "file").stat().st_mode & 0o777 == 0o600


def test_an_empty_file_can_be_written(tmp_path: Path, directory: int) -> None:
    replace_file(OsFileSystem(), directory, "file", [b""], path=tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b""


def test_who_had_the_old_file_open_still_reads_the_old_content(
    tmp_path: Path, directory: int
) -> None:
    (tmp_path / "file").write_bytes(b"old")
    with (tmp_path / "file").open("rb") as reader:
        replace_file(OsFileSystem(), directory, "file", [b"new"], path=tmp_path / "file")
        assert reader.read() == b"old"
    assert (tmp_path / "file").read_bytes() == b"new"


def test_a_link_in_the_files_place_is_replaced_and_not_followed(
    tmp_path: Path, directory: int
) -> None:
    (tmp_path / "other").write_bytes(b"alive")
    (tmp_path / "file").symlink_to("other")
    (tmp_path / ".file.new-00000001.tmp").symlink_to("other")

    replace_file(
        OsFileSystem(), directory, "file", [b"new"], path=tmp_path / "file", token=FakeTokens()
    )

    assert (tmp_path / "other").read_bytes() == b"alive"
    assert not (tmp_path / "file").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"new"
    assert sorted(os.listdir(tmp_path)) == ["file", "other"]


def test_a_directory_whose_sync_fails_gets_the_old_content_back(
    tmp_path: Path, directory: int
) -> None:
    (tmp_path / "file").write_bytes(b"old")
    fs = FaultyFileSystem(plan=nth_of("fsync", 1, errno.EIO))
    with (tmp_path / "file").open("rb") as previous:
        with pytest.raises(WriteError) as caught:
            replace_file(
                fs,
                directory,
                "file",
                [b"new"],
                path=tmp_path / "file",
                previous_fd=previous.fileno(),
            )
        assert not caught.value.visible
    assert (tmp_path / "file").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]


def test_the_old_content_comes_back_for_callers_that_did_not_open_the_old_file(
    tmp_path: Path, directory: int
) -> None:
    (tmp_path / "file").write_bytes(b"old")
    fs = FaultyFileSystem(plan=nth_of("fsync", 1, errno.EIO))
    with pytest.raises(WriteError, match="the old content is untouched") as caught:
        replace_file(fs, directory, "file", [b"new"], path=tmp_path / "file")
    assert not caught.value.visible
    assert (tmp_path / "file").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]
    assert fs.open_descriptors == {}


def test_a_new_file_whose_directory_cant_be_synced_is_gone_again(
    tmp_path: Path, directory: int
) -> None:
    fs = FaultyFileSystem(plan=nth_of("fsync", 1, errno.EIO))
    with pytest.raises(WriteError) as caught:
        replace_file(fs, directory, "file", [b"new"], path=tmp_path / "file")
    assert not caught.value.visible
    assert os.listdir(tmp_path) == []


def test_what_could_not_be_opened_cant_be_put_back_and_that_is_said(
    tmp_path: Path, directory: int
) -> None:
    (tmp_path / "other").write_bytes(b"alive")
    (tmp_path / "file").symlink_to("other")
    fs = FaultyFileSystem(plan=nth_of("fsync", 1, errno.EIO))
    with pytest.raises(WriteError, match="the new content is in place") as caught:
        replace_file(fs, directory, "file", [b"new"], path=tmp_path / "file")
    assert caught.value.visible
    assert (tmp_path / "file").read_bytes() == b"new"
    assert (tmp_path / "other").read_bytes() == b"alive"


def test_a_killed_write_ends_as_it_began(tmp_path: Path, directory: int) -> None:
    (tmp_path / "file").write_bytes(b"old")

    def interrupt(call: object) -> None:
        if getattr(call, "operation", "") == "fsync":
            raise KeyboardInterrupt

    fs = FaultyFileSystem(before=interrupt)
    with pytest.raises(KeyboardInterrupt):
        replace_file(fs, directory, "file", [b"new"], path=tmp_path / "file")
    assert (tmp_path / "file").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["file"]
    assert fs.open_descriptors == {}


def read(path: Path, limit: int = 1_000) -> bytes | None:
    return read_regular_file(OsFileSystem(), str(path), path=path, max_bytes=limit)


def test_a_file_is_read_whole_up_to_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 1_000)
    assert read(path) == b"x" * 1_000
    path.write_bytes(b"x" * 1_001)
    with pytest.raises(ReadError, match="more than the limit"):
        read(path)
    assert read(path, 3_000_000) == b"x" * 1_001
    path.write_bytes(b"y" * 2_500_000)
    assert read(path, 3_000_000) == b"y" * 2_500_000


def test_what_is_not_there_is_none(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert read(tmp_path / "nothing") is None
    assert read(tmp_path / "file" / "below") is None


def test_what_is_no_file_is_refused_and_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to("file")
    (tmp_path / "directory").mkdir()
    for name in ("fifo", "link", "directory"):
        with pytest.raises(ReadError) as caught:
            read(tmp_path / name)
        assert caught.value.path == tmp_path / name
    with pytest.raises(ReadError, match="not a regular file"):
        read(Path("/dev/zero"))


def test_a_missing_directory_is_made_with_its_parents_each_synced(tmp_path: Path) -> None:
    fs = FaultyFileSystem()
    path = tmp_path / "a" / "b" / "c"

    assert make_durable_directory(fs, path) is True

    assert path.is_dir()
    changes = [c for c in fs.trace if c.operation in {"mkdir", "fsync"}]
    assert [(c.operation, os.path.relpath(c.path, tmp_path)) for c in changes] == [
        *(("mkdir", "a"), ("fsync", "."), ("mkdir", "a/b"), ("fsync", "a")),
        *(("mkdir", "a/b/c"), ("fsync", "a/b")),
    ]
    fs.begin()
    assert make_durable_directory(fs, path) is False
    assert fs.trace == []


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
