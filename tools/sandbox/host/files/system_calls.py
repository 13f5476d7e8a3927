"""The system calls used for a guest's files, as a port: tests can inject faults.

Paths are bytes, relative to a descriptor of a directory; no call follows a link at the end of one.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Final

from ..engine import native


class SystemCalls:
    """The system calls, named and behaving like those of `os`; every method may raise `OSError`."""

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
        """List an open directory."""
        return os.scandir(fd)

    @staticmethod
    def sendfile(target: int, source: int, count: int) -> int:
        """Copy from the source's current offset to the target's."""
        if sys.platform == "linux":
            return os.sendfile(target, source, None, count)
        raise OSError(errno.ENOSYS, "a sandbox needs Linux")

    @staticmethod
    def futimens(fd: int, times: tuple[int, int]) -> None:
        """Set the times of an open file."""
        os.utime(fd, ns=times)

    @staticmethod
    def utimensat(path: bytes, times: tuple[int, int], *, dir_fd: int) -> None:
        """Set the times of a name; for a link, the link's own."""
        os.utime(path, ns=times, dir_fd=dir_fd, follow_symlinks=False)

    @staticmethod
    def link(source: bytes, target: bytes, *, src_dir_fd: int, dst_dir_fd: int) -> None:
        """Give a file another name, which must not exist."""
        os.link(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd, follow_symlinks=False)

    # What takes many calls at once, and is asked for as one.

    @staticmethod
    def judge(measured: Callable[[], str | None], forget: Callable[[], object]) -> str | None:
        """Return which quota a growth would exceed, or None; counting reads all of a tree.

        Args:
            measured: Returns it.
            forget: Makes that count the tree again.
        """
        del forget
        return measured()

    @staticmethod
    def count_names(fd: int, tick: Callable[[], object]) -> dict[tuple[int, int], int]:
        """Return the names below a directory of files with several names, by device and inode."""
        from ...workspaces.workspace_tree import count_names  # seldom needed

        return count_names(fd, tick=tick)

    @staticmethod
    def files_below(
        fd: int, tick: Callable[[], object], limits: dict[str, int]
    ) -> tuple[list[str], int, bool]:
        """Return the files below a directory, how deep it is, and whether the list is complete."""
        from ...workspaces.workspace_tree import list_files, take_snapshot  # seldom needed

        seen = take_snapshot(fd, tick=tick, **limits)
        return list_files(seen), seen.depth, seen.complete


LINUX: Final = SystemCalls()
