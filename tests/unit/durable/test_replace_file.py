"""Files that are replaced whole in a directory that the caller holds."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from agentforge_sessions.base.files import OsFileSystem, WriteError, replace_file
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


@pytest.mark.parametrize("is_open", [False, True])
def test_a_directory_whose_sync_fails_gets_the_old_content_back(
    tmp_path: Path, directory: int, *, is_open: bool
) -> None:
    (tmp_path / "file").write_bytes(b"old")
    fs = FaultyFileSystem(plan=nth_of("fsync", 1, errno.EIO))
    with (tmp_path / "file").open("rb") as old:
        known = old.fileno() if is_open else None
        with pytest.raises(WriteError, match="the old content is untouched") as caught:
            replace_file(fs, directory, "file", [b"new"], path=tmp_path / "file", previous_fd=known)
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
