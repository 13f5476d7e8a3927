"""Folders in a session's directory, created on demand, and the files of its runs' steps."""

from __future__ import annotations

from pathlib import Path

from ...base.files import (
    DirectoryLock,
    FileSystem,
    WriteError,
    replace_file,
)
from ...base.files.filesystem import DIRECTORY_FLAGS
from ...base.files.safe_path import is_bare


def make_folder(fs: FileSystem, path: Path) -> None:
    """Create a folder in a session's directory, with mode 0700 and durably, if it is missing.

    Args:
        fs: The file system.
        path: The folder; its parent, the session's directory, must exist.

    Raises:
        FileNotFoundError: The session no longer exists.
        WriteError: The system refused.
    """
    operation = "open the session's directory"
    try:
        parent_fd = fs.open(str(path.parent), DIRECTORY_FLAGS)
        try:
            operation = "mkdir"
            try:
                fs.mkdir(path.name, 0o700, dir_fd=parent_fd)
            except FileExistsError:
                if not is_bare(str(path)):
                    return
            operation = "fsync of the session's directory"
            fs.fsync(parent_fd)
        finally:
            fs.close(parent_fd)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise WriteError(path=path, operation=operation, cause=error) from error


def keep_step(fs: FileSystem, path: Path, data: bytes) -> None:
    """Write a step, atomically and durably.

    Raises:
        WriteError: The file system refused, or the session no longer exists.
    """
    folder = path.parent
    try:
        make_folder(fs, folder)  # never creates the session's own directory
        with DirectoryLock(fs, folder) as lock:
            replace_file(fs, lock.fd, path.name, [data], path=path)
    except FileNotFoundError as error:
        raise WriteError(path=folder, operation="lock the steps", cause=error) from error
