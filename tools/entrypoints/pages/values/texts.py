"""Formats moments, durations, sizes and long texts for a page; pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

MAX_TEXT: Final = 200_000
"""Maximum number of characters shown of one text."""

_LONGEST: Final = 1e11
"""The longest duration shown, in seconds; a longer one is an error of its source and is clipped."""


def moment(at: datetime) -> str:
    """Return a moment to the second, marked as UTC; `at` must be in UTC."""
    return f"{at:%Y-%m-%d %H:%M:%S}Z"


def duration(seconds: float) -> str:
    """Return a duration in at most two units: `0.4 s`, `12 s`, `3 min 05 s`, `2 d 4 h`."""
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
    """Return a size in bytes in a fitting unit: `812 B`, `3.4 KiB`, `12 MiB`."""
    amount = float(count)
    for unit in ("B", "KiB", "MiB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}" if unit == "B" or amount >= 10 else f"{amount:.1f} {unit}"
        amount /= 1024
    return f"{amount:.1f} GiB"


def percent(part: float, whole: float) -> str:
    """Return a share in percent; `<1 %` if it is below 1 % but not zero."""
    share = part / whole * 100 if whole else 0.0
    return "<1 %" if 0 < share < 1 else f"{share:.0f} %"


def cut(text: str, most: int = MAX_TEXT) -> str:
    """Return at most `most` characters of a text, followed by the number of omitted ones if any."""
    if len(text) <= most:
        return text
    return f"{text[:most]}\n[… {len(text) - most:,} more characters]"


def as_words(value: object, *, between: str = "\n") -> str:
    """Return a JSON value in words, without quotes, braces or class names.

    Args:
        value: The value.
        between: Separates the top-level members of a mapping or items of a list; nested ones are
            separated by commas.
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
