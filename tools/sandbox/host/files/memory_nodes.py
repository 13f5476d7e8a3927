"""Files and links in memory: what lives as long as an execution, and what is only read."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from typing import Final

from .files import Buffers, FileStatus, Kind, Times, WithoutContent, refusal
from .quota import Account, Meter
from .upkeep import BYTES_OF_A_STEP, Upkeep

OF_A_NODE: Final = 1024
"""What a file, directory or link in memory counts for, besides its content: what is known of it,
and the longest name."""

OF_A_NAME: Final = 512
"""What another name of a file counts for."""

_DEVICE: Final = 1
_PIECE: Final = 1 << 18
"""The content of a file lies in pieces of so many bytes, so that what is cut off is given back."""


class MemoryTreeState:
    """State shared by all files of an in-memory tree.

    Args:
        meter: What may be filled; None for a tree that cannot be written to.
        now_ns: Gives the time, in nanoseconds.
        upkeep: Has work for the guest paid, and holds what is known of what it makes.

    Attributes:
        unnamed: The files that are open and have no name any more.
    """

    def __init__(
        self, meter: Meter | None, now_ns: Callable[[], int], upkeep: Upkeep | None
    ) -> None:
        self.now_ns: Final = now_ns
        self.upkeep = upkeep or Upkeep()
        self.unnamed: Final[set[MemoryFile]] = set()
        self._meter = meter
        self._inodes = 0

    @property
    def meter(self) -> Meter:
        """What may be filled.

        Raises:
            OSError: The tree cannot be written to (EROFS).
        """
        if self._meter is None:
            raise refusal(errno.EROFS)
        return self._meter

    def next_inode(self) -> int:
        """A number that no other file of the tree has."""
        self._inodes += 1
        return self._inodes


class MemoryNode(WithoutContent):
    """What files, links and directories in memory have in common."""

    kind = Kind.UNKNOWN

    def __init__(self, tree: MemoryTreeState) -> None:
        self.tree: Final = tree
        self.inode: Final = tree.next_inode()
        self.links = 1
        self.held = 0
        self.accessed = self.modified = self.changed = tree.now_ns()

    @property
    def length(self) -> int:
        """Its size in bytes."""
        return 0

    def hold(self, count: int) -> None:
        """Hold so many bytes for it.

        Raises:
            OSError: There is no room for them (ENOSPC).
        """
        self.tree.upkeep.hold_name(count)
        self.held += count

    def release(self, count: int | None = None) -> None:
        """Hold so many bytes less for it; none if None."""
        count = self.held if count is None else count
        self.tree.upkeep.release(count)
        self.held -= count

    def status(self) -> FileStatus:
        """What is known of it."""
        return FileStatus(
            _DEVICE,
            self.inode,
            self.kind,
            self.links,
            self.length,
            self.accessed,
            self.modified,
            self.changed,
        )

    def touch(self) -> None:
        """It changes now."""
        self.modified = self.changed = self.tree.now_ns()

    def set_times(self, times: Times) -> None:
        """Set its times."""
        _ = self.tree.meter
        self.accessed, self.modified = times(self.accessed, self.modified)

    def close(self) -> None:
        """One descriptor of it is closed."""


class MemoryLink(MemoryNode):
    """A symbolic link."""

    kind = Kind.LINK

    def __init__(self, tree: MemoryTreeState, target: bytes) -> None:
        super().__init__(tree)
        self.target: Final = target

    @property
    def length(self) -> int:
        """The length of what it leads to."""
        return len(self.target)


class MemoryFile(MemoryNode):
    """A regular file."""

    kind = Kind.REGULAR

    def __init__(self, tree: MemoryTreeState, path: bytes) -> None:
        super().__init__(tree)
        self.account: Final = Account(0, 1, path)
        self._pieces: list[bytearray] = []
        self._size = 0

    @property
    def length(self) -> int:
        """Its size."""
        return self._size

    def read(self, buffers: Buffers, at: int) -> int:
        """Read from a position."""
        count = 0
        for piece, buffer in self._pairs(buffers, at):
            buffer[:] = piece
            count += len(piece)
        return count

    def write(self, buffers: Buffers, at: int | None) -> tuple[int, int]:
        """Write at a position, or at the end."""
        start = self._size if at is None else at
        count = sum(map(len, buffers))
        if count == 0:
            return 0, start
        self._resize(max(start + count, self._size), hole_to=start)
        for piece, buffer in self._pairs(buffers, start):
            piece[:] = buffer
        return count, start + count

    def _pairs(self, buffers: Buffers, at: int) -> Iterator[tuple[memoryview, memoryview]]:
        """What lies from a position on, and the buffers for it, in parts that are equally long."""
        for buffer in buffers:
            done = 0
            while done < len(buffer) and at < self._size:
                index, offset = divmod(at, _PIECE)
                part = memoryview(self._pieces[index])[offset : offset + len(buffer) - done]
                yield part, buffer[done : done + len(part)]
                done += len(part)
                at += len(part)

    def truncate(self, size: int) -> None:
        """Give it another size; what is added holds zeros."""
        self._resize(size, hole_to=size)

    def _resize(self, size: int, *, hole_to: int) -> None:
        meter = self.tree.meter
        meter.allow(self.account, size)
        self.tree.upkeep.work(max(0, hole_to - self._size) // BYTES_OF_A_STEP)
        if size < self._size:
            self._cut(size)
        else:
            self._grow(size)
        meter.resized(self.account, size)
        self.touch()

    def _cut(self, size: int) -> None:
        """Give back what lies behind; a `bytearray` that is made shorter would keep it."""
        whole, left = divmod(size, _PIECE)
        if left:
            self._pieces[whole] = self._pieces[whole][:left]
            whole += 1
        del self._pieces[whole:]
        self._size = size

    def _grow(self, size: int) -> None:
        """Add zeros; nothing where the host has no memory for them (ENOMEM), or the turn ends."""
        before = self._size
        try:
            while self._size < size:
                filled = self._size % _PIECE
                more = min(size - self._size, _PIECE - filled)
                if filled:
                    self._pieces[-1] += bytes(more)
                else:
                    self._pieces.append(bytearray(more))
                self._size += more
                self.tree.upkeep.look()
        except MemoryError:
            self._cut(before)
            raise refusal(errno.ENOMEM) from None
        except BaseException:
            self._cut(before)
            raise

    def close(self) -> None:
        """Close one handle."""
        self.account.handles -= 1
        if self.account.handles == 0 and self.account.names == 0:
            self.tree.unnamed.discard(self)
            self.tree.meter.released(self.account)
            self.release()
            self._cut(0)


class ReadOnlyFile(MemoryNode):
    """A file whose content is read when it is first wanted, and never written.

    Args:
        tree: The tree it is in.
        size: How large it is.
        read_into: Fills a buffer from a position, and returns how many bytes there were.
    """

    kind = Kind.REGULAR

    def __init__(
        self, tree: MemoryTreeState, size: int, read_into: Callable[[Buffers, int], int]
    ) -> None:
        super().__init__(tree)
        self._size = size
        self._read_into = read_into

    @property
    def length(self) -> int:
        """Its size."""
        return self._size

    def read(self, buffers: Buffers, at: int) -> int:
        """Read from a position."""
        return self._read_into(buffers, at)
