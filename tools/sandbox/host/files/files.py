"""What a descriptor of the guest leads to, and the table of descriptors.

A node is a directory, a file, a link or a stream, whether the host's or in memory. It answers with
values, or refuses with an `OSError` whose errno the guest gets. Paths are bytes as the guest names
them, relative to the directory that is asked.
"""

from __future__ import annotations

import contextlib
import errno
import os
import struct
from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from typing import Final, NamedTuple, Protocol

from .upkeep import STEPS_AT_ONCE, Upkeep

Buffers = Sequence[memoryview]
Times = Callable[[int, int], tuple[int, int]]
"""Gives the access and modification time, in nanoseconds, from what they were."""

NOT_CAPABLE: Final = 1 << 16
"""In the place of an errno where a descriptor gave a right up: Linux has none for that."""

_ENTRY: Final = struct.Struct("<QQIB3x")
_MORE_RECORDS: Final = 1 << 15

OF_A_DESCRIPTOR: Final = 5 << 10
"""What an open descriptor counts for: what is known of it, and the longest path."""


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

    def entries(self) -> Iterable[Entry]:
        """Its entries, without `.` and `..`, looked for as they are taken."""


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


class Listing:
    """A directory's entries as they were when a guest began to read them, as it is given them.

    A cookie is where the next record begins.

    Args:
        entries: The entries; they are taken one at a time.
        upkeep: Holds the records, and has the entries paid.

    Raises:
        OSError: There is no room for them (ENOMEM), or they cannot be read.
    """

    def __init__(self, entries: Iterable[Entry], upkeep: Upkeep) -> None:
        self._upkeep = upkeep
        self._held = 0
        self._records = records = bytearray()
        pack, end, steps, covered = _ENTRY.pack, 0, 0, 0
        try:
            for name, inode, kind in entries:
                end += _ENTRY.size + len(name)
                if end > covered:
                    covered = self._cover(end)
                records += pack(end, inode, len(name), kind) + name
                steps += 1
                if steps == STEPS_AT_ONCE:
                    upkeep.work(steps)
                    steps = 0
            upkeep.work(steps)
        except BaseException:
            self.release()
            raise
        held, self._held = self._held, _allocated(end)
        upkeep.release(held - self._held)

    def _cover(self, end: int) -> int:
        """Hold what so long records may take, and some more; return how long they may become."""
        covered = end + _MORE_RECORDS
        self._upkeep.hold(_allocated(covered) - self._held)
        self._held = _allocated(covered)
        return covered

    def release(self) -> None:
        """Hold nothing any more."""
        self._upkeep.release(self._held)
        self._held, self._records = 0, bytearray()

    def copy(self, cookie: int, target: memoryview) -> int:
        """Put what lies behind a cookie, cut where the target ends, there; return how much it is.

        A cut record is asked for again by its own cookie.
        """
        if cookie >= len(self._records):
            return 0
        piece = memoryview(self._records)[cookie : cookie + len(target)]
        target[: len(piece)] = piece
        return len(piece)


def _allocated(length: int) -> int:
    """What an array of this length may have taken: it grows by an eighth."""
    return length + (length >> 3) + 64


class Descriptor:
    """One entry of the table.

    Attributes:
        node: What it leads to.
        readable: Whether it may be read from.
        writable: Whether it may be written to.
        position: Where it stands.
        append: Whether each write goes to the end.
        flags: The flags as the guest set them.
        given_up: The rights that the guest gave up, in preview1's numbers.
        given_up_below: Those that it gave up for what it opens from here.
        preopened: Under which path it was there from the start, or None.
        listing: Its entries as they were when a listing began; released with it.
        counted: Whether it counts as open; then its node is closed with it.
    """

    __slots__ = (
        "counted",
        "flags",
        "given_up",
        "given_up_below",
        "listing",
        "node",
        "position",
        "preopened",
        "readable",
        "writable",
    )

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
        self.given_up = self.given_up_below = 0
        self.preopened = preopened
        self.listing: Listing | None = None
        self.counted = False

    def leave_listing(self) -> None:
        """Hold no listing any more."""
        if self.listing is not None:
            self.listing.release()
            self.listing = None


class Descriptors:
    """The guest's open descriptors, by number.

    Args:
        limit: The most that may be open, those not counted that were there from the start.

    Attributes:
        upkeep: Holds what is known of each.
    """

    def __init__(self, limit: int) -> None:
        self.upkeep = Upkeep()
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
        """Have another descriptor at one of the first numbers, in place of what is open there."""
        if number in self._free:
            self._free.remove(number)
        replaced = self._open.get(number)
        self._open[number] = descriptor
        if replaced is not None:
            with contextlib.suppress(OSError):
                self._leave(replaced)

    def get(self, number: int, right: int = 0) -> Descriptor:
        """The descriptor of a number.

        Args:
            number: The number.
            right: The right that what is to be done with it needs, in preview1's numbers.

        Raises:
            OSError: There is none (EBADF), or the guest gave that right up (`NOT_CAPABLE`).
        """
        found = self._open.get(number)
        if found is None:
            raise refusal(errno.EBADF)
        if found.given_up & right:
            raise refusal(NOT_CAPABLE)
        return found

    def directory(self, number: int, right: int = 0) -> Directory:
        """The directory of a number.

        Raises:
            OSError: It is none (EBADF, ENOTDIR); as `get` does.
        """
        node = self.get(number, right).node
        if node.kind is not Kind.DIRECTORY:
            raise refusal(errno.ENOTDIR)
        return node  # type: ignore[return-value]

    def require_room(self) -> None:
        """Make sure that another one may be opened.

        Raises:
            OSError: There are as many as there may be (EMFILE), or no room for it (ENOMEM).
        """
        if self._opened >= self._limit:
            raise refusal(errno.EMFILE)
        self.upkeep.require(OF_A_DESCRIPTOR)

    def add(self, descriptor: Descriptor) -> int:
        """Have it open, after `require_room`; returns its number."""
        number = self._free.pop() if self._free else self._next
        if number == self._next:
            self._next += 1
        self._open[number] = descriptor
        descriptor.counted = True
        self._opened += 1
        self.upkeep.held += OF_A_DESCRIPTOR
        return number

    def close(self, number: int) -> None:
        """Close one.

        Raises:
            OSError: It is not open (EBADF).
        """
        found = self.get(number)
        self._give_free(number)
        self._leave(found)

    def renumber(self, number: int, new: int) -> None:
        """Move one to the number of another, which is closed.

        Raises:
            OSError: One of them is not open (EBADF).
        """
        moved, replaced = self.get(number), self.get(new)
        if moved is replaced:
            return
        self._give_free(number)
        self._open[new] = moved
        self._leave(replaced)

    def _give_free(self, number: int) -> None:
        """Have a number lead to nothing; those from the start are given anew only by `put`."""
        if self._open.pop(number).preopened is None:
            self._free.append(number)

    def _leave(self, descriptor: Descriptor) -> None:
        descriptor.leave_listing()
        if descriptor.counted:
            self._opened -= 1
            self.upkeep.release(OF_A_DESCRIPTOR)
            descriptor.node.close()

    def close_all(self) -> None:
        """Close all, whatever one of them says to it; what that lost its node has noted."""
        left, self._open = self._open, {}
        for each in left.values():
            with contextlib.suppress(OSError):
                self._leave(each)
