"""The private cache of what processes start from: compiled code, prepared memory, checks.

Compiled code is run and memory is mapped without further checks. So the directory and each file
must belong to this user alone (modes 0700 and 0600, one name, no link). A file is judged by the
descriptor that is then read, and is replaced atomically.

A file with a digest is read in full once to verify it. A record then holds the file's stamp
(device, inode, size, times of modification and of change); while the stamp matches, the file counts
as checked. Anyone able to change the file under the same stamp could change the record too.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import stat
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...base.event_log import get_logger
from ...base.files.filesystem import DIRECTORY_FLAGS, READ_FLAGS

if TYPE_CHECKING:
    from ...base.files import AtomicFileWriter

Stamp = tuple[int, ...]
"""Device, inode, size, mtime and ctime in ns; equal stamps mean the same file."""

_CHECKED: Final = "{}.checked"
_MAX_RECORD_BYTES: Final = 4 << 10
_NOT_THERE: Final = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES, errno.EPERM, errno.ENXIO}
)
"""Errors that mean the name is no usable file; any other is a shortage in the system."""

_log = get_logger("agentforge.sandbox")


def stamp_of(seen: os.stat_result) -> Stamp:
    """Return a file's stamp."""
    return (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)


# ------------------------------------------------------------------ trust


def is_private_directory(directory: Path) -> bool:
    """Return whether a directory is this user's alone."""
    seen = _seen(directory)
    return seen is not None and stat.S_ISDIR(seen.st_mode) and _is_ours_alone(seen)


def is_usable(file: Path) -> bool:
    """Return whether a file is this user's alone and can be read."""
    seen = _seen(file)
    return seen is not None and _fault_of(seen) is None and os.access(file, os.R_OK)


def why_unusable(file: Path) -> str | None:
    """Return why an existing file is not used; None if it is usable or missing."""
    seen = _seen(file)
    return None if seen is None else _fault_of(seen)


def _seen(path: Path) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None


def open_private(directory: Path, name: str) -> int | None:
    """Open a file for reading, or return None if there is no usable one.

    Args:
        directory: The directory; it and the file must be this user's alone.
        name: The file's name in it.
    """
    try:
        return open_if_private(directory, name)
    except OSError:
        return None


@contextlib.contextmanager
def opened_private(directory: Path, name: str) -> Iterator[int | None]:
    """Yield what `open_private` returns; close the file after the block."""
    fd = open_private(directory, name)
    try:
        yield fd
    finally:
        if fd is not None:
            os.close(fd)


def open_if_private(directory: Path, name: str) -> int | None:
    """Open a file as `open_private` does, but raise if the system cannot open it.

    Raises:
        OSError: The system has no descriptors or memory left, or the disk cannot be read.
    """
    try:
        with _opened(directory) as directory_fd:
            if not _is_ours_alone(os.fstat(directory_fd)):
                return None
            return _open_if_private(name, directory_fd)
    except OSError as error:
        if error.errno in _NOT_THERE:
            return None
        raise


def _open_if_private(name: str, directory_fd: int) -> int | None:
    while True:
        fd = os.open(name, READ_FLAGS, dir_fd=directory_fd)
        seen = os.fstat(fd)
        if _fault_of(seen) is None:
            return fd
        os.close(fd)
        if seen.st_nlink:  # else it has just been replaced: look at the new one
            return None


def _is_ours_alone(seen: os.stat_result) -> bool:
    return seen.st_uid == os.getuid() and not seen.st_mode & 0o077


def _fault_of(seen: os.stat_result) -> str | None:
    """Return why a file is not this user's alone, or None."""
    if not stat.S_ISREG(seen.st_mode) or seen.st_size == 0:
        return "it is no file with content"
    if seen.st_nlink != 1:
        return f"it has {seen.st_nlink} names (hard links)"
    if not _is_ours_alone(seen):
        return f"it is not this user's alone (mode {stat.S_IMODE(seen.st_mode):o})"
    return None


# ---------------------------------------------------------------- keeping


def keep(
    directory: Path, name: str, write: Callable[[AtomicFileWriter], None], *, locked: bool = False
) -> bool:
    """Write a file into the directory if possible; never raise for a failure.

    Args:
        directory: The directory; it must be this user's alone.
        name: The file's name in it; an existing file is replaced.
        write: Writes the content.
        locked: Whether `making` holds the directory, so that others' leftovers can be removed.

    Returns:
        Whether the file was written.
    """
    # Imported late: most processes find the file and write nothing.
    from ...base.files import AtomicFileWriter, DurableError
    from ...base.files.atomic_file import LEFTOVER_AGE_S

    age = 0.0 if locked else LEFTOVER_AGE_S
    try:
        with _opened(directory) as fd:
            if not _is_ours_alone(os.fstat(fd)):
                return False
            with AtomicFileWriter(directory / name, directory_fd=fd, leftover_age_s=age) as writer:
                write(writer)
    except (OSError, DurableError) as error:
        _log.debug("runtime.file_not_kept", path=str(directory / name), reason=str(error))
        return False
    return True


def remove_unused(
    directory: Path, pattern: re.Pattern[str], *, unused_s: float, spared: Collection[str] = ()
) -> None:
    """Remove files not read for a while; the caller holds the directory by `making`.

    Args:
        directory: The directory; it must be this user's alone.
        pattern: Matches their full names.
        unused_s: Remove a file last used this many seconds before the most recently used one.
        spared: The names of files that stay.
    """
    try:
        with _opened(directory) as fd:
            if not _is_ours_alone(os.fstat(fd)):
                return
            seen = {
                name: os.stat(name, dir_fd=fd, follow_symlinks=False)
                for name in os.listdir(fd)
                if pattern.fullmatch(name)
            }
            used = {name: max(each.st_atime, each.st_mtime) for name, each in seen.items()}
            for name, each in seen.items():
                is_old = used[name] < max(used.values()) - unused_s
                if is_old and stat.S_ISREG(each.st_mode) and name not in spared:
                    os.unlink(name, dir_fd=fd)
    except OSError as error:
        _log.debug("runtime.unused_kept", path=str(directory), reason=str(error))


# --------------------------------------------------------------- checking


def is_checked(directory: Path | None, name: str, fd: int, digest: str) -> bool:
    """Return whether an open file's stamp is recorded with this digest.

    Args:
        directory: The directory of the records, or None.
        name: The record's name.
        fd: The file.
        digest: The expected digest.
    """
    found = None if directory is None else kept_json(directory, _CHECKED.format(name))
    return bool(found == [[*stamp_of(os.fstat(fd))], digest])


def note_checked(directory: Path | None, name: str, fd: int, digest: str) -> None:
    """Record that an open file has this digest, if it can be recorded."""
    if directory is not None:
        keep_json(directory, _CHECKED.format(name), [stamp_of(os.fstat(fd)), digest])


def kept_json(directory: Path, name: str) -> Any:
    """Return the value in a small file, or None if there is no usable one."""
    with opened_private(directory, name) as fd:
        try:
            return None if fd is None else json.loads(os.pread(fd, _MAX_RECORD_BYTES, 0))
        except (OSError, ValueError):
            return None


def keep_json(directory: Path, name: str, value: object) -> bool:
    """Write a value into a small file if possible; return whether it was written."""
    said = json.dumps(value).encode("ascii")
    return keep(directory, name, lambda writer: writer.write_chunks([said]))


@contextlib.contextmanager
def _opened(directory: Path) -> Iterator[int]:
    fd = os.open(directory, DIRECTORY_FLAGS)
    try:
        yield fd
    finally:
        os.close(fd)
