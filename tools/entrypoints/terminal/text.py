"""Makes an agent's text harmless to the terminal that shows it.

A prompt, a title or a label may contain escape sequences that set the clipboard or rename the
window, controls that reorder text, or invisible characters. All are removed, so that a person reads
what is really there.
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
"""Control sequences and control strings, as defined in ECMA-48 (5th edition, 5.3 to 5.6)."""

_BREAKS: Final = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_JOINERS: Final = frozenset("\u200c\u200d")
"""Joiners that scripts and emoji need; they can neither reorder nor hide text."""

_HIDDEN: Final = frozenset({"Cc", "Cf", "Cn", "Co", "Cs"})
"""Unicode's general categories of characters without a glyph."""

_LOST: Final = "\ufffd"
_TAB: Final = 4


def harmless(text: str) -> str:
    """Return `text` without anything a terminal would act on; line breaks stay.

    Escape sequences are removed completely, so that no fragment remains. Control characters,
    controls that reorder text and invisible characters are removed; a lone surrogate becomes
    U+FFFD. Tabs become spaces. The result is printable except for line breaks and joiners.
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
    """Return harmless `text` on one line, cut to `limit` characters with an ellipsis."""
    flat = " ".join(harmless(text).split())
    if limit is not None and len(flat) > limit:
        return f"{flat[: max(limit - 1, 0)]}…"
    return flat


SHORT_ID: Final = 8
"""Number of characters shown of a session's id."""
CURSOR: Final = "▸"
"""Marks the line at the cursor, in addition to its colour."""

_MINUTE: Final = 60
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR


def since(seconds: float) -> str:
    """Return an elapsed time in one unit: "now", "3 min", "2 h", "5 d"; negative gives "now"."""
    if seconds < _MINUTE:
        return "now"
    if seconds < _HOUR:
        return f"{int(seconds // _MINUTE)} min"
    if seconds < 2 * _DAY:
        return f"{int(seconds // _HOUR)} h"
    return f"{int(seconds // _DAY)} d"


def running(seconds: float) -> str:
    """Return a time as on a clock: "0:07", "12:30", "2:05:00", from two days on "5 d".

    A negative time counts as zero.
    """
    if seconds >= 2 * _DAY:
        return since(seconds)
    whole = max(int(seconds), 0)
    minutes, second = divmod(whole, _MINUTE)
    hours, minute = divmod(minutes, _MINUTE)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def folder_name(folder: str, limit: int) -> str:
    """Return a folder's path on one line, its beginning cut to fit `limit` characters."""
    path = one_line(folder)
    return path if len(path) <= limit else f"…{path[len(path) - max(limit - 1, 0) :]}"
