"""Sessions in PostgreSQL that may contain some words: filtered by the server, by all their rows.

A row has its entry as a session's file would have it. The filter looks for parts of words that
appear there unchanged; rows with all parts may still lack the words, so the session itself decides.
An index of all text would have to change with each save, so there is none: a search examines each
session that fits, the last changed first, and stops when its reader has enough.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from typing import Any, Final

from ....base.search_words import SearchWords
from ....harness.format.session_sieve import unchanging_parts
from ....harness.views.session_filter import SessionFilter
from ....harness.views.session_head import SessionSummary, UnreadableSession
from ....harness.views.session_page import SessionOrder
from ..database import Database
from .session_pages import SearchedPart, like_pattern, read_rows, read_summaries

FOLDED_TO_ASCII: Final = {
    letter: letter.casefold()
    for letter in "\u00df\u0130\u0149\u017f\u01f0\u1e96\u1e97\u1e98\u1e99\u1e9a\u1e9e\u212a"
    "\ufb00\ufb01\ufb02\ufb03\ufb04\ufb05\ufb06"
}
"""The letters that are not ASCII, and whose folded form is ASCII, or contains some."""
_FIRST_ROWS: Final = 50
_MOST_ROWS: Final = 400


def searched_parts(words: SearchWords) -> tuple[SearchedPart, ...]:
    """Return the parts that filter the rows of sessions for some words.

    The server folds ASCII alone, so the parts consist of ASCII and of letters without case, to
    which nothing else is folded. Rows with letters that Python folds to the ASCII of a part pass,
    too.
    """
    found: dict[str, SearchedPart] = {}
    for part in unchanging_parts(words):
        for run in _runs(part):
            folded = [one for one, into in FOLDED_TO_ASCII.items() if set(into) & set(run)]
            found[run] = SearchedPart(like_pattern(run), f"[{''.join(folded)}]" if folded else None)
    return tuple(found.values())


def _runs(part: str) -> list[str]:
    marked = "".join(one if _is_caseless(one) else " " for one in part)
    return re.findall(r"[^ ]+", marked)


def _is_caseless(letter: str) -> bool:
    return letter.isascii() or unicodedata.category(letter) == "Lo"


def read_candidates(
    database: Database, words: SearchWords, wanted: SessionFilter
) -> Iterator[SessionSummary | UnreadableSession]:
    """Yield the sessions that may contain some words; see `SessionRepository.candidates`.

    A session that is changed in between moves to the front and is missed there.
    """
    parts, limit = searched_parts(words), _FIRST_ROWS
    after: tuple[Any, str] | None = None
    seen: set[str] = set()
    while True:
        rows = read_rows(
            database, wanted, SessionOrder.LAST_CHANGED, limit=limit, after=after, parts=parts
        )
        new = [row for row in rows if row[0] not in seen]
        seen.update(row[0] for row in new)
        yield from read_summaries(new, database)
        if len(rows) < limit:
            return
        after, limit = (rows[-1][8], rows[-1][0]), min(2 * limit, _MOST_ROWS)
