"""What a descriptor of the guest leads to, and the table of descriptors.

A node is a directory, a file, a link or a stream, whether the host's or in memory. It answers with
values, or refuses with an `OSError` whose errno the guest gets. Paths are bytes as the guest names
them, relative to the directory that is asked.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Final, NamedTuple, Protocol

Buffers = Sequence[memoryview]
Times = Callable[[int, int], tuple[int, int]]
"""Gives the access and modification time, in nanoseconds, from what they were."""

MOST_ENTRIES: Final = 1 << 20
"""The most entries that a listing holds; a directory with more cannot be listed."""


class Kind(IntEnum):
    """What a node is, in preview1's numbers."""

    UNKNOWN = 0
    DIRECTORY = 3
    REGULAR = 4
    LINK = 7


class FileStatus(NamedTuple):
    """What is known of a file, in the order preview1 has it; times in nanoseconds."""

    device: int
    inode: int
    kind: Kind
    links: int
    size: int
    accessed: int
    modified: int
    changed: int


class Entry(NamedTuple):
    """One name in a directory."""

    name: bytes
    inode: int
    kind: Kind


class Opening(NamedTuple):
    """How a path is to be opened."""

    create: bool = False
    directory: bool = False
    exclusive: bool = False
    truncate: bool = False
    read: bool = False
    write: bool = False
    follow: bool = False


class Node(Protocol):
    """What every node answers."""

    @property
    def kind(self) -> Kind:
        """What it is."""

    def status(self) -> FileStatus:
        """What is known of it."""

    def read(self, buffers: Buffers, at: int) -> int:
        """Fill buffers from a position, and return how many bytes there were."""

    def write(self, buffers: Buffers, at: int | None) -> tuple[int, int]:
        """Write at a position, or at the end for None; return how many bytes, and where they end.

        No more is written than fits the quota: a write that would pass it is refused as a whole.
        """

    def truncate(self, size: int) -> None:
        """Give it another size."""

    def set_times(self, times: Times) -> None:
        """Set its times."""

    def sync(self) -> bool:
        """Have the disk keep what was written, where that is wanted; return whether it was."""

    def close(self) -> None:
        """One descriptor of it is closed."""


class Directory(Node, Protocol):
    """What a directory answers besides."""

    def open(self, path: bytes, opening: Opening) -> Node:
        """Open a path, making a file there if that is asked for."""

    def status_of(self, path: bytes, *, follow: bool) -> FileStatus:
        """What is known of a path."""

    def set_times_of(self, path: bytes, times: Times, *, follow: bool) -> None:
        """Set the times of a path."""

    def make_directory(self, path: bytes) -> None:
        """Make a directory."""

    def remove_directory(self, path: bytes) -> None:
        """Remove an empty directory."""

    def unlink(self, path: bytes) -> None:
        """Remove a name of a file, or a link."""

    def symlink(self, target: bytes, path: bytes) -> None:
        """Make a symbolic link with a relative target."""

    def read_link(self, path: bytes) -> bytes:
        """What a symbolic link leads to."""

    def rename(self, path: bytes, other: Directory, new_path: bytes) -> None:
        """Move a file, a directory or a link, in the place of what is there."""

    def link(self, path: bytes, other: Directory, new_path: bytes, *, follow: bool) -> None:
        """Give a file another name."""

    def entries(self) -> list[Entry]:
        """Its entries, without `.` and `..`."""


def refusal(number: int) -> OSError:
    """What a node raises to have the guest get an errno."""
    return OSError(number, os.strerror(number))


class WithoutContent:
    """What a node refuses that holds no bytes: a directory, a link."""

    def read(self, buffers: Buffers, at: int) -> int:
        """Refused."""
        del buffers, at
        raise refusal(errno.EISDIR)

    def write(self, buffers: Buffers, at: int | None) -> tuple[int, int]:
        """Refused."""
        del buffers, at
        raise refusal(errno.EBADF)

    def truncate(self, size: int) -> None:
        """Refused."""
        del size
        raise refusal(errno.EINVAL)

    def sync(self) -> bool:
        """There is nothing to keep."""
        return False


class Descriptor:
    """One entry of the table.

    Attributes:
        node: What it leads to.
        readable: Whether it may be read from.
        writable: Whether it may be written to.
        position: Where it stands.
        append: Whether each write goes to the end.
        flags: The flags as the guest set them.
        preopened: Under which path it was there from the start, or None.
        listing: Its entries as they were when a listing began.
    """

    __slots__ = ("flags", "listing", "node", "position", "preopened", "readable", "writable")

    def __init__(
        self,
        node: Node,
        *,
        readable: bool = True,
        writable: bool = False,
        flags: int = 0,
        preopened: bytes | None = None,
    ) -> None:
        self.node = node
        self.readable = readable
        self.writable = writable
        self.position = 0
        self.flags = flags
        self.preopened = preopened
        self.listing: list[Entry] | None = None


class Descriptors:
    """The guest's open descriptors, by number.

    Args:
        limit: The most that may be open, those not counted that were there from the start.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._open: dict[int, Descriptor] = {}
        self._free: list[int] = []
        self._next = 0
        self._opened = 0

    def __contains__(self, number: int) -> bool:
        return number in self._open

    def start_with(self, descriptors: Sequence[Descriptor]) -> None:
        """Have these open from the start, numbered from 0; they count for nothing."""
        self._open = dict(enumerate(descriptors))
        self._free, self._next, self._opened = [], len(descriptors), 0

    def put(self, number: int, descriptor: Descriptor) -> None:
        """Have another descriptor at one of the first numbers."""
        self._open[number] = descriptor

    def get(self, number: int) -> Descriptor:
        """The descriptor of a number.

        Raises:
            OSError: There is none (EBADF).
        """
        found = self._open.get(number)
        if found is None:
            raise refusal(errno.EBADF)
        return found

    def directory(self, number: int) -> Directory:
        """The directory of a number.

        Raises:
            OSError: It is none (EBADF, ENOTDIR).
        """
        node = self.get(number).node
        if node.kind is not Kind.DIRECTORY:
            raise refusal(errno.ENOTDIR)
        return node  # type: ignore[return-value]

    def require_room(self) -> None:
        """Make sure that another one may be opened.

        Raises:
            OSError: There are as many as there may be (EMFILE).
        """
        if self._opened >= self._limit:
            raise refusal(errno.EMFILE)

    def add(self, descriptor: Descriptor) -> int:
        """Have it open, after `require_room`; returns its number."""
        number = self._free.pop() if self._free else self._next
        if number == self._next:
            self._next += 1
        self._open[number] = descriptor
        self._opened += 1
        return number

    def close(self, number: int) -> None:
        """Close one.

        Raises:
            OSError: It is not open (EBADF).
        """
        found = self._open.pop(number, None)
        if found is None:
            raise refusal(errno.EBADF)
        if found.preopened is None:
            self._free.append(number)
            self._opened -= 1
            found.node.close()

    def close_all(self) -> None:
        """Close all, whatever one of them says to it; what that lost its node has noted."""
        left, self._open = self._open, {}
        for each in left.values():
            if each.preopened is None:
                with contextlib.suppress(OSError):
                    each.node.close()
