"""Entries of a directory as a guest has them: opened by name, over no link, and nothing special."""

from __future__ import annotations

import errno
import os
import stat
from typing import Final

OPEN_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_FILE: Final = os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK


def set_file_times(
    fd: int, seen: os.stat_result, atime_ns: int | None, mtime_ns: int | None
) -> None:
    """Set the times of an open file or directory, in nanoseconds; None leaves one as it was."""
    times = (
        seen.st_atime_ns if atime_ns is None else atime_ns,
        seen.st_mtime_ns if mtime_ns is None else mtime_ns,
    )
    try:
        os.utime(fd, ns=times)
    except OverflowError as error:
        raise refusal(errno.EINVAL) from error


def open_below(name: str, parent: int) -> int:
    """Open a directory by its name; a link there is not there."""
    try:
        return os.open(name, OPEN_DIRECTORY, dir_fd=parent)
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
    seen = look_at(name, parent)
    regular = seen is not None and stat.S_ISREG(seen.st_mode)
    raise refusal(errno.ENOTDIR if regular else errno.ENOENT)


def open_same(name: str, parent: int, mode: int, seen: os.stat_result) -> int:
    """Open the regular file that was just looked at, and no other put in its place since."""
    try:
        fd = os.open(name, mode | _OPEN_FILE, dir_fd=parent)
    except OSError as error:
        raise refusal(errno.ENOENT if error.errno == errno.ELOOP else error.errno) from error
    now = os.fstat(fd)
    if not stat.S_ISREG(now.st_mode) or not is_same(now, seen):
        os.close(fd)
        raise refusal(errno.ESTALE)
    return fd


def create_file(name: str, parent: int) -> int:
    """Make a file that was not there; nothing a guest makes can be executed by its mode."""
    return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _OPEN_FILE, 0o666, dir_fd=parent)


def replace_content(fd: int, data: bytes) -> None:
    """Give an open file other content."""
    if os.fstat(fd).st_size:
        os.ftruncate(fd, 0)
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def look_at_visible(name: str, parent: int) -> os.stat_result:
    """The file or directory of that name; whatever else it is, it is not there."""
    seen = look_at(name, parent)
    if seen is None or not (stat.S_ISREG(seen.st_mode) or stat.S_ISDIR(seen.st_mode)):
        raise refusal(errno.ENOENT)
    return seen


def look_at(name: str, parent: int) -> os.stat_result | None:
    """What has that name, or None; a link is a link."""
    try:
        return os.stat(name, dir_fd=parent, follow_symlinks=False)
    except FileNotFoundError:
        return None


def is_same(one: os.stat_result, other: os.stat_result) -> bool:
    """Whether two looks were at one file or directory."""
    return (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)


def is_encodable(name: str) -> bool:
    """Whether a guest can be given a name."""
    try:
        name.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def refusal(number: int | None) -> OSError:
    """The error whose number the guest gets."""
    number = errno.EIO if number is None else number
    return OSError(number, os.strerror(number))
