"""Remove a directory tree without ever leaving it.

A tree is renamed, inside the same parent, to a name that no listing shows, so that no reader sees
half of it; then it is emptied through directory descriptors, following no link. A crash between the
two leaves a discarded name; `sweep_discarded` finishes the removal.
"""

# Annotations are evaluated here: as texts, each field's would have to be compiled.

import errno
import os
import re
import stat
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

from .errors import RemovalError, WriteError
from .filesystem import DIRECTORY_FLAGS, FileSystem, close_reader

DISCARDED_PREFIX = ".discarded-"
# Not compiled here: `re` caches it when needed, and most processes don't need it.
_DISCARDED: Final = r"\.discarded-(?:(?:new-)?[0-9a-f]{1,32}|[0-9]+-[0-9]+|.+~[0-9a-f]+-[0-9a-f]+)"


def discard_tree(
    fs: FileSystem,
    parent_fd: int,
    name: str,
    *,
    parent: Path,
    token: Callable[[], str],
    identity: tuple[int, int] | None = None,
) -> None:
    """Hide a directory and delete all that it holds.

    Args:
        fs: The file system.
        parent_fd: The parent, open and locked by the caller.
        name: The directory's name in it.
        parent: The parent's path, for messages.
        token: Returns a fresh random text for the hidden name.
        identity: Device and inode of the directory, or None. Anything else is put back.

    Raises:
        WriteError: It could not be hidden, or is not the expected directory; nothing was deleted.
        RemovalError: It is hidden, but something in it could not be deleted.
    """
    hidden = f"{DISCARDED_PREFIX}{token()}"
    operation = "rename"
    try:
        fs.rename(name, hidden, src_dir_fd=parent_fd, dst_dir_fd=parent_fd)
        if identity is not None:
            operation = "second look"
            _require_identity(fs, parent_fd, hidden, identity)
        operation = "fsync of the directory"
        fs.fsync(parent_fd)
    except OSError as error:
        renamed = operation != "rename"
        if renamed and not put_back(fs, hidden, name, from_fd=parent_fd, to_fd=parent_fd):
            raise RemovalError(path=parent / hidden, cause=error) from error
        raise WriteError(path=parent / name, operation=operation, cause=error) from error
    _delete(fs, parent_fd, hidden, path=parent / hidden)


def _require_identity(
    fs: FileSystem, parent_fd: int, hidden: str, identity: tuple[int, int]
) -> None:
    found = fs.stat(hidden, dir_fd=parent_fd)
    if (found.st_dev, found.st_ino) != identity:
        raise OSError(errno.ESTALE, "something else was put in its place meanwhile")


def put_back(fs: FileSystem, hidden: str, name: str, *, from_fd: int, to_fd: int) -> bool:
    """Rename a hidden entry to `name`; return False if it can't be, as when the name is taken."""
    try:
        fs.stat(name, dir_fd=to_fd)
    except FileNotFoundError:
        with suppress(OSError):
            fs.rename(hidden, name, src_dir_fd=from_fd, dst_dir_fd=to_fd)
            return True
    except OSError:
        pass
    return False


def is_discarded(name: str) -> bool:
    """Return whether a name is one that this library gives to hidden entries.

    Other names with the same prefix are not touched.
    """
    return name.startswith(DISCARDED_PREFIX) and re.fullmatch(_DISCARDED, name) is not None


def sweep_discarded(fs: FileSystem, parent_fd: int, *, parent: Path) -> list[RemovalError]:
    """Finish the removals that a crash interrupted, in a directory that the caller locked.

    Returns:
        What still could not be deleted.
    """
    left = []
    names = _Names(fs, parent_fd)
    for name in fs.listdir(parent_fd):
        if not is_discarded(name):
            continue
        try:
            ours = names.fresh()  # a mount point can't be renamed, and is not entered
            fs.rename(name, ours, src_dir_fd=parent_fd, dst_dir_fd=parent_fd)
        except FileNotFoundError:
            continue
        except OSError as error:
            left.append(RemovalError(path=parent / name, cause=error))
            continue
        try:
            _delete(fs, parent_fd, ours, path=parent / ours)
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
        left = remove_directory(fs, parent_fd, name, root_fd)
        if not left:
            fs.fsync(parent_fd)
    except OSError as error:
        raise RemovalError(path=path, cause=error) from error
    finally:
        close_reader(fs, root_fd)
    if left:
        raise RemovalError(path=path, cause=left[0].cause)


_NO_FILE = frozenset({errno.EISDIR, errno.EPERM})
"""The errors of `unlink` for a directory; EPERM is POSIX's, and also an immutable file's."""
_FILLED = frozenset({errno.ENOTEMPTY, errno.EEXIST})
"""The errors of `rmdir` for a directory that is not empty; POSIX allows both."""

MAX_REFILLS: Final = 100
"""How often to empty a directory again because a process in it added something."""


class Undeletable(NamedTuple):
    """An entry that could not be deleted.

    Attributes:
        name: Its name in its directory, which may be any of the tree.
        cause: The system's error.
    """

    name: str
    cause: OSError


class RemovalCancelled(Exception):
    """The caller cancelled the emptying of a directory."""


