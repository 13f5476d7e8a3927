"""Numbers of bytes in words."""

from __future__ import annotations

_UNITS = ("KB", "MB", "GB", "TB", "PB")


def human_bytes(size: int) -> str:
    """Write a number of bytes for people: "512 B", "1.5 MB"; a KB is 1,024 bytes."""
    if size < 1024:
        return f"{size} B"
    scaled = float(size)
    for unit in _UNITS:
        scaled /= 1024
        if round(scaled, 1) < 1024 or unit == _UNITS[-1]:
            break
    return f"{scaled:.1f} {unit}"
