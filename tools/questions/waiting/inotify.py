"""Linux's inotify, called directly: changes of directories, the moment they happen.

No polling: a reader sleeps in the kernel until there is an event. See inotify(7).
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from attrs import frozen

_CLOSE_WRITE: Final = 0x0000_0008
_MOVED_FROM: Final = 0x0000_0040
_MOVED_TO: Final = 0x0000_0080
_DELETE: Final = 0x0000_0200
_DELETE_SELF: Final = 0x0000_0400
_MOVE_SELF: Final = 0x0000_0800
_OVERFLOW: Final = 0x0000_4000
_ONLYDIR: Final = 0x0100_0000
_WATCHED: Final = (
    _CLOSE_WRITE | _MOVED_FROM | _MOVED_TO | _DELETE | _DELETE_SELF | _MOVE_SELF | _ONLYDIR
)
"""Files are replaced by renaming, or written in place and closed; opening a file is no change."""
_HEADER: Final = struct.Struct("iIII")
_BUFFER_BYTES: Final = 64 * 1024


@frozen
class Change:
    """One event.

    Attributes:
        watch: The number of the directory it is about; -1 if events were lost.
        name: The entry of the directory that changed; empty if it is the directory itself.
    """

    watch: int
    name: str


@cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)


@cache
def is_available() -> bool:
    """Return whether this system has inotify."""
    try:
        return hasattr(_libc(), "inotify_init1")
    except OSError:
        return False


class Inotify:
    """One inotify instance: a descriptor that becomes readable when a watched directory changes.

    `add` and `remove` may be called from any thread while another one reads.
    """

    def __init__(self) -> None:
        """Open an instance.

        Raises:
            OSError: The system has no inotify, or this user's instances (128 by default) are taken.
        """
        if not is_available():
            raise OSError("this system has no inotify")
        self.fd = _checked(_libc().inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK))

    def add(self, path: str) -> int:
        """Watch a directory; return its number, the same for the same directory.

        Raises:
            OSError: It is missing, is no directory, or this user's watches are taken.
        """
        return _checked(
            _libc().inotify_add_watch(self.fd, os.fsencode(path), ctypes.c_uint32(_WATCHED))
        )

    def remove(self, watch: int) -> None:
        """Stop watching a directory; does nothing to one that was deleted."""
        _libc().inotify_rm_watch(self.fd, watch)

    def read(self) -> list[Change]:
        """Return the events that have arrived; an empty list if there are none.

        Raises:
            OSError: The instance was closed.
        """
        try:
            data = os.read(self.fd, _BUFFER_BYTES)
        except BlockingIOError:
            return []
        return list(_changes(data))

    def close(self) -> None:
        """Release the instance, with everything it watches."""
        os.close(self.fd)


def _changes(data: bytes) -> Iterator[Change]:
    at = 0
    while at < len(data):
        watch, mask, _, length = _HEADER.unpack_from(data, at)
        at += _HEADER.size
        name = os.fsdecode(data[at : at + length].rstrip(b"\0"))
        at += length
        yield Change(-1 if mask & _OVERFLOW else watch, name)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
