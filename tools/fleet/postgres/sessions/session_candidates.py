"""Sessions in PostgreSQL that may hold some words: sifted by the server, by all their rows.

A row has its entry as a session's file would say it. What is looked for in it are parts of words
that stand there as they are; the rows that have them all may still not have the words, so whether
a session does is found out from the session itself. An index of all that was ever said would have
to be changed with each save, so there is none: a search looks at each session that fits, the last
changed first, and stops when its reader has enough.
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
"""The letters that are no ASCII, and that are ASCII, or have some in them, once they are folded."""
_FIRST_ROWS: Final = 50
_MOST_ROWS: Final = 400


def searched_parts(words: SearchWords) -> tuple[SearchedPart, ...]:
    """Return by what the rows of sessions are sifted that hold some words.

    The server folds ASCII alone, so the parts are of ASCII and of letters without case, to which
    nothing else is folded. Rows with what Python folds to the ASCII of a part are let through.
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
    """Go through what may hold some words; see `SessionRepository.candidates`.

    One that is changed meanwhile moves to the front, where this has been already.
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
        yield from read_summaries(new, database.name)
        if len(rows) < limit:
            return
        after, limit = (rows[-1][8], rows[-1][0]), min(2 * limit, _MOST_ROWS)
