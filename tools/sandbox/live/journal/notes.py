"""The binary form of a journal's notes: numbers of variable length, bytes with their length.

What is read may be hostile: every length is checked against what is there and a limit.
"""

from __future__ import annotations

import os
from typing import Final

from ..errors import TurnJournalDamaged

MOST_BYTES: Final = 64 << 20
"""The most bytes of one value, as one call transfers at most that many."""

_MOST_BITS: Final = 70
_MOST: Final = (1 << 64) - 1
_MOST_MODE: Final = 0xFFFF


class NoteWriter:
    """Notes that were added and not taken yet.

    Attributes:
        data: The notes.
        seen: The last status that was written or read; the next is written as a difference.
    """

    def __init__(self) -> None:
        self.data = bytearray()
        self.seen = _NO_STATUS

    def take(self) -> bytes:
        """Return the notes and forget them."""
        taken = bytes(self.data)
        self.data.clear()
        return taken

    def byte(self, value: int) -> None:
        """Add a number below 256."""
        self.data.append(value)

    def number(self, value: int) -> None:
        """Add a number that is not negative."""
        data = self.data
        while value > 0x7F:
            data.append(value & 0x7F | 0x80)
            value >>= 7
        data.append(value)

    def signed(self, value: int) -> None:
        """Add a number of either sign; one near zero is short."""
        self.number(value << 1 if value >= 0 else -value << 1 | 1)

    def bytes(self, value: bytes) -> None:
        """Add bytes."""
        self.number(len(value))
        self.data += value

    def status(self, seen: os.stat_result) -> None:
        """Add a file's status: which fields differ from the last one, and by how much."""
        fields = _fields(seen)
        at = len(self.data)
        self.data.append(0)
        for i, (value, before) in enumerate(zip(fields, self.seen, strict=True)):
            if value != before:
                self.data[at] |= 1 << i
                self.signed(value - before)
        self.seen = fields


class NoteReader:
    """Reads notes one after another.

    Attributes:
        seen: As of `NoteWriter`.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self.seen = _NO_STATUS

    @property
    def left(self) -> bool:
        """Whether there are more."""
        return self._at < len(self._data)

    def peek(self) -> int | None:
        """Return the next byte without taking it; None at the end."""
        return self._data[self._at] if self._at < len(self._data) else None

    def byte(self) -> int:
        """Take a number below 256."""
        if self._at >= len(self._data):
            raise TurnJournalDamaged(reason="a note ends early")
        self._at += 1
        return self._data[self._at - 1]

    def number(self, most: int = _MOST) -> int:
        """Take a number that is not negative, at most so large."""
        value = shift = 0
        while shift < _MOST_BITS:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                break
            shift += 7
        if byte >= 0x80 or value > most:
            raise TurnJournalDamaged(reason="a number is too large")
        return value

    def signed(self) -> int:
        """Take a number of either sign."""
        value = self.number(1 << _MOST_BITS)
        return -(value >> 1) if value & 1 else value >> 1

    def bytes(self, most: int = MOST_BYTES) -> bytes:
        """Take bytes, at most so many."""
        length = self.number()
        end = self._at + length
        if length > most or end > len(self._data):
            raise TurnJournalDamaged(reason=f"{length} bytes where at most {most} are expected")
        value = self._data[self._at : end]
        self._at = end
        return value

    def status(self) -> os.stat_result:
        """Take a file's status."""
        differs = self.byte()
        fields = list(self.seen)
        for i in range(len(fields)):
            if differs >> i & 1:
                fields[i] += self.signed()
        self.seen = tuple(fields)
        return _status(self.seen)


_NO_STATUS: Final[tuple[int, ...]] = (0,) * 8


def _fields(seen: os.stat_result) -> tuple[int, ...]:
    return (
        seen.st_mode,
        seen.st_ino,
        seen.st_dev,
        seen.st_nlink,
        seen.st_size,
        seen.st_atime_ns,
        seen.st_mtime_ns,
        seen.st_ctime_ns,
    )


def _status(fields: tuple[int, ...]) -> os.stat_result:
    mode, inode, device, links, size, *times = fields
    is_one = mode <= _MOST_MODE and min(mode, inode, device, links, size) >= 0
    if not is_one or max(map(abs, fields)) > _MOST:
        raise TurnJournalDamaged(reason="a status has a field out of range")
    of_times = dict(zip(("st_atime_ns", "st_mtime_ns", "st_ctime_ns"), times, strict=True))
    seconds = [each // 10**9 for each in times]
    return os.stat_result((mode, inode, device, links, 0, 0, size, *seconds), of_times)
