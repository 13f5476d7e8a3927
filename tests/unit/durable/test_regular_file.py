"""Files that are read only if they are files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentforge_sessions.base.files import OsFileSystem, ReadError, read_regular_file


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
