"""Descend from a directory without following links or leaving it."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from enum import Enum, auto

from .filesystem import DIRECTORY_FLAGS, FileSystem, close_reader


class Missing(Enum):
    """What to do about a missing directory on the way."""

    REFUSED = auto()
    MADE = auto()
    MADE_DURABLY = auto()  # and synced into its parent


def is_plain_name(name: str) -> bool:
    """Return whether a text names an entry of a directory, neither `.` nor `..` nor a path."""
    return name not in {"", ".", ".."} and "/" not in name and "\0" not in name


@contextmanager
def directory_beneath(
    fs: FileSystem,
    root_fd: int,
    names: Iterable[str],
    *,
    missing: Missing = Missing.REFUSED,
) -> Iterator[int]:
    """Hold open a directory below another; without names, the other directory itself.

    Guarantees: each directory is opened by its name in its parent, so the descriptor is of a
    directory that was below the first one when it was opened, even if directories are renamed or
    swapped for links in between. At most two descriptors are open.

    Args:
        fs: The file system.
        root_fd: The first directory, open; it stays open.
        names: The directories on the way, from the top.
        missing: What to do about a missing one; new ones get mode 0700 less the umask.

    Raises:
        OSError: The system refused: `ELOOP` where a name is a symbolic link, `ENOTDIR` where it is
            neither a link nor a directory; `EXDEV` for a name that is not plain, without a look-up.
    """
    fd = root_fd
    try:
        for name in names:
            made = missing is not Missing.REFUSED and _make(fs, fd, name)
            below = open_directory(fs, name, dir_fd=fd)
            above, fd = fd, below
            try:
                if missing is Missing.MADE_DURABLY and (made or is_bare(below)):
                    fs.fsync(above)
            finally:
                if above != root_fd:
                    close_reader(fs, above)
        yield fd
    finally:
        if fd != root_fd:
            close_reader(fs, fd)


def open_directory(fs: FileSystem, name: str, *, dir_fd: int) -> int:
    """Open a directory by its name in another; raises as `directory_beneath` does."""
    _require_plain(name)
    try:
        return fs.open(name, DIRECTORY_FLAGS, dir_fd=dir_fd)
    except NotADirectoryError as error:  # Linux raises this for a link as well
        if stat.S_ISLNK(fs.stat(name, dir_fd=dir_fd).st_mode):
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), name) from error
        raise


def is_bare(directory: int | str) -> bool:
    """Return whether a directory, open or by its path, is empty: it may have been made just now.

    Its maker may have been killed before syncing its parent; nothing is put into it before that.
    """
    try:
        with os.scandir(directory) as entries:
            return next(entries, None) is None
    except PermissionError:
        return False


def _make(fs: FileSystem, parent_fd: int, name: str) -> bool:
    """Create a directory; return whether it was missing."""
    _require_plain(name)
    try:
        fs.mkdir(name, 0o700, dir_fd=parent_fd)
    except FileExistsError:
        return False
    return True


def _require_plain(name: str) -> None:
    if not is_plain_name(name):
        raise OSError(errno.EXDEV, "the path leads out of its directory", name)
