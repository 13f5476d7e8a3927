"""Durations as people write them: `1h30m`, `45s`."""

from __future__ import annotations

import re

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_PART = re.compile(r"([0-9]+)([smhd])")


def parse(text: str) -> int:
    """Return how many seconds a duration has.

    Raises:
        ValueError: It is none.
    """
    if not text or _PART.sub("", text):
        raise ValueError(f"{text!r} is no duration; write it as 1h30m")
    return sum(int(number) * _UNITS[unit] for number, unit in _PART.findall(text))
