"""The locks of a session: a process that works in it holds its directory, or a guard in it.

A look asks for the same locks that a removal takes, so that both find the same in use. Looks of
several processes may meet at one lock, for a moment: what is held for longer is in use.
"""

from __future__ import annotations

import errno
import os
import resource
import stat
from collections.abc import Collection, Iterator
from typing import Final

from ...base.files import FileSystem, Patience, try_lock
from ...base.files.filesystem import READ_FLAGS, close_reader

MOMENT_S: Final = 0.05
"""How long another look may hold a lock, in seconds."""
_NO_GUARD: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
"""What is missing, or a link by now, is no guard that a worker of ours would hold."""


def is_in_use(fs: FileSystem, session_fd: int, guards: Collection[str]) -> bool:
    """Return whether a process holds a session's directory, or one of its guards, locked.

    The directory is locked against work in it from here until its descriptor is closed, which is
    to be at once: others may look, too.
    """
    try:
        if not _lock(fs, session_fd):
            return True
        for fd in _guards(fs, session_fd, guards) if guards else ():
            try:
                if not _lock(fs, fd):
                    return True
            finally:
                close_reader(fs, fd)
    except OSError as error:
        if error.errno == errno.EACCES:
            return True  # a guard that may not be opened
        raise _unlockable(error) from error
    return False


def _lock(fs: FileSystem, fd: int) -> bool:
    """Take a lock alone; return False if another holds it for longer than a look takes."""
    patience = Patience(MOMENT_S)
    while not try_lock(fs, fd):
        if not patience.pause():
            return False
    return True


def _unlockable(error: OSError) -> OSError:
    """Return what a failed lock means; over NFS, say, it is EBADF."""
    why = error.strerror or error
    return OSError(error.errno, f"nobody can tell whether it is in use, it can't be locked ({why})")


def hold(fs: FileSystem, session_fd: int, guards: Collection[str]) -> list[int] | None:
    """Lock a session's directory and guards against work in it.

    Returns:
        The descriptors that hold the guards, to be closed in the end; None if it is in use.

    Raises:
        OSError: The file system has no such locks.
    """
    held: list[int] = []
    free = False
    try:
        free = _lock(fs, session_fd)
        guarding = _guards(fs, session_fd, guards)
        while free and (fd := next(guarding, None)) is not None:
            held.append(fd)
            free = _lock(fs, fd)
    except OSError as error:
        free = False
        if error.errno != errno.EACCES:  # else a guard that may not be opened
            raise _unlockable(error) from error
    finally:
        if not free:
            for fd in held:
                close_reader(fs, fd)
    return held if free else None


def _guards(fs: FileSystem, session_fd: int, guards: Collection[str]) -> Iterator[int]:
    """Open the guards that are there, one after another."""
    for name in guards:
        try:
            mode = fs.stat(name, dir_fd=session_fd).st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                continue  # opening a device may do something
            fd = fs.open(name, READ_FLAGS, dir_fd=session_fd)
        except OSError as error:
            if error.errno in _NO_GUARD:
                continue
            raise
        yield fd


def batch_size(guards: int = 0, *, at_once: int = 1, largest: int = 1024) -> int:
    """Return how many sessions a batch may have: they are held open, and take half of what is free.

    A batch is synced as one, so larger ones take fewer waits for the disk.

    Args:
        guards: How many guards each may have.
        at_once: How many batches are held open at the same time.
        largest: The most.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return largest
    try:
        taken = len(os.listdir("/proc/self/fd"))
    except OSError:
        taken = soft // 2
    return max(1, min(largest, (soft - taken) // (2 * at_once * (1 + guards))))