def _never() -> bool:
    return False


def remove_directory(
    fs: FileSystem,
    parent_fd: int,
    name: str,
    fd: int,
    *,
    cancelled: Callable[[], bool] = _never,
) -> list[Undeletable]:
    """Empty a directory and remove it.

    A process that opened the directory before it was hidden may still add to it: it is then emptied
    again, at most `MAX_REFILLS` times.

    Args:
        fs: The file system.
        parent_fd: The directory that it is in.
        name: Its name there.
        fd: The directory, open.
        cancelled: As in `empty_directory`.

    Returns:
        What could not be deleted; if there is any, the directory still exists.

    Raises:
        OSError: The directory can't be listed or removed: `ENOTEMPTY` where it was filled more
            often than it was emptied.
        RemovalCancelled: It was cancelled.
    """
    for refills in count():
        left = empty_directory(fs, fd, cancelled=cancelled)
        if not left:
            try:
                fs.rmdir(name, dir_fd=parent_fd)
            except OSError as error:
                if error.errno not in _FILLED or refills >= MAX_REFILLS:
                    raise
                continue
        break
    return left


def empty_directory(
    fs: FileSystem, fd: int, *, cancelled: Callable[[], bool] = _never
) -> list[Undeletable]:
    """Delete all that a directory holds, skipping what can't be deleted.

    Every directory is first lifted: renamed to a fresh name at the top. So at most two descriptors
    are open however deep the tree is, and there is no recursion and no long path. And no directory
    is ever entered that could not be renamed: a mount point can't, so what is mounted in the tree,
    from another file system or by a bind from the same one, stays unchanged.

    Args:
        fs: The file system.
        fd: The directory, open. It is emptied through this descriptor, even if it is renamed.
        cancelled: Called before each entry; returns whether to stop. For callers that can't be
            interrupted.

    Returns:
        What is left: files that resist, mount points, directories that can't be opened. The
        directories above them are left too.

    Raises:
        OSError: The directory itself can't be listed.
        RemovalCancelled: It was cancelled; the rest is left, and a later call may empty it.
    """
    names = _Names(fs, fd)
    left: list[Undeletable] = []
    queue: list[str] = []
    refills: Counter[str] = Counter()
    _strip(fs, fd, fd, names, queue, left, cancelled)
    device = fs.fstat(fd).st_dev if queue else None
    while queue:
        name = queue.pop()
        try:
            child_fd = fs.open(name, DIRECTORY_FLAGS, dir_fd=fd)
        except OSError as error:
            try:  # what was lifted may have been swapped for a file or a link just before
                if not _unlinked(fs, fd, name):
                    left.append(Undeletable(name, error))
            except OSError as cause:
                left.append(Undeletable(name, cause))
            continue
        try:
            if fs.fstat(child_fd).st_dev != device:
                raise OSError(errno.EXDEV, "another file system is mounted there")  # noqa: TRY301
            before = len(left)
            _strip(fs, fd, child_fd, names, queue, left, cancelled)
            resisting = len(left) > before
        except OSError as error:
            left.append(Undeletable(name, error))
            continue
        finally:
            close_reader(fs, child_fd)
        try:
            fs.rmdir(name, dir_fd=fd)
        except FileNotFoundError:
            pass
        except OSError as error:
            if resisting:
                continue
            refills[name] += 1
            if error.errno in _FILLED and refills[name] <= MAX_REFILLS:
                queue.append(name)
            else:
                left.append(Undeletable(name, error))
    return left


class _Names:
    """Fresh names for directories that are lifted to the top of the tree being emptied."""

    def __init__(self, fs: FileSystem, fd: int) -> None:
        self._fs = fs
        self._fd = fd
        self._count = 0

    def fresh(self) -> str:
        while True:
            self._count += 1
            name = f"{DISCARDED_PREFIX}{os.getpid()}-{self._count}"
            try:
                self._fs.stat(name, dir_fd=self._fd)
            except FileNotFoundError:
                return name


def _strip(
    fs: FileSystem,
    top_fd: int,
    fd: int,
    names: _Names,
    queue: list[str],
    left: list[Undeletable],
    cancelled: Callable[[], bool],
) -> None:
    """Delete the files in `fd`, and lift its directories to the top and into the queue."""
    for entry in fs.listdir(fd):
        if cancelled():
            raise RemovalCancelled
        try:
            if _unlinked(fs, fd, entry):
                continue
            lifted = names.fresh()
            try:
                fs.rename(entry, lifted, src_dir_fd=fd, dst_dir_fd=top_fd)
            except FileNotFoundError:
                continue
            queue.append(lifted)
        except OSError as error:
            left.append(Undeletable(entry, error))


def _unlinked(fs: FileSystem, fd: int, entry: str) -> bool:
    """Delete an entry that is not a directory; return False, and do nothing, if it is one."""
    try:
        fs.unlink(entry, dir_fd=fd)
    except FileNotFoundError:
        return True
    except OSError as error:
        if error.errno not in _NO_FILE:
            raise
        try:
            status = fs.stat(entry, dir_fd=fd)
        except FileNotFoundError:
            return True
        if stat.S_ISDIR(status.st_mode):
            return False
        raise
    return True
