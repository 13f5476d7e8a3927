"""The hidden file in which an archive is built: locked while its writer lives, swept afterwards.

    .{kind}-{session_id}-{time}.tar.zst.{token}

Its writer holds an `flock` on it from its creation until it has its final name. The kernel releases
that lock when the writer dies, however it dies; a file that is not locked has no writer.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final

from ...base.files import FileSystem, try_lock
from ...base.files.file_lock import has_name
from ...base.files.filesystem import CREATE_FLAGS, READ_FLAGS, close_reader
from ...base.files.regular_file import read_descriptor
from .archive_format import CHECKSUM_SUFFIX, SUFFIX

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
