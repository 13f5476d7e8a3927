"""The guest's standard streams: input from bytes, output stored up to a limit."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Final

from ..files.files import Buffers, FileStatus, NodeKind, Times, WithoutContent, refusal

_HANDED_ON_AT_ONCE: Final = 1 << 16
_STATUS = FileStatus(0, 0, NodeKind.UNKNOWN, 1, 0, 0, 0, 0)


class _Stream(WithoutContent):
    """Base of streams; refuses what they cannot do."""

    kind = NodeKind.UNKNOWN

    def status(self) -> FileStatus:
        """Return an empty status."""
        return _STATUS

    def read(self, buffers: Buffers, at: int) -> int:
        """Refused."""
        del buffers, at
        raise refusal(errno.EBADF)

    def set_times(self, times: Times) -> None:
        """Refused."""
        del times
        raise refusal(errno.EINVAL)

    def close(self) -> None:
        """Do nothing."""


class InputFile(_Stream):
    """Input that is complete from the start; behaves as a read-only file."""

    kind = NodeKind.REGULAR

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)

    def status(self) -> FileStatus:
        """Return the status of a file of that size."""
        return _STATUS._replace(kind=NodeKind.REGULAR, size=len(self._data))

    def read(self, buffers: Buffers, at: int) -> int:
        """Read from a position; read nothing at the end."""
        start = at
        for buffer in buffers:
            piece = self._data[at : at + len(buffer)]
            buffer[: len(piece)] = piece
            at += len(piece)
        return at - start


class OutputStream(_Stream):
    """Stores what is written, up to a limit; the excess counts as written and is dropped.

    Args:
        limit: The most bytes stored.
        hand_on: Called with each piece written, the excess too; it must not raise.
    """

    def __init__(self, limit: int, hand_on: Callable[[bytes], object] | None = None) -> None:
        self.data = bytearray()
        self.truncated = False
        self._limit = limit
        self._hand_on = hand_on

    def write(self, buffers: Buffers, at: int | None) -> tuple[int, int]:
        """Store and forward what is written."""
        del at
        count = 0
        for buffer in buffers:
            count += len(buffer)
            left = self._limit - len(self.data)
            if len(buffer) > left:
                self.truncated = True
            if self._hand_on is not None:
                for begin in range(0, len(buffer), _HANDED_ON_AT_ONCE):
                    self._hand_on(bytes(buffer[begin : begin + _HANDED_ON_AT_ONCE]))
            self.data += buffer[: max(0, left)]
        return count, count
