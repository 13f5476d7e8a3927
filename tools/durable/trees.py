"""Removing a directory tree without ever leaving it.

A tree goes in two steps: it is renamed, inside the same parent, to a name that no listing shows,
so that nobody ever sees half of it; then it is emptied through directory descriptors, following no
link. A crash between the two leaves a discarded name that `sweep_discarded` finishes.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

from tools.durable.errors import RemovalError, WriteError
from tools.durable.filesystem import DIRECTORY_FLAGS, FileSystem, close_reader

DISCARDED_PREFIX = ".discarded-"


def discard_tree(
    fs: FileSystem, parent_fd: int, name: str, *, parent: Path, token: Callable[[], str]
) -> None:
    """Take a directory out of its parent and delete all that it holds.

    Args:
        fs: The file system.
        parent_fd: The parent, open and locked by the caller.
        name: The directory's name in it.
        parent: The parent's path, for messages.
        token: Gives a fresh random text for the name out of sight.

    Raises:
        WriteError: It could not be taken out of sight; nothing was deleted.
        RemovalError: It is out of sight, but something in it could not be deleted.
    """
    hidden = f"{DISCARDED_PREFIX}{token()}"
    operation = "rename"
    try:
        fs.rename(name, hidden, src_dir_fd=parent_fd, dst_dir_fd=parent_fd)
        operation = "fsync of the directory"
        fs.fsync(parent_fd)
    except OSError as error:
        if operation != "rename":
            try:
                fs.rename(hidden, name, src_dir_fd=parent_fd, dst_dir_fd=parent_fd)
            except OSError:
                raise RemovalError(path=parent / hidden, cause=error) from error
        raise WriteError(path=parent / name, operation=operation, cause=error) from error
    _delete(fs, parent_fd, hidden, path=parent / hidden)


def sweep_discarded(fs: FileSystem, parent_fd: int, *, parent: Path) -> list[RemovalError]:
    """Finish the removals that a crash left half done.

    Args:
        fs: The file system.
        parent_fd: The parent, open and locked by the caller.
        parent: Its path, for messages.

    Returns:
        What still could not be deleted.
    """
    left = []
    for name in fs.listdir(parent_fd):
        if name.startswith(DISCARDED_PREFIX):
            try:
                _delete(fs, parent_fd, name, path=parent / name)
            except RemovalError as error:
                left.append(error)
    return left


def _delete(fs: FileSystem, parent_fd: int, name: str, *, path: Path) -> None:
    try:
        root_fd = fs.open(name, DIRECTORY_FLAGS, dir_fd=parent_fd)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno not in {errno.ENOTDIR, errno.ELOOP}:
            raise RemovalError(path=path, cause=error) from error
        try:
            fs.unlink(name, dir_fd=parent_fd)
        except OSError as cause:
            raise RemovalError(path=path, cause=cause) from cause
        return
    try:
        device = fs.fstat(root_fd).st_dev
        _empty(fs, root_fd, root_fd, device, _Names())
    except OSError as error:
        raise RemovalError(path=path, cause=error) from error
    finally:
        close_reader(fs, root_fd)
    try:
        fs.rmdir(name, dir_fd=parent_fd)
        fs.fsync(parent_fd)
    except OSError as error:
        raise RemovalError(path=path, cause=error) from error


class _Names:
    """Fresh names for directories that are lifted to the top of the tree being emptied."""

    def __init__(self) -> None:
        self._count = 0

    def fresh(self) -> str:
        self._count += 1
        return f"{DISCARDED_PREFIX}{os.getpid()}-{self._count}"


def _empty(fs: FileSystem, root_fd: int, fd: int, device: int, names: _Names) -> None:
    """Delete all that `fd` holds: files at once; a directory is lifted to the top and queued.

    Lifting keeps two descriptors open at the most however deep the tree is, needs no recursion
    and no long path.
    """
    queue: list[str] = []
    _strip(fs, root_fd, fd, device, names, queue, top=True)
    while queue:
        name = queue.pop()
        child_fd = fs.open(name, DIRECTORY_FLAGS, dir_fd=root_fd)
        try:
            if fs.fstat(child_fd).st_dev != device:
                raise OSError(errno.EXDEV, "another file system is mounted there")
            _strip(fs, root_fd, child_fd, device, names, queue, top=False)
        finally:
            close_reader(fs, child_fd)
        fs.rmdir(name, dir_fd=root_fd)


def _strip(
    fs: FileSystem,
    root_fd: int,
    fd: int,
    device: int,
    names: _Names,
    queue: list[str],
    *,
    top: bool,
) -> None:
    for entry in fs.listdir(fd):
        status = fs.stat(entry, dir_fd=fd)
        if not stat.S_ISDIR(status.st_mode):
            fs.unlink(entry, dir_fd=fd)
            continue
        if status.st_dev != device:
            raise OSError(errno.EXDEV, "another file system is mounted there")
        if top:
            queue.append(entry)
            continue
        while True:
            lifted = names.fresh()
            try:
                fs.stat(lifted, dir_fd=root_fd)
            except FileNotFoundError:
                break
        fs.rename(entry, lifted, src_dir_fd=fd, dst_dir_fd=root_fd)
        queue.append(lifted)
