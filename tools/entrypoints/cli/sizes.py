"""Sizes as people write them: 512MB, 10GiB, 4096."""

from __future__ import annotations

import re
from typing import Final

import typer

_SIZE: Final = re.compile(r"(?i)(\d{1,15})\s*(?:(k|m|g|t)(i?)b?|b)?")
_POWERS: Final = {"k": 1, "m": 2, "g": 3, "t": 4}


def parse_size(text: str, option: str) -> int:
    """Read a number of bytes: a KB is 1,000 of them, a KiB 1,024.

    Args:
        text: A whole number, with a unit or without.
        option: The option that it was given to, for the message.

    Raises:
        typer.BadParameter: It is none.
    """
    found = _SIZE.fullmatch(text.strip()) if text.isascii() else None
    if found is None:
        raise typer.BadParameter(
            f"{text[:60]!r} is no size. Write a whole number and a unit, as in 512MB or 1GiB",
            param_hint=option,
        )
    number, unit, binary = found.groups()
    base = 1024 if binary else 1000
    size: int = int(number) * base ** _POWERS.get((unit or "").lower(), 0)
    return size
