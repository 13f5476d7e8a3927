"""Directories that are still there after a power failure."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from .errors import WriteError
from .filesystem import FileSystem, close_reader

_FOLLOWING = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def sync_directory(fs: FileSystem, path: Path) -> None:
    """Sync the directory at `path`.

    Raises:
        OSError: As the system answered.
    """
    fd = fs.open(str(path), _FOLLOWING)
    try:
        fs.fsync(fd)
    finally:
        close_reader(fs, fd)


def make_durable_directory(fs: FileSystem, path: Path) -> bool:
    """Make a directory and its missing parents, each synced into its own parent.

    Args:
        fs: The file system.
        path: The directory; new ones get mode 0700 less the umask.

    Returns:
        True if it was made, False if it was there.

    Raises:
        WriteError: Something on the way is not a directory, or the system refused.
    """
    operation = "stat"
    made: list[Path] = []
    try:
        if path.is_dir():
            return False
        missing = [path]
        while not (parent := missing[-1].parent).is_dir():
            if parent == missing[-1]:
                break
            missing.append(parent)
        for directory in reversed(missing):
            operation = "mkdir"
            try:
                fs.mkdir(str(directory), 0o700)
            except FileExistsError:
                if not directory.is_dir():
                    raise
                continue
            made.append(directory)
            operation = "fsync of the parent directory"
            sync_directory(fs, directory.parent)
    except OSError as error:
        for directory in reversed(made):  # or the next call would take them for durable
            with suppress(OSError):
                fs.rmdir(str(directory))
        raise WriteError(path=path, operation=operation, cause=error) from error
    return True
