"""Disk space reserved for the audit log, so that a root on a full disk can be pruned.

The reserve is a file of line ends beside the log, created at its final size. Lines overwrite them
in place, which takes no room on the disk (except on a copy-on-write file system), and are moved to
the log as soon as that has room.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from ..base.files import FileSystem
from ..base.files.filesystem import close_reader, opened
from ..base.files.regular_file import create_file, write_all

RESERVE_NAME: Final = "audit.reserve"
"""The reserve's name in a root's private directory."""

RESERVE_BYTES: Final = 16 << 10
"""Its size, enough for some twenty sessions; each removal makes room for the next."""

FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT})
"""System errors for a full disk."""

_MAKING: Final = "audit.reserve.new"
_FLAGS: Final = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


def is_there(fs: FileSystem, directory_fd: int, name: str) -> bool:
    """Return whether an open directory has an entry of this name.

    Raises:
        OSError: The system refused.
    """
    try:
        fs.stat(name, dir_fd=directory_fd)
    except FileNotFoundError:
        return False
    return True


def make_reserve(fs: FileSystem, directory_fd: int) -> bool:
    """Create the reserve if it is missing; the caller has locked the private directory.

    Returns:
        Whether it was created; the caller then syncs the directory.

    Raises:
        OSError: The system refused; there is no reserve then.
    """
    if is_there(fs, directory_fd, RESERVE_NAME):
        return False
    create_file(fs, directory_fd, _MAKING, [b"\n" * RESERVE_BYTES], handed_over=True)
    try:
        fs.rename(_MAKING, RESERVE_NAME, src_dir_fd=directory_fd, dst_dir_fd=directory_fd)
    except OSError:
        with suppress(OSError):
            fs.unlink(_MAKING, dir_fd=directory_fd)
        raise
    return True


class Reserve:
    """The reserve of a root's audit log, open."""

    def __init__(self, fs: FileSystem, directory_fd: int) -> None:
        """Open it.

        Raises:
            OSError: It is missing, or is no reserve.
        """
        self._fs = fs
        self._directory_fd = directory_fd
        self._fd = fs.open(RESERVE_NAME, _FLAGS, dir_fd=directory_fd)
        try:
            status = fs.fstat(self._fd)
            if not (
                stat.S_ISREG(status.st_mode)
                and status.st_nlink == 1
                and status.st_size == RESERVE_BYTES
            ):
                said = f"{RESERVE_NAME} is no reserve of an audit log"
                raise OSError(errno.EINVAL, said)  # noqa: TRY301
            self._used = _used(fs.pread(self._fd, RESERVE_BYTES, 0))
        except BaseException:
            close_reader(fs, self._fd)
            raise
        self._behind = self._used  # what lies before the first new line

    @property
    def lines(self) -> Sequence[bytes]:
        """The lines in it, with their line ends."""
        return self._used.splitlines(keepends=True)

    def take(self, lines: Sequence[bytes]) -> int:
        """Write as many of these lines as fit; return how many."""
        fitting = 0
        size = len(self._used)
        while fitting < len(lines) and size + len(lines[fitting]) <= RESERVE_BYTES:
            size += len(lines[fitting])
            fitting += 1
        added = b"".join(lines[:fitting])
        if not added:
            return fitting
        try:
            write_all(self._fs, self._fd, [self._behind, added])
            self._fs.fsync(self._fd)
        except OSError:
            self._used += b"\n" * (RESERVE_BYTES - len(self._used))  # takes no more lines
            return 0
        self._behind = b""
        self._used += added
        return fitting

    def clear(self) -> None:
        """Empty it; its lines must be durable elsewhere.

        Raises:
            OSError: The system refused; some lines may still be in it.
        """
        with opened(self._fs, RESERVE_NAME, _FLAGS, dir_fd=self._directory_fd) as fd:
            write_all(self._fs, fd, [b"\n" * RESERVE_BYTES])
            self._fs.fsync(fd)
        self._used = b""

    def close(self) -> None:
        """Close it."""
        close_reader(self._fs, self._fd)


def _used(content: bytes) -> bytes:
    used = content.rstrip(b"\n")
    return used and used + b"\n"
