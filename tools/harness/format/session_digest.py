"""The digest in a session's file, which detects unnoticed changes of it; pure.

    digest: crc32-0a1b2c3d
    ...

It is the last line before the end mark: the CRC-32 of everything before it. It detects any single
flipped bit, and before the line any run of changed bits of up to 32. It proves nothing about who
wrote a file, and a person who edits one by hand need not know about it. So a file with a wrong
digest is still read, as one without a digest is, and its reader reports the mismatch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Final
from zlib import crc32

FIELD: Final = "digest"
"""The digest's field in the file; no field of a session has this name."""
LINE: Final = rf"{FIELD}: crc32-[0-9a-f]{{8}}\n"
"""The digest line, as a regular expression."""
NOTICE: Final = (
    "its content is not what its digest was made of: it was edited by hand, or was damaged on the "
    "disk. It was read as it is, and the next save writes a new digest; see that it says what it "
    "should."
)
"""The message about a file whose digest does not match its content."""

_END: Final = re.compile(rf"([\n*J])({LINE})(?:\.\.\.\n)?\Z".encode())
"""The end of a file, after a line break or what one flipped bit may make of it in YAML."""
_NAME: Final = f"\n{FIELD}:".encode()
_SPAN: Final = 64
"""More bytes than the digest line and the end mark together."""


def digest_line(checksum: int) -> bytes:
    """Return the digest line for content with this CRC-32."""
    return f"{FIELD}: crc32-{checksum:08x}\n".encode()


def checksum_of(pieces: Iterable[bytes | bytearray | memoryview], before: int = 0) -> int:
    """Return the CRC-32 of consecutive pieces, continued from that of the content before them."""
    for piece in pieces:
        before = crc32(piece, before)
    return before


class GrowingChecksum:
    """The checksum of an append-mostly text, computed in one pass over each byte.

    A save changes the head of a file and appends to its history; for a large file, checksumming all
    of it would take a tenth of the save's time.
    """

    def __init__(self) -> None:
        self._found = 0
        self._size = 0

    def behind(self, before: int, text: bytearray) -> int:
        """Return the checksum of the text and of the content before it.

        Args:
            before: The checksum of the content before it.
            text: The text; since the last call, only its end has changed.
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
"""The polynomial 1: a CRC-32's bits are its coefficients, the highest bit that of x^0."""


def joined(first: int, second: int, size: int) -> int:
    """Return the CRC-32 of two consecutive texts from those of each.

    The first one's is multiplied by x to the number of bits after it, modulo the polynomial of
    CRC-32 (as zlib's `crc32_combine` does), and the second one's added.

    Args:
        first: The checksum of the first text.
        second: The checksum of the second text.
        size: The second text's length in bytes.
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
    """Return whether a file has a digest that does not match its content.

    Args:
        data: The file.
        carried: Whether it has the field, as its reader found; if None, the field is searched for.
    """
    end = _END.search(data, max(len(data) - _SPAN, 0))
    if end is None:  # in another place, or in another form
        return _NAME in data if carried is None else carried
    content = memoryview(data)[: end.start(2)]
    return end[1] != b"\n" or digest_line(crc32(content)) != end[2]
