"""Shared by writing and reading archives: names, zstd, and streams that compute checksums."""

from __future__ import annotations

import hashlib
import io
import sys
from typing import TYPE_CHECKING, Final, cast

from ...base.errors import ExtraMissing
from ...base.files import FileSystem
from ...base.files.regular_file import write_all

if TYPE_CHECKING:
    from types import ModuleType

SUFFIX: Final = ".tar.zst"
CHECKSUM_SUFFIX: Final = ".sha256"
ABOUT_NAME: Final = ".agentforge-archive.json"
FORMAT: Final = 1

LEVELS: Final = 400
"""The deepest nesting of directories in an archive."""

PIECE: Final = 1 << 20
"""The size of one read, in bytes."""


def zstd_module() -> ModuleType:
    """Return the standard library's zstd (3.14), or its backport.

    Raises:
        ExtraMissing: Neither is installed.
    """
    try:
        if sys.version_info >= (3, 14):
            from compression import zstd
        else:
            from backports import zstd
    except ImportError:
        raise ExtraMissing("an archive", "zstd", "archive") from None
    return zstd


class HashingWriter(io.RawIOBase):
    """A writer to a descriptor that writes all it is given and computes the checksum."""

    def __init__(self, fs: FileSystem, fd: int) -> None:
        self._fs = fs
        self._fd = fd
        self._sum = hashlib.sha256()

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: object, /) -> int:
        """Write all of the data, even where the system takes it in pieces."""
        view = memoryview(cast("bytes", data)).cast("B")
        self._sum.update(view)
        write_all(self._fs, self._fd, [view])
        return len(view)

    def checksum(self) -> str:
        """Return the SHA-256 of everything written."""
        return self._sum.hexdigest()


class Reader(io.RawIOBase):
    """A reader of an open file, from its start."""

    def __init__(self, fs: FileSystem, fd: int) -> None:
        self._fs = fs
        self._fd = fd
        self._at = 0

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: object, /) -> int:
        """Read the next piece into a buffer."""
        view = memoryview(cast("bytearray", buffer)).cast("B")
        data = self._fs.pread(self._fd, len(view), self._at)
        view[: len(data)] = data
        self._at += len(data)
        return len(data)

    def read(self, size: int = -1, /) -> bytes:
        """Read the next piece, or all the rest."""
        if size < 0:
            return self.readall()
        data = self._fs.pread(self._fd, size, self._at)
        self._at += len(data)
        return data


class HashingReader(Reader):
    """A reader of a session's file for the tar, which computes the checksum of what was read."""

    def __init__(self, fs: FileSystem, fd: int) -> None:
        super().__init__(fs, fd)
        self._sum = hashlib.sha256()

    def read(self, size: int = -1, /) -> bytes:
        """Read the next piece."""
        data = super().read(size)
        self._sum.update(data)
        return data

    def checksum(self) -> str:
        """Return the SHA-256 of everything read."""
        return self._sum.hexdigest()


def checksum_of(fs: FileSystem, fd: int) -> str:
    """Return the SHA-256 of an open file's content."""
    reader = HashingReader(fs, fd)
    while reader.read(PIECE):
        pass
    return reader.checksum()
