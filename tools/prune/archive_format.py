"""Shared by writing and reading archives: names, zstd, streams, and the files being built.

An archive is built in a hidden file, locked while its writer lives and swept afterwards.
"""

from __future__ import annotations

import errno
import hashlib
import io
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final, cast

from ..base.files import FileSystem, try_lock
from ..base.files.file_lock import has_name
from ..base.files.filesystem import CREATE_FLAGS, READ_FLAGS, close_reader
from ..base.files.regular_file import read_descriptor, write_all

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

__all__ = ["zstd"]
"""Imported here for all; the module's own names are not listed."""

SUFFIX: Final = ".tar.zst"
CHECKSUM_SUFFIX: Final = ".sha256"
ABOUT_NAME: Final = ".agentforge-archive.json"
FORMAT: Final = 1

LEVELS: Final = 400
"""The deepest nesting of directories in an archive."""

PIECE: Final = 1 << 20
"""The size of one read, in bytes."""


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


_HIDDEN_RE: Final = re.compile(
    rf"\.(?P<stem>[a-z]+-.+-[0-9]{{8}}T[0-9]{{6}}Z){re.escape(SUFFIX)}\.[0-9a-f]+"
)
_CHECKSUM_RE: Final = re.compile(
    rf"(?P<stem>[a-z]+-.+-[0-9]{{8}}T[0-9]{{6}}Z)(?:-[0-9]+)?{re.escape(SUFFIX + CHECKSUM_SUFFIX)}"
)
_TO_LOCK: Final = READ_FLAGS | os.O_RDWR
"""Opened for writing too: over NFS, `flock` requires that (flock(2))."""
_ATTEMPTS: Final = 10


def create_hidden(
    fs: FileSystem, directory_fd: int, stem: str, token: Callable[[], str]
) -> tuple[str, int]:
    """Create the hidden file of an archive and lock it.

    Args:
        fs: The file system.
        directory_fd: The archives' directory, open.
        stem: The archive's name without its suffix.
        token: Returns a fresh hexadecimal text for the name.

    Returns:
        Its name, and its descriptor, which holds the lock until it is closed.

    Raises:
        OSError: It can't be created; nothing is left of it.
    """
    for _ in range(_ATTEMPTS):
        name = f".{stem}{SUFFIX}.{token()}"
        fd = fs.open(name, CREATE_FLAGS, 0o600, dir_fd=directory_fd)
        try:
            if _lock(fs, fd) is not False and fs.fstat(fd).st_nlink:
                return name, fd
        except BaseException:
            close_reader(fs, fd)
            with suppress(OSError):
                fs.unlink(name, dir_fd=directory_fd)
            raise
        close_reader(fs, fd)  # a sweep locked it first, and removes it
    raise OSError(errno.EBUSY, "somebody takes away what is begun in the archives' directory")


def _lock(fs: FileSystem, fd: int) -> bool | None:
    """Lock a file; False if another process holds it, None where files can't be locked."""
    try:
        return try_lock(fs, fd)
    except OSError:
        return None


def sweep(fs: FileSystem, directory_fd: int) -> list[str]:
    """Remove the hidden files of dead writers, and the checksums they had written.

    Files that can't be locked, belong to another user or have none of our names are left alone.

    Args:
        fs: The file system.
        directory_fd: The archives' directory, open.

    Returns:
        The names of the removed files.

    Raises:
        OSError: The directory can't be listed.
    """
    names = fs.listdir(directory_fd)
    hidden = {name: found["stem"] for name in names if (found := _HIDDEN_RE.fullmatch(name))}
    gone = [name for name in sorted(hidden) if _swept(fs, directory_fd, name)]
    alive = {stem for name, stem in hidden.items() if name not in gone}
    dead = {hidden[name] for name in gone} - alive
    for name in sorted(_of(dead, names)):
        if _is_alone(fs, directory_fd, name):
            with suppress(OSError):
                fs.unlink(name, dir_fd=directory_fd)
                gone.append(name)
    return gone


def _swept(fs: FileSystem, directory_fd: int, name: str) -> bool:
    """Remove a hidden file if no process holds it."""
    try:
        if not stat.S_ISREG(fs.stat(name, dir_fd=directory_fd).st_mode):
            return False
        fd = fs.open(name, _TO_LOCK, dir_fd=directory_fd)
    except OSError:
        return False
    try:
        # Its writer may have renamed it in the meantime.
        if _is_ours(fs, fd) and _lock(fs, fd) and has_name(fs, fd, name, dir_fd=directory_fd):
            fs.unlink(name, dir_fd=directory_fd)
            return True
    except OSError:
        pass
    finally:
        close_reader(fs, fd)
    return False


def _is_ours(fs: FileSystem, fd: int) -> bool:
    status = fs.fstat(fd)
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()


def _of(stems: Iterable[str], names: Iterable[str]) -> Iterable[str]:
    """List the checksum files of these archives."""
    wanted = set(stems)
    for name in names:
        found = _CHECKSUM_RE.fullmatch(name)
        if found is not None and found["stem"] in wanted:
            yield name


def _is_alone(fs: FileSystem, directory_fd: int, name: str) -> bool:
    """Return whether a file is a checksum as we write it, and its archive is missing."""
    archive = name.removesuffix(CHECKSUM_SUFFIX)
    try:
        fs.stat(archive, dir_fd=directory_fd)
    except FileNotFoundError:
        pass
    except OSError:
        return False
    else:
        return False
    said = rb"[0-9a-f]{64}  " + re.escape(os.fsencode(archive)) + rb"\n"
    try:
        fd = fs.open(name, READ_FLAGS, dir_fd=directory_fd)
    except OSError:
        return False
    try:
        if not _is_ours(fs, fd):
            return False
        content = read_descriptor(fs, fd, len(archive) + 100)
    except OSError:
        return False
    finally:
        close_reader(fs, fd)
    return not content or re.fullmatch(said, content) is not None  # the writer may have died


__all__ = ["create_hidden", "sweep"]
