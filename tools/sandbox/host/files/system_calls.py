"""The system calls that the guest's files stand on, as a port: their faults can be injected.

Paths are bytes, relative to a descriptor of a directory; no call follows a link at the end of one.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Final, Protocol

from ..engine import native


class SystemCalls(Protocol):
    """System calls, named and behaving like those of `os`; every method may raise `OSError`."""

    def open(self, path: bytes, flags: int, mode: int = 0o666, *, dir_fd: int) -> int:
        """See `os.open`."""

    def openat2(self, directory: int, path: bytes, flags: int, resolve: int) -> int:
        """See `native.openat2`: ENOSYS or EPERM where this process may not use it."""

    def dup(self, fd: int) -> int:
        """See `os.dup`."""

    def close(self, fd: int) -> None:
        """See `os.close`."""

    def fstat(self, fd: int) -> os.stat_result:
        """See `os.fstat`."""

    def stat(self, path: bytes, *, dir_fd: int) -> os.stat_result:
        """See `os.lstat`."""

    def scandir(self, fd: int) -> AbstractContextManager[Iterator[os.DirEntry[str]]]:
        """See `os.scandir` of a descriptor."""

    def preadv(self, fd: int, buffers: Sequence[memoryview], at: int) -> int:
        """See `os.preadv`."""

    def pwritev(self, fd: int, buffers: Sequence[memoryview], at: int) -> int:
        """See `os.pwritev`: may write less than it was given."""

    def ftruncate(self, fd: int, size: int) -> None:
        """See `os.ftruncate`."""

    def fsync(self, fd: int) -> None:
        """See `os.fsync`."""

    def sendfile(self, target: int, source: int, count: int) -> int:
        """See `os.sendfile`, from where the source stands."""

    def futimens(self, fd: int, times: tuple[int, int]) -> None:
        """See `os.utime` of a descriptor, in nanoseconds."""

    def utimensat(self, path: bytes, times: tuple[int, int], *, dir_fd: int) -> None:
        """See `os.utime`, in nanoseconds."""

    def mkdir(self, path: bytes, mode: int, *, dir_fd: int) -> None:
        """See `os.mkdir`."""

    def rmdir(self, path: bytes, *, dir_fd: int) -> None:
        """See `os.rmdir`."""

    def unlink(self, path: bytes, *, dir_fd: int) -> None:
        """See `os.unlink`."""

    def symlink(self, target: bytes, path: bytes, *, dir_fd: int) -> None:
        """See `os.symlink`."""

    def readlink(self, path: bytes, *, dir_fd: int) -> bytes:
        """See `os.readlink`."""

    def link(self, source: bytes, target: bytes, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        """See `os.link`: gives a file a second name, and refuses one that is taken."""

    def rename(self, source: bytes, target: bytes, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        """See `os.rename`."""


class LinuxCalls:
    """The real system calls."""

    open = staticmethod(os.open)
    openat2 = staticmethod(native.openat2)
    dup = staticmethod(os.dup)
    close = staticmethod(os.close)
    fstat = staticmethod(os.fstat)
    stat = staticmethod(os.lstat)
    preadv = staticmethod(os.preadv)
    pwritev = staticmethod(os.pwritev)
    ftruncate = staticmethod(os.ftruncate)
    fsync = staticmethod(os.fsync)
    mkdir = staticmethod(os.mkdir)
    rmdir = staticmethod(os.rmdir)
    unlink = staticmethod(os.unlink)
    symlink = staticmethod(os.symlink)
    readlink = staticmethod(os.readlink)
    rename = staticmethod(os.rename)

    @staticmethod
    def scandir(fd: int) -> AbstractContextManager[Iterator[os.DirEntry[str]]]:
        """List what is open as a directory."""
        return os.scandir(fd)

    @staticmethod
    def sendfile(target: int, source: int, count: int) -> int:
        """Copy from where the source stands to where the target does."""
        return os.sendfile(target, source, None, count)

    @staticmethod
    def futimens(fd: int, times: tuple[int, int]) -> None:
        """Set the times of what is open."""
        os.utime(fd, ns=times)

    @staticmethod
    def utimensat(path: bytes, times: tuple[int, int], *, dir_fd: int) -> None:
        """Set the times of a name, of a link's own where it is one."""
        os.utime(path, ns=times, dir_fd=dir_fd, follow_symlinks=False)

    @staticmethod
    def link(source: bytes, target: bytes, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        """Give a file another name, which must not be taken."""
        os.link(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd, follow_symlinks=False)


LINUX: Final = LinuxCalls()
