"""The searched texts of a session, and the matches in them; pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from attrs import frozen

from ...base.search_words import Passage, SearchedText, SearchWords, TextSource, find_passages
from ..domain.session_entries import SessionHistory
from ..errors import SessionCorrupted
from ..session_domain import SessionContext
from .session_head import SessionSummary, UnreadableSession
from .session_page import require_limit


@frozen(kw_only=True)
class SessionMatch:
    """A session that contains all words of a search.

    Attributes:
        summary: The session, as in a listing.
        goal: Its goal, or None; its title is in the summary's head.
        passages: Lines that together contain all the words.
    """

    summary: SessionSummary
    goal: str | None
    passages: tuple[Passage, ...]

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self.summary.session_id

    @property
    def changed_at(self) -> datetime:
        """The time of the last change, aware."""
        return self.summary.head.updated_at


@frozen(kw_only=True)
class SessionMatches:
    """The result of a search.

    Attributes:
        found: The sessions that contain all words, the last changed first.
        more: Whether there are others beyond the limit.
        unreadable: Sessions that could not be searched because they can't be read.
    """

    found: tuple[SessionMatch, ...]
    more: bool = False
    unreadable: tuple[UnreadableSession, ...] = ()


def searched_texts(session: SessionContext) -> Iterator[SearchedText]:
    """Yield the searched texts of a session, the most significant first."""
    if session.title is not None:
        yield SearchedText(TextSource.TITLE, session.title)
    if session.goal is not None:
        yield SearchedText(TextSource.GOAL, session.goal)
    for number in range(len(session.history) - 1, -1, -1):
        entry = session.history[number]
        for text in _texts_of(entry):
            yield SearchedText(TextSource.HISTORY, text, number, entry.timestamp)
    for number in range(len(session.artifacts) - 1, -1, -1):
        one = session.artifacts[number]
        yield SearchedText(TextSource.ARTIFACT, one.path, number, one.timestamp)


def _texts_of(entry: SessionHistory) -> Iterator[str]:
    """Yield the texts of an entry: its details, a note's own name, its data."""
    if entry.details is not None:
        yield entry.details
    if entry.event_type is None:
        yield entry.action
    yield from _texts_in(entry.data)


def _texts_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from _texts_in(one)
    elif isinstance(value, tuple):
        for one in value:
            yield from _texts_in(one)


def match_sessions(
    candidates: Iterable[SessionSummary | UnreadableSession],
    load: Callable[[str], SessionContext | None],
    words: SearchWords,
    *,
    limit: int,
) -> SessionMatches:
    """Return the sessions that contain all words; no more are loaded than needed.

    Args:
        candidates: Sessions that may contain them, in order.
        load: Reads one; None if it no longer exists.
        words: The words.
        limit: The most sessions to return.

    Raises:
        InvalidSession: `limit` is out of range.
    """
    require_limit(limit)
    found: list[SessionMatch] = []
    unreadable: list[UnreadableSession] = []
    for one in candidates:
        if isinstance(one, UnreadableSession):
            unreadable.append(one)
            continue
        try:
            session = load(one.session_id)
        except SessionCorrupted as error:
            unreadable.append(UnreadableSession(one.session_id, one.path, error))
            continue
        passages = () if session is None else find_passages(searched_texts(session), words)
        if session is not None and passages:
            if len(found) == limit:
                return SessionMatches(found=tuple(found), more=True, unreadable=tuple(unreadable))
            found.append(SessionMatch(summary=one, goal=session.goal, passages=passages))
    return SessionMatches(found=tuple(found), unreadable=tuple(unreadable))
