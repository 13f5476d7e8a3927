"""Derives events from history entries: the same for every reader at every time; pure."""

# Annotations are evaluated here: as strings, each field's would be compiled at import.

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from ..domain.history_events import (
    BackAtCheckpoint,
    HistoryEvent,
    PhaseAdvanced,
    PhaseRetried,
    SessionForked,
)
from ..domain.session_entries import SessionHistory
from ..domain.session_observer import CheckpointReached, NoteRecorded, SessionEvent, occurrences

_DIGITS: Final = 24
_ID: Final = re.compile(r"evt_[0-9a-f]{24}")
SAID_BY_ENTRIES: Final = (HistoryEvent, NoteRecorded, CheckpointReached)
"""The events that are derived from the history; all others leave nothing in it."""


class EntryEvent(NamedTuple):
    """An event of an entry.

    Attributes:
        id: Unique, and the same on every read: receivers use it to recognize duplicates.
        number: The number of its entry in the session's history, from 1.
        is_last: Whether this is its entry's last event.
        event: What happened.
    """

    id: str
    number: int
    is_last: bool
    event: SessionEvent


def attempt_after(entry: SessionHistory) -> int | None:
    """Return the session's attempt after an entry; None if the entry does not change it."""
    kind = entry.event_type
    if kind is None or not issubclass(kind, PhaseAdvanced | PhaseRetried | BackAtCheckpoint):
        return None
    event = entry.event
    return 1 if isinstance(event, PhaseAdvanced) else getattr(event, "attempt", None)


def last_attempt(entries: Sequence[SessionHistory]) -> int:
    """Return the session's attempt after some entries, starting with its first one."""
    return next((one for one in map(attempt_after, reversed(entries)) if one is not None), 1)


def first_own(history: Sequence[SessionHistory]) -> int:
    """Return how many of a session's entries come from its parent; 0 unless it is a fork."""
    for number in range(len(history), 0, -1):
        if history[number - 1].event_type is SessionForked:
            return number - 1
    return 0


def events_after(
    session_id: str, history: Sequence[SessionHistory], after: int
) -> Iterator[EntryEvent]:
    """Yield the events of a history, after this many entries."""
    attempt = last_attempt(history[:after])
    yield from events_of(session_id, history[after:], after, attempt)


def events_of(
    session_id: str, entries: Iterable[SessionHistory], before: int, attempt: int
) -> Iterator[EntryEvent]:
    """Yield the events of consecutive entries.

    Args:
        session_id: The session.
        entries: The entries.
        before: The number of entries before them.
        attempt: The session's attempt before them.
    """
    for number, entry in enumerate(entries, before + 1):
        attempt = attempt_after(entry) or attempt
        said = occurrences(entry, number)
        for place, what in enumerate(said, 1):
            event = SessionEvent(
                session_id=session_id,
                at=entry.timestamp,
                phase=entry.phase,
                attempt=attempt,
                what=what,
            )
            yield EntryEvent(_id_of(event, number), number, place == len(said), event)


def is_event_id(value: object) -> bool:
    """Return whether a value can be an event's id, and so a header's value."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def _id_of(event: SessionEvent, number: int) -> str:
    import hashlib  # most processes don't need it

    named = f"{event.session_id} {number} {event.name} {event.at.isoformat()}"
    return f"evt_{hashlib.sha256(named.encode()).hexdigest()[:_DIGITS]}"
