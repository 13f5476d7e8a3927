"""Search's part of the composition root: sessions and questions together.

Neither package imports the other. Their matches are merged here, the last changed first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from ..base.clock import Clock, utc_now
from ..base.search_words import SearchWords

if TYPE_CHECKING:
    from ..harness import SessionManager, UnreadableSession
    from ..harness.views.session_search import SessionMatch
    from ..questions import QuestionSessions, UnreadableQuestion
    from ..questions.listing import QuestionMatch

_AGES: Final = frozenset({"older_than", "younger_than"})


@frozen(kw_only=True)
class SearchResult:
    """The result of a search.

    Attributes:
        matches: Sessions and question sessions that hold all words, the last changed first.
        more: Whether there are more matches than the limit.
        unreadable: Sessions that were not searched because they can't be read.
        unreadable_questions: The same for question sessions.
    """

    matches: tuple[SessionMatch | QuestionMatch, ...]
    more: bool
    unreadable: tuple[UnreadableSession, ...] = ()
    unreadable_questions: tuple[UnreadableQuestion, ...] = ()


def search(
    manager: SessionManager,
    questions: QuestionSessions,
    words: SearchWords | str | Iterable[str],
    *,
    limit: int = 20,
    clock: Clock = utc_now,
    **filters: Any,
) -> SearchResult:
    """Search sessions and question sessions for words; nothing is changed.

    With filters, only question sessions of matching sessions are found; age filters such as
    `older_than` apply to the question sessions themselves.

    Args:
        manager: Provides the sessions.
        questions: Provides the question sessions.
        words: As in `SessionManager.search`.
        limit: The most matches of both together, 1 to 10,000.
        clock: The time.
        **filters: Those of `SessionManager.find`.

    Raises:
        InvalidSearch: There are no words, or too many.
        InvalidSession: The limit is out of range, or a filter is not valid.
        ReadError: The sessions' store can't be read.
        QuestionError: The question sessions' store can't be read.
    """
    from ..questions.listing import search_questions

    asked = SearchWords.of(words)
    sessions = manager.search(asked, limit=limit, **filters)
    held, unreadable = search_questions(questions.store, asked)
    fitting = _fitting(held, manager, clock(), filters)
    every: list[SessionMatch | QuestionMatch] = [*sessions.found, *fitting]
    every.sort(key=lambda one: (one.changed_at, one.session_id), reverse=True)
    return SearchResult(
        matches=tuple(every[:limit]),
        more=sessions.more or len(every) > limit,
        unreadable=sessions.unreadable,
        unreadable_questions=tuple(unreadable),
    )


def _fitting(
    found: list[QuestionMatch], manager: SessionManager, now: datetime, filters: Mapping[str, Any]
) -> list[QuestionMatch]:
    given = {name: value for name, value in filters.items() if value not in (None, [], ())}
    older, younger = given.get("older_than"), given.get("younger_than")
    fitting = [
        one
        for one in found
        if (older is None or now - one.changed_at >= older)
        and (younger is None or now - one.changed_at <= younger)
    ]
    of_sessions = {name: value for name, value in given.items() if name not in _AGES}
    if not of_sessions or not fitting:
        return fitting
    askers = {one.session_id for one in manager.find(**of_sessions)}
    return [one for one in fitting if _asker_of(one) in askers]


def _asker_of(match: QuestionMatch) -> str | None:
    asker = match.session.asker
    return None if asker is None else asker.session_name
