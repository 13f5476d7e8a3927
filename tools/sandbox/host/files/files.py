"""The nodes that a guest's descriptors refer to, and the table of descriptors.

A node is a directory, a file, a link or a stream, on the host or in memory. Its methods return
values, or raise an `OSError` whose errno the guest gets. Paths are bytes as the guest wrote them,
relative to the directory they are passed to.
"""

from __future__ import annotations

import contextlib
import errno
import os
import struct
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import Any, Final, NamedTuple, Protocol, Self

from .upkeep import STEPS_AT_ONCE, Upkeep

Buffers = Sequence[memoryview]
Times = Callable[[int, int], tuple[int, int]]
"""Returns the new access and modification times, in nanoseconds, from the old ones."""

NOT_CAPABLE: Final = 1 << 16
"""Stands in for an errno where a descriptor gave up the right: Linux has none for that."""

_ENTRY: Final = struct.Struct("<QQIB3x")
_MORE_RECORDS: Final = 1 << 15

OF_A_DESCRIPTOR: Final = 5 << 10
"""Host bytes charged for an open descriptor: its record and the longest path."""


class NodeKind(IntEnum):
    """A node's kind, in preview1's numbers."""

    UNKNOWN = 0
    DIRECTORY = 3
    REGULAR = 4
    LINK = 7


class FileStatus(NamedTuple):
    """A file's status, in preview1's order; times in nanoseconds."""

    device: int
    inode: int
    kind: NodeKind
    links: int
    size: int
    accessed: int
    modified: int
    changed: int


class DirectoryEntry(NamedTuple):
    """One name in a directory."""

    name: bytes
    inode: int
    kind: NodeKind


class Opening(NamedTuple):
    """How to open a path."""

    create: bool = False
    directory: bool = False
    exclusive: bool = False
    truncate: bool = False
    read: bool = False
    write: bool = False
    follow: bool = False


class Node(Protocol):
    """What every node implements."""

    @property
    def kind(self) -> NodeKind:
        """The node's kind."""

    def status(self) -> FileStatus:
        """Return its status."""

    def read(self, buffers: Buffers, at: int) -> int:
        """Fill buffers from a position; return the number of bytes read."""

    def write(self, buffers: Buffers, at: int | None) -> tuple[int, int]:
        """Write at a position, or at the end for None; return the byte count and the end.

        A write that would exceed the quota is refused entirely; nothing of it is written.
        """

    def truncate(self, size: int) -> None:
        """Change the size."""

    def set_times(self, times: Times) -> None:
        """Set its times."""

    def sync(self) -> bool:
        """Flush what was written to disk if syncing is on; return whether it was flushed."""

    def close(self) -> None:
        """Close one descriptor of it."""


class Directory(Node, Protocol):
    """What a directory implements besides."""

    def open(self, path: bytes, opening: Opening) -> Node:
        """Open a path; create a file if `opening` asks for it."""

    def status_of(self, path: bytes, *, follow: bool) -> FileStatus:
        """Return the status of a path."""

    def set_times_of(self, path: bytes, times: Times, *, follow: bool) -> None:
        """Set the times of a path."""

    def make_directory(self, path: bytes) -> None:
        """Create a directory."""

    def remove_directory(self, path: bytes) -> None:
        """Remove an empty directory."""

    def unlink(self, path: bytes) -> None:
        """Remove one name of a file, or a link."""

    def symlink(self, target: bytes, path: bytes) -> None:
        """Create a symbolic link with a relative target."""

    def read_link(self, path: bytes) -> bytes:
        """Return a symbolic link's target."""

    def rename(self, path: bytes, other: Directory, new_path: bytes) -> None:
        """Move a file, directory or link, replacing what is at the new path."""

    def link(self, path: bytes, other: Directory, new_path: bytes, *, follow: bool) -> None:
        """Give a file another name."""

    def entries(self) -> Iterable[DirectoryEntry]:
        """Yield its entries without `.` and `..`; each is looked up as it is taken."""


def refusal(number: int) -> OSError:
    """Return the error a node raises to give the guest an errno."""
    return OSError(number, os.strerror(number))


class StaleNode:
    """What a descriptor refers to whose file is no longer there: all is refused (ESTALE).

    Args:
        kind: What it was.
    """

    def __init__(self, kind: NodeKind) -> None:
        self.kind: Final = kind

    def close(self) -> None:
        """Do nothing."""

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_"):
            raise AttributeError(name)
        return _refuse_stale


def _refuse_stale(*_: object, **__: object) -> None:
    raise refusal(errno.ESTALE)


class WithoutContent:
    """Refuses what a node without bytes cannot do: a directory, a link."""

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
        """Return False: there is nothing to flush."""
        return False


class DirectoryListing:
    """ProgramSnapshot of a directory's entries from when the guest began to read them, encoded.

    A cookie is the offset of the next record.

    Args:
        entries: The entries; taken one at a time.
        upkeep: Reserves memory for the records and charges the guest for the entries.

    Raises:
        OSError: There is no memory for them (ENOMEM), or they cannot be read.
    """

    def __init__(self, entries: Iterable[DirectoryEntry], upkeep: Upkeep) -> None:
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

    @classmethod
    def of(cls, records: bytes, upkeep: Upkeep) -> Self:
        """Return the listing that had these records; their memory counts without a refusal."""
        found = cls((), upkeep)
        found._records += records
        upkeep.release(found._held)
        found._held = _allocated(len(records))
        upkeep.held += found._held
        return found

    @property
    def records(self) -> bytes:
        """The entries, encoded."""
        return bytes(self._records)

    def _cover(self, end: int) -> int:
        """Reserve memory for records up to `end` and some more; return the size covered."""
        covered = end + _MORE_RECORDS
        self._upkeep.hold(_allocated(covered) - self._held)
        self._held = _allocated(covered)
        return covered

    def release(self) -> None:
        """Free the records."""
        self._upkeep.release(self._held)
        self._held, self._records = 0, bytearray()

    def copy(self, cookie: int, target: memoryview) -> int:
        """Copy the records from a cookie on, cut at the target's end; return the byte count.

        The guest requests a cut record again by its own cookie.
        """
        if cookie >= len(self._records):
            return 0
        piece = memoryview(self._records)[cookie : cookie + len(target)]
        target[: len(piece)] = piece
        return len(piece)


