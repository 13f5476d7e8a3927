"""The digest that a session's file carries of itself, against what changes it unnoticed; pure.

    digest: crc32-0a1b2c3d
    ...

It is the last line before the end mark: the CRC-32 of all that stands before it, by which any bit
that flipped is found, and before the line any run of changed bits of up to 32. It proves nothing
about who wrote a file: whoever edits one by hand need not know about it. So a file that has another
digest is read all the same, as one that has none, and what reads it says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Final
from zlib import crc32

FIELD: Final = "digest"
"""The field of the file; no session has one of this name."""
LINE: Final = rf"{FIELD}: crc32-[0-9a-f]{{8}}\n"
"""How the line looks, as a regular expression."""
NOTICE: Final = (
    "its content is not what its digest was made of: it was edited by hand, or was damaged on the "
    "disk. It was read as it is, and the next save writes a new digest; see that it says what it "
    "should."
)
"""What is said of a file that has another digest than its content."""

_END: Final = re.compile(rf"([\n*J])({LINE})(?:\.\.\.\n)?\Z".encode())
"""The end of a file, behind a line break or what one bit makes of it that may stand in YAML."""
_NAME: Final = f"\n{FIELD}:".encode()
_SPAN: Final = 64
"""More bytes than the line and the end mark together have."""


def digest_line(checksum: int) -> bytes:
    """Return the line for a file of whose content before it this is the CRC-32."""
    return f"{FIELD}: crc32-{checksum:08x}\n".encode()


def checksum_of(pieces: Iterable[bytes | bytearray | memoryview], before: int = 0) -> int:
    """Return the CRC-32 of pieces, one behind the other, and of what stands before them."""
    for piece in pieces:
        before = crc32(piece, before)
    return before


class GrowingChecksum:
    """The checksum of a text that is mostly added to: each byte is looked at once.

    A save changes the head of a file and adds to the history behind it; of a large one, to look at
    all of it would take as long as a tenth of the save.
    """

    def __init__(self) -> None:
        self._found = 0
        self._size = 0

    def behind(self, before: int, text: bytearray) -> int:
        """Return the checksum of the text and of what stands before it.

        Args:
            before: The checksum of that.
            text: The text; of what it was last time, nothing but its end has changed.
        """
        if len(text) < _WORTH_JOINING:
            self._found = self._size = 0
            return crc32(text, before)
        with memoryview(text) as view:
            self._found = crc32(view[self._size :], self._found)
        self._size = len(text)
        return joined(before, self._found, self._size)


_WORTH_JOINING: Final = 1 << 16
_POLYNOMIAL: Final = 0xEDB88320
_ONE: Final = 1 << 31
"""The polynomial 1: the bits of a CRC-32 are its coefficients, the highest bit that of x^0."""


def joined(first: int, second: int, size: int) -> int:
    """Return the CRC-32 of two texts, one behind the other, by those of each.

    The first one's is multiplied by x to the number of bits behind it, modulo the polynomial of
    CRC-32 (as zlib's `crc32_combine` does), and the second one's added.

    Args:
        first: The checksum of the first text.
        second: That of the second one.
        size: How many bytes the second one has.
    """
    power, left = _ONE, size
    for square in _powers_of_a_byte():
        if left & 1:
            power = _product(square, power)
        left >>= 1
        if not left:
            break
    return _product(power, first) ^ second


@cache
def _powers_of_a_byte() -> tuple[int, ...]:
    """Return x^8, x^16, x^32, … for sizes below 2^40."""
    found = [_ONE >> 8]
    while len(found) < 40:
        found.append(_product(found[-1], found[-1]))
    return tuple(found)


def _product(one: int, other: int) -> int:
    """Multiply two polynomials modulo that of CRC-32."""
    found = 0
    while one:
        if one & _ONE:
            found ^= other
        one = (one << 1) & 0xFFFFFFFF
        other = (other >> 1) ^ (_POLYNOMIAL if other & 1 else 0)
    return found


def differs(data: bytes, *, carried: bool | None = None) -> bool:
    """Return whether a file carries a digest, and it is not that of its content.

    Args:
        data: The file.
        carried: Whether it has the field, as its reader found; if None, that is looked for.
    """
    end = _END.search(data, max(len(data) - _SPAN, 0))
    if end is None:  # elsewhere, or of another form
        return _NAME in data if carried is None else carried
    content = memoryview(data)[: end.start(2)]
    return end[1] != b"\n" or digest_line(crc32(content)) != end[2]
