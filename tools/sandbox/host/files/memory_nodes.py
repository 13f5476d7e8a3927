"""Files and links in memory: those that last for an execution, and read-only ones."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from typing import Final

from .files import Buffers, FileStatus, NodeKind, Times, WithoutContent, refusal
from .quota import Account, QuotaMeter
from .upkeep import BYTES_OF_A_STEP, Upkeep

OF_A_NODE: Final = 1024
"""Bytes charged for a node in memory besides its content: its record and the longest name."""

OF_A_NAME: Final = 512
"""Bytes charged for another name of a file."""

_DEVICE: Final = 1
_PIECE: Final = 1 << 18
"""A file's content is stored in pieces of this size, so that truncation frees memory."""


class MemoryTreeState:
    """State shared by all files of an in-memory tree.

    Args:
        meter: Counts against the quota; None for a read-only tree.
        now_ns: Returns the time, in nanoseconds.
        upkeep: Charges the guest for work and reserves memory for the nodes it creates.

    Attributes:
        unnamed: Open files that no longer have a name.
        last_inode: The last inode number given out.
    """

    def __init__(
        self, meter: QuotaMeter | None, now_ns: Callable[[], int], upkeep: Upkeep | None
    ) -> None:
        self.now_ns: Final = now_ns
        self.upkeep = upkeep or Upkeep()
        self.unnamed: Final[set[MemoryFile]] = set()
        self._meter = meter
        self.last_inode = 0

    @property
    def meter(self) -> QuotaMeter:
        """The meter of a writable tree.

        Raises:
            OSError: The tree is read-only (EROFS).
        """
        if self._meter is None:
            raise refusal(errno.EROFS)
        return self._meter

    @property
    def is_writable(self) -> bool:
        """Whether the tree can be changed."""
        return self._meter is not None

    def next_inode(self) -> int:
        """Return an unused inode number."""
        self.last_inode += 1
        return self.last_inode


class MemoryNode(WithoutContent):
    """Base of files, links and directories in memory."""

    kind = NodeKind.UNKNOWN

    def __init__(self, tree: MemoryTreeState) -> None:
        self.tree: Final = tree
        self.inode = tree.next_inode()
        self.links = 1
        self.held = 0
        self.accessed = self.modified = self.changed = tree.now_ns()

    @property
    def length(self) -> int:
        """Its size in bytes."""
        return 0

    def hold(self, count: int) -> None:
        """Reserve bytes for it.

        Raises:
            OSError: There is no memory for them (ENOSPC).
        """
        self.tree.upkeep.hold_name(count)
        self.held += count

    def release(self, count: int | None = None) -> None:
        """Release this many reserved bytes; all of them if None."""
        count = self.held if count is None else count
        self.tree.upkeep.release(count)
        self.held -= count

    def status(self) -> FileStatus:
        """Return its status."""
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
        """Set its modification times to now."""
        self.modified = self.changed = self.tree.now_ns()

    def set_times(self, times: Times) -> None:
        """Set its times."""
        _ = self.tree.meter
        self.accessed, self.modified = times(self.accessed, self.modified)

    def close(self) -> None:
        """Close one descriptor of it."""


class MemoryLink(MemoryNode):
    """A symbolic link."""

    kind = NodeKind.LINK

    def __init__(self, tree: MemoryTreeState, target: bytes) -> None:
        super().__init__(tree)
        self.target: Final = target

    @property
    def length(self) -> int:
        """The length of its target."""
        return len(self.target)


class MemoryFile(MemoryNode):
    """A regular file."""

    kind = NodeKind.REGULAR

    def __init__(self, tree: MemoryTreeState, path: bytes) -> None:
        super().__init__(tree)
        self.account: Final = Account(0, 1, path)
        self._pieces: list[bytearray] = []
        self._size = 0
        self._content: bytes | None = None

    @property
    def length(self) -> int:
        """Its size."""
        return self._size

    @property
    def content(self) -> bytes:
        """All of it; the same object until it is next changed."""
        if self._content is None:
            self._content = b"".join(self._pieces)
        return self._content

    @content.setter
    def content(self, data: bytes) -> None:
        """Replace all of it, uncounted."""
        self._pieces = [bytearray(data[at : at + _PIECE]) for at in range(0, len(data), _PIECE)]
        self._size = self.account.size = len(data)
        self._content = data

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
        """Yield the content from a position on, with its buffers, in parts of equal length."""
        for buffer in buffers:
            done = 0
            while done < len(buffer) and at < self._size:
                index, offset = divmod(at, _PIECE)
                part = memoryview(self._pieces[index])[offset : offset + len(buffer) - done]
                yield part, buffer[done : done + len(part)]
                done += len(part)
                at += len(part)

    def truncate(self, size: int) -> None:
        """Change the size; added bytes are zeros."""
        self._resize(size, hole_to=size)

    def _resize(self, size: int, *, hole_to: int) -> None:
        meter = self.tree.meter
        meter.allow(self.account, size)
        self._content = None
        self.tree.upkeep.work(max(0, hole_to - self._size) // BYTES_OF_A_STEP)
        if size < self._size:
            self._cut(size)
        else:
            self._grow(size)
        meter.resized(self.account, size)
        self.touch()

    def _cut(self, size: int) -> None:
        """Free what lies past `size`; truncating a `bytearray` would not free it."""
        whole, left = divmod(size, _PIECE)
        if left:
            self._pieces[whole] = self._pieces[whole][:left]
            whole += 1
        del self._pieces[whole:]
        self._size = size

    def _grow(self, size: int) -> None:
        """Add zeros; add none if the host lacks memory (ENOMEM) or the turn ends."""
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
    """A read-only file whose content is read on demand.

    Args:
        tree: The tree it is in.
        size: Its size in bytes.
        read_into: Fills a buffer from a position; returns the number of bytes read.
    """

    kind = NodeKind.REGULAR

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
