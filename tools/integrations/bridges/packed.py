"""Packs a small description and some bytes into one piece; pure."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any, Final

_LENGTHS: Final = struct.Struct("<II")
_LENGTH: Final = struct.Struct("<I")


def packed(about: dict[str, Any], parts: Sequence[bytes]) -> bytes:
    """Return a JSON description and some parts as one piece."""
    text = json.dumps(about, separators=(",", ":")).encode()
    sizes = b"".join(_LENGTH.pack(len(part)) for part in parts)
    return b"".join([_LENGTHS.pack(len(text), len(parts)), sizes, text, *parts])


def unpacked(data: bytes) -> tuple[dict[str, Any], list[bytes]]:
    """Return the description and the parts.

    Raises:
        ValueError: `data` is not a packed piece.
    """
    try:
        text_bytes, count = _LENGTHS.unpack_from(data)
        sizes = struct.unpack_from(f"<{count}I", data, _LENGTHS.size)
    except struct.error as error:
        raise ValueError(f"it is cut off: {error}") from error
    start = _LENGTHS.size + count * _LENGTH.size
    about = json.loads(data[start : start + text_bytes].decode())
    parts, start = [], start + text_bytes
    for size in sizes:
        parts.append(data[start : start + size])
        start += size
    if start != len(data) or not isinstance(about, dict):
        raise ValueError("it is not what its lengths say")
    return about, parts