def _allocated(length: int) -> int:
    """Return the bytes an array of this length may occupy: it over-allocates by an eighth."""
    return length + (length >> 3) + 64


class Descriptor:
    """One entry of the table.

    Attributes:
        node: The node it refers to.
        readable: Whether it may be read from.
        writable: Whether it may be written to.
        position: The current offset.
        append: Whether each write goes to the end.
        flags: The flags as the guest set them.
        given_up: The rights that the guest gave up, in preview1's numbers.
        given_up_below: Those that it gave up for what it opens from here.
        preopened: The path under which it was preopened, or None.
        listing: The snapshot of its entries; released with it.
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
        self.listing: DirectoryListing | None = None
        self.counted = False

    def leave_listing(self) -> None:
        """Free the listing."""
        if self.listing is not None:
            self.listing.release()
            self.listing = None


class Descriptors:
    """The guest's open descriptors, by number.

    Args:
        limit: The most that may be open, not counting the preopened ones.

    Attributes:
        upkeep: Reserves memory for each.
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
        """Install the preopened descriptors, numbered from 0; they are not counted."""
        self._open = dict(enumerate(descriptors))
        self._free, self._next, self._opened = [], len(descriptors), 0

    def put(self, number: int, descriptor: Descriptor) -> None:
        """Replace the descriptor at one of the preopened numbers."""
        if number in self._free:
            self._free.remove(number)
        replaced = self._open.get(number)
        self._open[number] = descriptor
        if replaced is not None:
            with contextlib.suppress(OSError):
                self._leave(replaced)

    def get(self, number: int, right: int = 0) -> Descriptor:
        """Return the descriptor with a number.

        Args:
            number: The number.
            right: The right that the operation needs, in preview1's numbers.

        Raises:
            OSError: There is none (EBADF), or the guest gave up that right (`NOT_CAPABLE`).
        """
        found = self._open.get(number)
        if found is None:
            raise refusal(errno.EBADF)
        if found.given_up & right:
            raise refusal(NOT_CAPABLE)
        return found

    def directory(self, number: int, right: int = 0) -> Directory:
        """Return the directory with a number.

        Raises:
            OSError: It is not a directory (EBADF, ENOTDIR); as from `get`.
        """
        node = self.get(number, right).node
        if node.kind is not NodeKind.DIRECTORY:
            raise refusal(errno.ENOTDIR)
        return node  # type: ignore[return-value]

    def require_room(self) -> None:
        """Check that another descriptor may be opened.

        Raises:
            OSError: The limit is reached (EMFILE), or there is no memory for it (ENOMEM).
        """
        if self._opened >= self._limit:
            raise refusal(errno.EMFILE)
        self.upkeep.require(OF_A_DESCRIPTOR)

    def add(self, descriptor: Descriptor) -> int:
        """Add a descriptor, after `require_room`; return its number."""
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
        """Free a number for reuse; preopened numbers are reassigned only by `put`."""
        if self._open.pop(number).preopened is None:
            self._free.append(number)

    def _leave(self, descriptor: Descriptor) -> None:
        descriptor.leave_listing()
        if descriptor.counted:
            self._opened -= 1
            self.upkeep.release(OF_A_DESCRIPTOR)
            descriptor.node.close()

    # ---------------------------------------------------------- states of a guest

    def opened(self) -> Mapping[int, Descriptor]:
        """Return all descriptors by number."""
        return self._open

    @property
    def numbering(self) -> tuple[tuple[int, ...], int]:
        """The freed numbers, the last of which is used first, and the next unused one."""
        return tuple(self._free), self._next

    def close_counted(self) -> None:
        """Close all but the preopened ones and the streams, ignoring errors."""
        for number, each in list(self._open.items()):
            if each.counted:
                del self._open[number]
                with contextlib.suppress(OSError):
                    self._leave(each)

    def go_on_with(
        self,
        opened: Mapping[int, Descriptor],
        preopened: Container[int],
        numbering: tuple[Sequence[int], int],
    ) -> None:
        """Continue with the descriptors of a captured guest, after `close_counted`.

        They count, whatever the limits.

        Args:
            opened: The descriptors, by number.
            preopened: The preopened numbers that were still open.
            numbering: What `numbering` returned.
        """
        for number, each in list(self._open.items()):
            if each.preopened is not None and number not in preopened:
                del self._open[number]
        for number, each in opened.items():
            self._open[number] = each
            each.counted = True
            self._opened += 1
            self.upkeep.held += OF_A_DESCRIPTOR
        self._free, self._next = list(numbering[0]), numbering[1]

    def close_all(self) -> None:
        """Close all, ignoring errors; each node records what its failed close lost."""
        left, self._open = self._open, {}
        for each in left.values():
            with contextlib.suppress(OSError):
                self._leave(each)
