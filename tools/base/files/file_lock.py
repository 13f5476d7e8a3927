"""`flock`: locks that end with their owner, on an open file or directory.

The kernel releases a lock when its owner dies, however it dies, so there is no stale lock to break
and no lock file to leave behind. A lock excludes other threads and other processes of one machine;
over NFS a directory can't be locked. It belongs to the open file, which a forked child shares:
where a fork may happen while it is held, `unlock` ends it, closing alone does not.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import ClassVar, Self

from .errors import LockTimeout, WriteError
from .filesystem import DIRECTORY_FLAGS, READ_FLAGS, FileSystem, close_reader


def try_lock(fs: FileSystem, fd: int) -> bool:
    """Try to lock an open file or directory exclusively; never waits.

    Raises:
        OSError: The file system does not support such locks.
    """
    try:
        fs.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def wait_lock(fs: FileSystem, fd: int) -> None:
    """Lock an open file exclusively; waits without a limit.

    Raises:
        OSError: The file system does not support such locks.
    """
    fs.flock(fd, fcntl.LOCK_EX)


def unlock(fs: FileSystem, fd: int) -> None:
    """Release a lock, even where another process has a copy of the descriptor."""
    with suppress(OSError):
        fs.flock(fd, fcntl.LOCK_UN)


def has_name(fs: FileSystem, fd: int, name: str, *, dir_fd: int | None = None) -> bool:
    """Return whether the open file is the one that has this name now; a link counts as itself.

    Raises:
        OSError: Nothing has the name (any more), or the system refused.
    """
    return os.path.samestat(fs.fstat(fd), fs.stat(name, dir_fd=dir_fd))


_left_s: ContextVar[list[float] | None] = ContextVar("agentforge_patience", default=None)


@contextmanager
def patient_for(seconds: float) -> Iterator[None]:
    """Let all waits for locks in the block take at most so many seconds together.

    A holder that is stopped, and so releases nothing, then delays the block no longer than that.
    """
    former = _left_s.set([seconds])
    try:
        yield
    finally:
        _left_s.reset(former)


class Patience:
    """The pauses between attempts, each twice as long as the last, up to a total limit.

    The time starts with the first pause: success at the first attempt needs no clock. Within
    `patient_for` its limit counts, too.

    Attributes:
        timeout_s: The limit of all pauses together, in seconds.
    """

    def __init__(
        self,
        timeout_s: float,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        first_s: float = 0.0005,
        longest_s: float = 0.02,
    ) -> None:
        """Set the limit.

        Args:
            timeout_s: The limit of all pauses together, in seconds.
            monotonic: The clock of the limit.
            sleep: Pauses the thread.
            first_s: The first pause, in seconds.
            longest_s: The longest one, in seconds.
        """
        self.timeout_s = timeout_s
        self._monotonic = monotonic
        self._sleep = sleep
        self._pause_s = first_s
        self._longest_s = longest_s
        self._deadline: float | None = None
        self._looked = 0.0

    def pause(self) -> bool:
        """Pause and return True; return False at once when the time is over."""
        now, left_s = self._monotonic(), _left_s.get()
        if self._deadline is None:
            if left_s is not None:
                self.timeout_s = round(min(self.timeout_s, max(left_s[0], 0.0)), 1)
            self._deadline = now + self.timeout_s
        elif left_s is not None:
            left_s[0] -= now - self._looked
        self._looked = now
        if now >= self._deadline:
            return False
        self._sleep(self._pause_s)
        self._pause_s = min(self._pause_s * 2, self._longest_s)
        return True


class _PathLock:
    """An exclusive lock on the file or directory at a path."""

    _flags: ClassVar[int]

    def __init__(
        self,
        fs: FileSystem,
        path: Path,
        *,
        timeout_s: float = 10.0,
        follow: bool = False,
        dir_fd: int | None = None,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Remember the path; no I/O yet.

        Args:
            fs: The file system.
            path: What to lock.
            timeout_s: How long to wait for another owner, in seconds.
            follow: Whether `path` itself may be a symbolic link.
            dir_fd: The open directory that a relative path starts from.
            monotonic: The clock of the time limit.
            sleep: Pauses between two attempts.
        """
        self._fs = fs
        self.path = path
        self._timeout_s = timeout_s
        self._follow = follow
        self._dir_fd = dir_fd
        self._monotonic = monotonic
        self._sleep = sleep
        self.fd = -1

    def acquire(self) -> Self:
        """Take the lock.

        Raises:
            FileNotFoundError: There is nothing at the path (any more).
            LockTimeout: Another owner held it until the time limit.
            WriteError: The path is of another kind, or the file system does not support such locks.
        """
        patience = Patience(self._timeout_s, monotonic=self._monotonic, sleep=self._sleep)
        try:
            while not self._taken():
                if not patience.pause():
                    raise LockTimeout(path=self.path, timeout_s=patience.timeout_s)
        except FileNotFoundError:
            raise
        except OSError as error:
            raise WriteError(path=self.path, operation="lock", cause=error) from error
        return self

    def _taken(self) -> bool:
        """Open the path and lock it; repeat while it is replaced in between."""
        fs, name = self._fs, str(self.path)
        while True:
            flags = self._flags & ~os.O_NOFOLLOW if self._follow else self._flags
            fd = fs.open(name, flags, dir_fd=self._dir_fd)
            try:
                locked = try_lock(fs, fd)
                if locked and self._still_there(fd, name):
                    self.fd = fd
                    return True
            finally:
                if self.fd != fd:
                    close_reader(fs, fd)
            if not locked:
                return False

    def _still_there(self, fd: int, name: str) -> bool:
        if self._follow:
            return os.path.samestat(self._fs.fstat(fd), os.stat(name, dir_fd=self._dir_fd))
        return has_name(self._fs, fd, name, dir_fd=self._dir_fd)

    def release(self) -> None:
        """Release the lock; does nothing when it is not held."""
        if self.fd >= 0:
            fd, self.fd = self.fd, -1
            close_reader(self._fs, fd)

    def __enter__(self) -> Self:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class DirectoryLock(_PathLock):
    """An exclusive `flock` on a directory itself.

    Guarantees: while it is held, no other `DirectoryLock` holds the same directory, and `fd` is
    that very directory, which is at `path` (a directory that was renamed or replaced during the
    wait is not mistaken for it).
    """

    _flags = DIRECTORY_FLAGS


class FileLock(_PathLock):
    """An exclusive `flock` on a file that exists and is never replaced.

    For a long-held lock, beside a directory's short ones. The guarantees are those of
    `DirectoryLock`.
    """

    _flags = READ_FLAGS
