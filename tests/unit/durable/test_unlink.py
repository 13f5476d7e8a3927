"""A directory is no file to remove, whatever number the system has for that."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from agentforge_sessions.base.files.filesystem import unlink_as_linux


def refusing(path: str, *, dir_fd: int | None = None) -> None:
    """`unlink` of macOS, of a directory and of an immutable file."""
    raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), path)


def test_a_directory_is_told_from_a_file_that_can_not_be_removed(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(IsADirectoryError):
            unlink_as_linux("folder", dir_fd=fd, unlink=refusing)
        with pytest.raises(PermissionError):
            unlink_as_linux("file", dir_fd=fd, unlink=refusing)
        with pytest.raises(IsADirectoryError):
            unlink_as_linux("folder", dir_fd=fd)
        unlink_as_linux("file", dir_fd=fd)
    finally:
        os.close(fd)
    assert os.listdir(tmp_path) == ["folder"]
