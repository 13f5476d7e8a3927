"""Reading a file below a directory: over no link, and never out of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentforge_sessions.base.files import OsFileSystem, ReadError, read_beneath


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text("no")
    folder = tmp_path / "root"
    (folder / "a" / "b").mkdir(parents=True)
    (folder / "a" / "b" / "c.txt").write_bytes(b"content")
    (folder / "link").symlink_to(tmp_path / "secret")
    (folder / "way").symlink_to(tmp_path)
    return folder


def read(root: Path, path: str, max_bytes: int = 100) -> bytes | None:
    return read_beneath(OsFileSystem(), root, path, max_bytes=max_bytes)


def test_file_is_read_whole(root: Path) -> None:
    assert read(root, "a/b/c.txt") == b"content"


@pytest.mark.parametrize("path", ["a/b/none", "none/c.txt", "a/b/c.txt/d"])
def test_what_is_not_there_is_none(root: Path, path: str) -> None:
    assert read(root, path) is None


def test_root_that_is_not_there_has_no_files(root: Path) -> None:
    assert read(root / "none", "a") is None


@pytest.mark.parametrize("path", ["link", "way/secret", "../secret", "a/../../secret", "a/b"])
def test_nothing_but_files_below_is_read(root: Path, path: str) -> None:
    with pytest.raises((ReadError, OSError)):
        read(root, path)


def test_larger_files_are_refused(root: Path) -> None:
    with pytest.raises(ReadError):
        read(root, "a/b/c.txt", max_bytes=6)
