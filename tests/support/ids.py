"""Ids of sessions that a test names."""

from __future__ import annotations

import zlib


def sid(name: str) -> str:
    """Return a session's id, always the same for one name."""
    return f"session_20260101_000000_{zlib.crc32(name.encode()) % 1_000_000:06d}"


def numbered(number: int, of: int = 0) -> str:
    """Return the id of the `number`th session of some worker."""
    return f"session_20260101_{of:06d}_{number:06d}"
