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
import json
import os
import re
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..durable.filesystem import DIRECTORY_FLAGS, READ_FLAGS, OsFileSystem
from ..event_log import get_logger

if TYPE_CHECKING:
    from ..durable import AtomicFileWriter

Stamp = tuple[int, ...]
"""Device, inode, size, time of modification and of change, in ns: whether a file is the same."""

_LOCK: Final = ".agentforge-{}.lock"
_CHECKED: Final = "{}.checked"
_MAX_RECORD_BYTES: Final = 4 << 10

_log = get_logger("agentforge.sandbox")


def stamp_of(seen: os.stat_result) -> Stamp:
    """A file's stamp."""
    return (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)


# ------------------------------------------------------------------ trust


def is_private_directory(directory: Path) -> bool:
    """Return whether a directory is this user's alone."""
    try:
        seen = os.lstat(directory)
    except OSError:
        return False
    return stat.S_ISDIR(seen.st_mode) and _is_ours_alone(seen)


def is_usable(file: Path) -> bool:
    """Return whether a file is this user's alone and can be read."""
    try:
        seen = os.lstat(file)
    except OSError:
        return False
    return _is_private_file(seen) and os.access(file, os.R_OK)


def open_private(directory: Path, name: str) -> int | None:
    """Open a file for reading, or None where there is none that may be used.

    Args:
        directory: The directory; it and the file must be this user's alone.
        name: The file's name in it.
    """
    try:
        with _opened(directory) as directory_fd:
            if not _is_ours_alone(os.fstat(directory_fd)):
                return None
            fd = os.open(name, READ_FLAGS, dir_fd=directory_fd)
    except OSError:
        return None
    if _is_private_file(os.fstat(fd)):
        return fd
    os.close(fd)
    return None


def _is_ours_alone(seen: os.stat_result) -> bool:
    return seen.st_uid == os.getuid() and not seen.st_mode & 0o077


def _is_private_file(seen: os.stat_result) -> bool:
    regular = stat.S_ISREG(seen.st_mode) and seen.st_nlink == 1 and seen.st_size > 0
    return regular and _is_ours_alone(seen)


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
    from ..durable import AtomicFileWriter, DurableError
    from ..durable.atomic_file import LEFTOVER_AGE_S

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


@contextlib.contextmanager
def making(directory: Path | None, what: str = "compile") -> Iterator[bool]:
    """Held while this process makes what is missing, so that processes starting together share it.

    Gives whether it is held: not where the directory takes no lock file, or there is none.

    Args:
        directory: The directory, made if it is missing.
        what: What is made; for what no start of a process waits for, another word than the usual.
    """
    if directory is None:
        yield False
        return
    from ..durable.file_lock import wait_lock

    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(directory / _LOCK.format(what), flags, 0o600)
    except OSError as error:
        # A read-only cache that is warm needs no lock; a cold one is compiled by each process.
        _log.debug("runtime.compile_lock_unavailable", cache=str(directory), reason=str(error))
        yield False
        return
    try:
        locked = True
        try:
            wait_lock(OsFileSystem(), fd)
        except OSError as error:
            locked = False
            _log.debug("runtime.compile_lock_unavailable", cache=str(directory), reason=str(error))
        yield locked
    finally:
        os.close(fd)


# --------------------------------------------------------------- checking


def is_checked(directory: Path | None, name: str, fd: int, digest: str) -> bool:
    """Return whether an open file is one that was found to have a digest, by its stamp.

    Args:
        directory: Where that would be recorded.
        name: The record's name.
        fd: The file.
        digest: What it should have.
    """
    if directory is None:
        return False
    record = open_private(directory, _CHECKED.format(name))
    if record is None:
        return False
    try:
        stamp, known = json.loads(os.pread(record, _MAX_RECORD_BYTES, 0))
    except (OSError, TypeError, ValueError):
        return False
    finally:
        os.close(record)
    return bool(known == digest and stamp == [*stamp_of(os.fstat(fd))])


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
