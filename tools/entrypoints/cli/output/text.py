"""Make text of unknown origin safe for a terminal; format durations and ages.

A session's goal, details, paths and names can hold anything: escape sequences that move the cursor
or set the clipboard, marks that reorder text, line breaks that fake a line of our own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Final

from ....base import errors

_JOINERS: Final = frozenset("\u200c\u200d")
"""Zero-width joiners: scripts and emoji need them, and they can't reorder or hide text."""

_LINE_BREAKS: Final = re.compile("\r\n|\n")


class State(str):
    """State that a table shows in its colour."""


def _spell(character: str) -> str:
    if character.isprintable() or character in _JOINERS:
        return character
    code = ord(character)
    if character.isspace() and code > 0xA0 and character not in "\u2028\u2029":
        return " "
    if code == 0xA0:
        return " "
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def safe(text: object) -> str:
    """Return `text` on one line, with everything that a terminal could act on spelled out.

    Line breaks and tabs become single spaces; control characters, escape sequences, marks that
    reorder text, lone surrogates and unassigned characters become Python escapes.
    """
    flat = _LINE_BREAKS.sub(" ", str(text)).replace("\t", " ")
    return flat if flat.isprintable() else "".join(map(_spell, flat))


def safe_lines(text: object) -> str:
    """Return `text` as `safe` does, but keep its line breaks, and indentation by tabs."""
    lines = _LINE_BREAKS.split(str(text).expandtabs(4))
    return "\n".join(map(safe, lines))


def first_line(text: str | None) -> str:
    """Return the first line that is not blank; empty if there is none."""
    return (text or "").strip().split("\n", 1)[0]


def lines_of(text: str | None) -> list[str]:
    """Return the lines of `text`, at least one, each as `safe` does."""
    return safe_lines(text or "").rstrip().split("\n")


counted_of: Final = errors.counted
"""Return a number with its noun: `1 file`, `2 files`."""


def counted(number: int) -> str:
    """Return a number of sessions as text: "1 session", "1,500 sessions"."""
    return counted_of(number, "session")


def some_of(names: Sequence[str], most: int = 5) -> str:
    """Return the first names, and the number of the others."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more:,} more" if more > 0 else "")


def shorten(text: str, limit: int) -> str:
    """Return `text`, cut to `limit` characters with an ellipsis at its end if it is longer."""
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def duration_text(seconds: float) -> str:
    """Return a duration in its two largest units, as in "2 h 5 min"; short ones with decimals."""
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


def moment_text(moment: datetime | None) -> str:
    """Return a time in UTC, to the second."""
    return "" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S}Z"


def age_text(seconds: float) -> str:
    """Return an age in its largest unit: "5 min ago", "just now"."""
    if seconds < -60:
        return f"in {duration_text(-seconds)}"
    if seconds < 5:
        return "just now"
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        if seconds >= size:
            return f"{int(seconds // size)} {unit} ago"
    return "just now"
