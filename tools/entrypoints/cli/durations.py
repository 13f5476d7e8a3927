"""Durations as people write them: 90m, 24h, 7d, 1h30m."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

import typer

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_PART: Final = r"(?:\d{1,12}(?:\.\d{1,6})?)[smhdw]"


class InvalidDuration(typer.BadParameter):
    """A text that is no duration."""

    def __init__(self, given: str, reason: str) -> None:
        super().__init__(
            f"{given[:60]!r} {reason}. Write a number and a unit, as in 90m, 24h, 7d or 1h30m "
            "(s seconds, m minutes, h hours, d days, w weeks)."
        )
        self.given = given


def parse_duration(text: str) -> timedelta:
    """Read a duration.

    Args:
        text: One or more numbers, each with a unit of s, m, h, d or w, the larger units first.

    Raises:
        InvalidDuration: It is none.
    """
    compact = text.strip().lower()
    if not compact.isascii() or not re.fullmatch(f"(?:{_PART})+", compact):
        raise InvalidDuration(text, "is not a duration")
    parts = [(float(part[:-1]), part[-1]) for part in re.findall(_PART, compact)]
    sizes = [_UNITS[unit] for _, unit in parts]
    if sizes != sorted(set(sizes), reverse=True):
        raise InvalidDuration(text, "names a unit twice or a smaller one before a larger one")
    try:
        return timedelta(seconds=sum(number * _UNITS[unit] for number, unit in parts))
    except OverflowError:
        raise InvalidDuration(text, "is too long") from None


def tell_duration(seconds: float) -> str:
    """Write a duration in its two largest units, as in "2 h 5 min"; short ones with decimals."""
    if seconds < 60:
        return f"{max(seconds, 0):.{2 if seconds < 9.995 else 1}f} s"
    whole = int(seconds)
    for size, unit, smaller_size, smaller in (
        (86400, "d", 3600, "h"),
        (3600, "h", 60, "min"),
        (60, "min", 1, "s"),
    ):
        if whole >= size:
            rest = whole % size // smaller_size
            return f"{whole // size} {unit}" + (f" {rest} {smaller}" if rest else "")
    return f"{whole} s"


def tell_age(seconds: float) -> str:
    """Write how long ago something was, in its largest unit: "5 min ago", "just now"."""
    if seconds < -60:
        return f"in {tell_duration(-seconds)}"
    if seconds < 5:
        return "just now"
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    return "just now"
