"""Locks that end with their owner."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from .errors import LockTimeout, WriteError
from .filesystem import DIRECTORY_FLAGS, READ_FLAGS, FileSystem, close_reader

_FIRST_PAUSE_S = 0.0005
_LONGEST_PAUSE_S = 0.02


class _PathLock:
    """An exclusive `flock` on what stands at a path."""

    def __init__(
        self,
        fs: FileSystem,
        path: Path,
        flags: int,
        *,
        timeout_s: float,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Name the lock; nothing happens yet.

        Args:
            fs: The file system.
            path: What to lock.
            flags: How it is opened.
            timeout_s: How long to wait for another owner, in seconds.
            monotonic: The clock that the time limit is read from.
            sleep: How to pause between two attempts.
        """
        self._fs = fs
        self.path = path
        self._timeout_s = timeout_s
        self._flags = flags
        self._monotonic = monotonic
        self._sleep = sleep
        self.fd = -1

    def acquire(self) -> Self:
        """Take the lock.

        Raises:
            FileNotFoundError: There is nothing at the path (any more).
            LockTimeout: Another owner kept it.
            WriteError: It is something else, or the file system has no such locks.
        """
        name = str(self.path)
        deadline: float | None = None
        pause = _FIRST_PAUSE_S
        while True:
            fd = -1
            try:
                fd = self._fs.open(name, self._flags)
                self._fs.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self._still_there(fd, name):
                    self.fd = fd
                    return self
                close_reader(self._fs, fd)
                continue
            except BlockingIOError:
                close_reader(self._fs, fd)
            except FileNotFoundError:
                if fd >= 0:
                    close_reader(self._fs, fd)
                raise
            except OSError as error:
                if fd >= 0:
                    close_reader(self._fs, fd)
                raise WriteError(path=self.path, operation="lock", cause=error) from error
            now = self._monotonic()
            if deadline is None:
                deadline = now + self._timeout_s
            if now >= deadline:
                raise LockTimeout(path=self.path, timeout_s=self._timeout_s)
            self._sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE_S)

    def _still_there(self, fd: int, name: str) -> bool:
        ours = self._fs.fstat(fd)
        there = self._fs.stat(name) if self._flags & os.O_NOFOLLOW else os.stat(name)
        return (ours.st_ino, ours.st_dev) == (there.st_ino, there.st_dev)

    def release(self) -> None:
        """Let go; does nothing when the lock is not held."""
        if self.fd >= 0:
            fd, self.fd = self.fd, -1
            close_reader(self._fs, fd)

    def __enter__(self) -> Self:
        return self.acquire()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


class DirectoryLock(_PathLock):
    """An exclusive `flock` on a directory itself.

    The kernel lets go of it when its owner dies, however it dies, so there is no stale lock to
    break and no lock file to leave behind. It holds between threads and between processes of one
    machine; over NFS a directory can't be locked, and `acquire` says so.

    Guarantees: while it is held, no other `DirectoryLock` holds the same directory, and `fd` is
    that very directory, which stands at `path` (a directory that was renamed or replaced while
    we waited is not taken for it).
    """

    def __init__(
        self,
        fs: FileSystem,
        path: Path,
        *,
        timeout_s: float = 10.0,
        follow: bool = False,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Name the lock; nothing happens yet.

        Args:
            fs: The file system.
            path: The directory.
            timeout_s: How long to wait for another owner, in seconds.
            follow: Whether `path` itself may be a symbolic link to the directory.
            monotonic: The clock that the time limit is read from.
            sleep: How to pause between two attempts.
        """
        flags = DIRECTORY_FLAGS & ~os.O_NOFOLLOW if follow else DIRECTORY_FLAGS
        super().__init__(fs, path, flags, timeout_s=timeout_s, monotonic=monotonic, sleep=sleep)


class FileLock(_PathLock):
    """An exclusive `flock` on a file that exists and is never replaced.

    For a lock that is held long, beside a directory's that is taken for moments. The guarantees
    are those of `DirectoryLock`; a symbolic link is not followed.
    """

    def __init__(
        self,
        fs: FileSystem,
        path: Path,
        *,
        timeout_s: float = 10.0,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Name the lock; nothing happens yet.

        Args:
            fs: The file system.
            path: The file.
            timeout_s: How long to wait for another owner, in seconds.
            monotonic: The clock that the time limit is read from.
            sleep: How to pause between two attempts.
        """
        super().__init__(
            fs, path, READ_FLAGS, timeout_s=timeout_s, monotonic=monotonic, sleep=sleep
        )
