"""Packing for snapshots: by zstd, and memory pages against the template's same pages."""

from __future__ import annotations

import sys
from typing import Final

from ..errors import ProgramSnapshotDamaged

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

_LEVEL: Final = 3
_WINDOW: Final = 23
"""The most that unpacking may look back, as a power of two: it bounds the memory for it."""

_PACKING: Final[dict[int, int]] = {
    zstd.CompressionParameter.compression_level: _LEVEL,
    zstd.CompressionParameter.window_log: _WINDOW,
    zstd.CompressionParameter.enable_long_distance_matching: 1,
}
_UNPACKING: Final[dict[int, int]] = {zstd.DecompressionParameter.window_log_max: _WINDOW}
_LEAST_PREFIX: Final = 8


def pack(data: bytes, prefix: bytes = b"") -> bytes:
    """Return data packed; little is left of what the prefix has, too."""
    return zstd.compress(data, options=_PACKING, zstd_dict=_prefix(prefix))


def unpack(packed: bytes, size: int, prefix: bytes = b"") -> bytes:
    """Return the data that was packed with this prefix.

    Raises:
        ProgramSnapshotDamaged: It is not exactly this many bytes; no more than that are unpacked.
    """
    decompressor = zstd.ZstdDecompressor(zstd_dict=_prefix(prefix), options=_UNPACKING)
    try:
        found = decompressor.decompress(packed, max_length=size + 1)
    except (zstd.ZstdError, EOFError) as error:
        raise ProgramSnapshotDamaged(f"its content cannot be unpacked ({error})") from error
    if len(found) != size or not decompressor.eof or decompressor.unused_data:
        raise ProgramSnapshotDamaged("its content has another size than it says")
    return found


def _prefix(data: bytes) -> tuple[zstd.ZstdDict, int] | None:
    return zstd.ZstdDict(data, is_raw=True).as_prefix if len(data) >= _LEAST_PREFIX else None
