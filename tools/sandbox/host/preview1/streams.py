"""The guest's standard streams: input from bytes, output kept up to a limit."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Final

from ..files.files import Buffers, FileStatus, Kind, Times, WithoutContent, refusal

_HANDED_ON_AT_ONCE: Final = 1 << 16
_STATUS = FileStatus(0, 0, Kind.UNKNOWN, 1, 0, 0, 0, 0)


class _Stream(WithoutContent):
    """What streams refuse."""

    kind = Kind.UNKNOWN

    def status(self) -> FileStatus:
        """Nothing is known of a stream."""
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
        """Nothing to do."""


class InputFile(_Stream):
    """Input that is all there from the start, as a file that can only be read."""

    kind = Kind.REGULAR

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)

    def status(self) -> FileStatus:
        """A file of that size."""
        return _STATUS._replace(kind=Kind.REGULAR, size=len(self._data))

    def read(self, buffers: Buffers, at: int) -> int:
        """The bytes from a position; none at the end."""
        start = at
        for buffer in buffers:
            piece = self._data[at : at + len(buffer)]
            buffer[: len(piece)] = piece
            at += len(piece)
        return at - start


class OutputStream(_Stream):
    """Keeps what is written, up to a limit; what goes past it counts as written and is dropped.

    Args:
        limit: The most bytes kept.
        hand_on: Called with all that comes, a piece at a time; it must not raise.
    """

    def __init__(self, limit: int, hand_on: Callable[[bytes], object] | None = None) -> None:
        self.data = bytearray()
        self.truncated = False
        self._limit = limit
        self._hand_on = hand_on

    def write(self, buffers: Buffers, at: int | None) -> tuple[int, int]:
        """Take what is written."""
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
