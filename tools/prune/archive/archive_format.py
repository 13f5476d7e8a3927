"""What writing and reading archives have in common: names, zstd, checksums of what goes by."""

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
"""How deep directories may be nested in an archive."""

PIECE: Final = 1 << 20
"""How much is read at once, in bytes."""


def zstd_module() -> ModuleType:
    """Return the standard library's zstd (3.14), or its backport.

    Raises:
        ExtraMissing: There is none.
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
    """Writes to a descriptor, all of what it is given, and keeps the checksum."""

    def __init__(self, fs: FileSystem, fd: int) -> None:
        self._fs = fs
        self._fd = fd
        self._sum = hashlib.sha256()

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: object, /) -> int:
        """Write all of it, however little the system takes at once."""
        view = memoryview(cast("bytes", data)).cast("B")
        self._sum.update(view)
        write_all(self._fs, self._fd, [view])
        return len(view)

    def checksum(self) -> str:
        """Return the SHA-256 of all that went by."""
        return self._sum.hexdigest()


class Reader(io.RawIOBase):
    """Reads an open file from its start."""

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
        """Read the next piece, or all that is left."""
        if size < 0:
            return self.readall()
        data = self._fs.pread(self._fd, size, self._at)
        self._at += len(data)
        return data


class HashingReader(Reader):
    """Reads a session's file for the tar, and keeps the checksum of what was read."""

    def __init__(self, fs: FileSystem, fd: int) -> None:
        super().__init__(fs, fd)
        self._sum = hashlib.sha256()

    def read(self, size: int = -1, /) -> bytes:
        """Read the next piece."""
        data = super().read(size)
        self._sum.update(data)
        return data

    def checksum(self) -> str:
        """Return the SHA-256 of all that was read."""
        return self._sum.hexdigest()


def checksum_of(fs: FileSystem, fd: int) -> str:
    """Return the SHA-256 of all that an open file holds."""
    reader = HashingReader(fs, fd)
    while reader.read(PIECE):
        pass
    return reader.checksum()
