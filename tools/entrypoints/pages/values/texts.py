"""How moments, durations, sizes and long texts read on a page; pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

MAX_TEXT: Final = 200_000
"""The most characters that are shown of one text."""

_LONGEST: Final = 1e11
"""A longer duration, in seconds, is a fault of who noted it; it is shown as this one."""


def moment(at: datetime) -> str:
    """Return a moment in UTC, to the second."""
    return f"{at:%Y-%m-%d %H:%M:%S}Z"


def duration(seconds: float) -> str:
    """Return a duration in two units at the most: `0.4 s`, `12 s`, `3 min 05 s`, `2 d 4 h`."""
    seconds = min(max(0.0, seconds), _LONGEST)
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 86_400:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{whole // 86_400} d {whole % 86_400 // 3600} h"


def size(count: int) -> str:
    """Return a size in bytes, in the unit that keeps it short: `812 B`, `3.4 KiB`, `12 MiB`."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" or amount >= 10 else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"


def percent(part: float, whole: float) -> str:
    """Return a share in percent; `<1 %` where it is more than nothing and would read as nothing."""
    share = part / whole * 100 if whole else 0.0
    return "<1 %" if 0 < share < 1 else f"{share:.0f} %"


def cut(text: str, most: int = MAX_TEXT) -> str:
    """Return the beginning of a text, and how much of it was left out."""
    if len(text) <= most:
        return text
    return f"{text[:most]}\n[… {len(text) - most:,} more characters]"


def as_words(value: object, *, between: str = "\n") -> str:
    """Return a value as JSON has it in words: no quotes, braces or names of classes.

    Args:
        value: The value.
        between: What separates the members of a mapping and the items of a list; within those it
            is a comma.
    """
    match value:
        case Mapping():
            members = (f"{key}: {as_words(item, between=', ')}" for key, item in value.items())
            text = between.join(members) or "none"
        case list() | tuple():
            text = between.join(as_words(item, between=", ") for item in value) or "none"
        case None:
            text = "none"
        case bool():
            text = "yes" if value else "no"
        case int():
            text = f"{value:,}"
        case float():
            text = f"{value:g}"
        case _:
            text = str(value)
    return text
