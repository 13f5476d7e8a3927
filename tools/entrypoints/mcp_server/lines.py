"""Messages of one line each over a pair of descriptors; needs no SDK."""

from __future__ import annotations

import fcntl
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from attrs import define, field, frozen

MAX_MESSAGE_BYTES: Final = 4 * 1024 * 1024
"""The longest accepted message, in bytes."""
READ_BYTES: Final = 64 * 1024
WRITE_BYTES: Final = 4096
"""How many bytes a ready pipe accepts without blocking (Linux, pipe(7): PIPE_BUF)."""


@frozen
class TooLong:
    """Line over the limit, which was discarded.

    Attributes:
        size_bytes: Its length.
    """

    size_bytes: int


@define
class LineFramer:
    """Splits bytes into lines; discards lines that are too long, without buffering them.

    Attributes:
        max_bytes: The longest accepted line.
    """

    max_bytes: int = MAX_MESSAGE_BYTES
    _held: bytearray = field(factory=bytearray, init=False)
    _dropped: int = field(default=0, init=False)

    def feed(self, data: bytes) -> list[bytes | TooLong]:
        """Add bytes; return the lines that are now complete, without line ends."""
        frames: list[bytes | TooLong] = []
        *ends, rest = data.split(b"\n")
        for piece in ends:
            self._take(piece)
            frames.append(TooLong(self._dropped) if self._dropped else bytes(self._held))
            self._held.clear()
            self._dropped = 0
        self._take(rest)
        return frames

    def _take(self, piece: bytes) -> None:
        if self._dropped or len(self._held) + len(piece) > self.max_bytes:
            self._dropped += len(self._held) + len(piece)
            self._held.clear()
        else:
            self._held += piece


@contextmanager
def diverted(fd: int, mode: int) -> Iterator[int]:
    """Yield a duplicate of a descriptor; its own number leads to a substitute meanwhile."""
    private = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)
    try:
        if mode == os.O_WRONLY:
            sys.stdout.flush()
        nowhere = _standard_error() if mode == os.O_WRONLY else os.open(os.devnull, os.O_RDONLY)
        try:
            os.dup2(nowhere, fd)
        finally:
            os.close(nowhere)
        yield private
    finally:
        os.dup2(private, fd)
        os.close(private)


def _standard_error() -> int:
    try:
        return os.dup(2)
    except OSError:
        return os.open(os.devnull, os.O_WRONLY)
