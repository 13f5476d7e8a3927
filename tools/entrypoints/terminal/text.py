"""Text that an agent wrote, made harmless to the terminal it is shown in.

A prompt, a title or a label can hold anything: escape sequences that set the clipboard or rename
the window, marks that reorder what is read, invisible letters. All of it is taken out, so
that what a person reads is what there is.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_SEQUENCES: Final = re.compile(
    r"""
      (?:\x1b\[|\x9b) [0-?]* [ -/]* [@-~]?           # CSI: colours, moves, modes
    | (?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])         # OSC, DCS, SOS, PM, APC: a string ...
      [^\x07\x1b\x9c\n]* (?:\x07|\x1b\\|\x9c)?        # ... up to its end, or to that of the line
    | \x1b [ -/]* [0-~]?                             # any other escape
    """,
    re.VERBOSE,
)
"""ECMA-48 (5th edition, 5.3 to 5.6): how control sequences and control strings are built."""

_BREAKS: Final = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_JOINERS: Final = frozenset("\u200c\u200d")
"""Scripts and emoji need them, and they can neither reorder nor hide anything."""

_HIDDEN: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs"})
"""Unicode's general categories without a shape of their own."""

_LOST: Final = "\ufffd"
_TAB: Final = 4


def harmless(text: str) -> str:
    """Return `text` without anything a terminal would act on; line breaks stay.

    Escape sequences go as a whole, so that no part of one is left to be read. Control characters,
    marks that reorder text and letters that can't be seen go too; half of a surrogate pair becomes
    U+FFFD. Tabs become spaces. What is left is printable, but for line breaks.
    """
    if text.isprintable():
        return text
    plain = _BREAKS.sub("\n", _SEQUENCES.sub("", text)).expandtabs(_TAB)
    if plain.replace("\n", "").isprintable():
        return plain
    return "".join(map(_kept, plain))


def _kept(character: str) -> str:
    if character == "\n" or character in _JOINERS or character.isprintable():
        return character
    if character.isspace():
        return " "
    category = unicodedata.category(character)
    if category == "Cs":
        return _LOST
    return "" if category in _HIDDEN else " "


def one_line(text: str, limit: int | None = None) -> str:
    """Return `text` harmless and on one line, cut to `limit` characters with an ellipsis."""
    flat = " ".join(harmless(text).split())
    if limit is not None and len(flat) > limit:
        return f"{flat[: max(limit - 1, 0)]}…"
    return flat


SHORT_ID: Final = 8
"""How many characters of a session's id are shown."""
CURSOR: Final = "▸"
"""Stands before the line at the cursor, in addition to its colour."""

_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR


def since(seconds: float) -> str:
    """Return how long something has waited, in one unit: "now", "3 min", "2 h", "5 d".

    Args:
        seconds: How long; a clock that went back gives "now".
    """
    if seconds < _MINUTE:
        return "now"
    if seconds < _HOUR:
        return f"{int(seconds // _MINUTE)} min"
    if seconds < 2 * _DAY:
        return f"{int(seconds // _HOUR)} h"
    return f"{int(seconds // _DAY)} d"


def running(seconds: float) -> str:
    """Return a time as a clock shows it: "0:07", "12:30", "2:05:00", from two days on "5 d".

    Args:
        seconds: How long; less than nothing is nothing.
    """
    if seconds >= 2 * _DAY:
        return since(seconds)
    whole = max(int(seconds), 0)
    minutes, second = divmod(whole, _MINUTE)
    hours, minute = divmod(minutes, _MINUTE)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def folder_name(folder: str, limit: int) -> str:
    """Return a folder's path on one line; past `limit` characters its beginning is left out."""
    path = one_line(folder)
    return path if len(path) <= limit else f"…{path[len(path) - max(limit - 1, 0) :]}"
