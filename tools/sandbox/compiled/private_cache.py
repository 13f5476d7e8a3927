"""The directory of what processes start from: compiled code, prepared memory, what was checked.

It is used as it is found: compiled code is run, memory is mapped. So the directory and each file
are this user's alone (modes 0700 and 0600, one name, no link), a file is judged by the descriptor
that is then read, and is replaced as a whole or not at all.

What has a digest is read whole to be checked once. A record then keeps the file's stamp (device,
inode, size, times of modification and of change), and as long as that is the file's, it counts as
checked: who could change it without changing its stamp could change the record as well.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ...base.event_log import get_logger
from ...base.files.filesystem import DIRECTORY_FLAGS, READ_FLAGS

if TYPE_CHECKING:
    from ...base.files import AtomicFileWriter

Stamp = tuple[int, ...]
"""Device, inode, size, time of modification and of change, in ns: whether a file is the same."""

_CHECKED: Final = "{}.checked"
_MAX_RECORD_BYTES: Final = 4 << 10
_NOT_THERE: Final = frozenset(
    {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES, errno.EPERM, errno.ENXIO}
)
"""Why what has a name is no file for this user; anything else is a want of the system's."""

_log = get_logger("agentforge.sandbox")


def stamp_of(seen: os.stat_result) -> Stamp:
    """A file's stamp."""
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
    """Say why a file that is there is not used; None for one that is, or that is not there."""
    seen = _seen(file)
    return None if seen is None else _fault_of(seen)


def _seen(path: Path) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None


def open_private(directory: Path, name: str) -> int | None:
    """Open a file for reading, or None where there is none that may be used.

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
    """Do as `open_private`, and close the file with the block."""
    fd = open_private(directory, name)
    try:
        yield fd
    finally:
        if fd is not None:
            os.close(fd)


def open_if_private(directory: Path, name: str) -> int | None:
    """Do as `open_private`, but raise where the system cannot open what may be there.

    Raises:
        OSError: It has no descriptors or no memory left, or the disk cannot be read.
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
        if seen.st_nlink:  # else it was replaced just now: the new one is looked at
            return None


def _is_ours_alone(seen: os.stat_result) -> bool:
    return seen.st_uid == os.getuid() and not seen.st_mode & 0o077


def _fault_of(seen: os.stat_result) -> str | None:
    """Why a file is not this user's alone, or None."""
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
    """Put a file in place, if that is possible.

    Args:
        directory: The directory; it must be this user's alone.
        name: The file's name in it; what has that name is replaced.
        write: Writes the content.
        locked: Whether `making` holds the directory, so that what others left can be removed.

    Returns:
        Whether it is there.
    """
    # What is there already is not written, as a rule: what writes is loaded here.
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


def remove_unused(directory: Path, pattern: re.Pattern[str], *, unused_s: float) -> None:
    """Remove files that nothing has read for a while, while `making` holds the directory.

    Args:
        directory: The directory; it must be this user's alone.
        pattern: Matches their whole names.
        unused_s: How long before the newest file there they were last read or written, in seconds.
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
                if stat.S_ISREG(each.st_mode) and used[name] < max(used.values()) - unused_s:
                    os.unlink(name, dir_fd=fd)
    except OSError as error:
        _log.debug("runtime.unused_kept", path=str(directory), reason=str(error))


# --------------------------------------------------------------- checking


def is_checked(directory: Path | None, name: str, fd: int, digest: str) -> bool:
    """Return whether an open file is one that was found to have a digest, by its stamp.

    Args:
        directory: Where that would be recorded.
        name: The record's name.
        fd: The file.
        digest: What it should have.
    """
    found = None if directory is None else _record(directory, name)
    return found is not None and found == ([*stamp_of(os.fstat(fd))], digest)


def _record(directory: Path, name: str) -> tuple[list[int], str] | None:
    with opened_private(directory, _CHECKED.format(name)) as fd:
        try:
            stamp, digest = json.loads(b"" if fd is None else os.pread(fd, _MAX_RECORD_BYTES, 0))
            return [int(number) for number in stamp], str(digest)
        except (OSError, TypeError, ValueError):
            return None


def note_checked(directory: Path | None, name: str, fd: int, digest: str) -> None:
    """Record that an open file has a digest, where that can be recorded."""
    if directory is not None:
        said = json.dumps([stamp_of(os.fstat(fd)), digest]).encode("ascii")
        keep(directory, _CHECKED.format(name), lambda writer: writer.write_chunks([said]))


@contextlib.contextmanager
def _opened(directory: Path) -> Iterator[int]:
    fd = os.open(directory, DIRECTORY_FLAGS)
    try:
        yield fd
    finally:
        os.close(fd)
