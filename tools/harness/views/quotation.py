"""Quotations of what persons and programs said: one line each, closed by nothing in it; pure."""

from __future__ import annotations

import re
from typing import Final

from ...base.text.masking import mask

MAX_QUOTED: Final = 400
MAX_NAME: Final = 100
_PLAIN: Final = '"'
"""Replaces the opening and closing quotation marks within a quotation."""
_FENCE: Final = re.compile("~+")
_TAG: Final = re.compile(r"<(?=[A-Za-z/!?|])")
_NO_TAG: Final = "\u2039"
"""Replaces the beginning of a tag: a single angle quotation mark."""
_PLAIN_NAME: Final = re.compile(r"[\w.+/:@-]+", re.ASCII)


def fence_around(lines: list[str]) -> str:
    """Return a line with more tildes than the longest run of them in any of the lines."""
    runs = (len(run) for line in lines for run in _FENCE.findall(line))
    return "~" * max(3, 1 + max(runs, default=0))


def name_of(text: str, *, limit: int = MAX_NAME) -> str:
    """Put a name on one line: unquoted if it is one plain word, otherwise quoted."""
    plain = _PLAIN_NAME.fullmatch(text) is not None and len(text) <= limit
    return text if plain else quoted(text, limit=limit)


def quoted(text: str, *, limit: int = MAX_QUOTED) -> str:
    """Put text on one line in quotation marks that nothing in it closes."""
    return f"“{_one_line(text, limit=limit).replace('“', _PLAIN).replace('”', _PLAIN)}”"


def _one_line(text: str, *, limit: int) -> str:
    """Put text on one line; truncate a long one to its beginning and its end, which has the cause.

    Secrets are masked. Unprintable characters are removed, which includes marks of direction and of
    no width.
    """
    text = mask(text).text
    if not text.isprintable():
        text = "".join(c if c.isprintable() else " " for c in text)
    flat = _TAG.sub(_NO_TAG, " ".join(text.split()))
    if len(flat) <= limit:
        return flat
    head = limit // 3
    return f"{flat[:head]} … {flat[-(limit - head - 3) :]}"
