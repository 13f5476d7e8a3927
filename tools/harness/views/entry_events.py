"""What the entries of a history say as events: the same whenever it is read, and by whom; pure."""

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
from ..domain.session_notices import CheckpointReached, NoteRecorded
from ..domain.session_observer import SessionEvent, occurrences

_DIGITS: Final = 24
_ID: Final = re.compile(r"evt_[0-9a-f]{24}")
SAID_BY_ENTRIES: Final = (HistoryEvent, NoteRecorded, CheckpointReached)
"""The events that are read off the history; every other one leaves nothing in it."""


class EntryEvent(NamedTuple):
    """An event of an entry.

    Attributes:
        id: The same each time that it is read, and no other event's: a receiver knows by it what
            it has had.
        number: Which entry of its session's history it is of, from 1.
        is_last: Whether its entry says nothing after it.
        event: What happened.
    """

    id: str
    number: int
    is_last: bool
    event: SessionEvent


def attempt_after(entry: SessionHistory) -> int | None:
    """Return which attempt a session is at after an entry; None where that changes nothing."""
    kind = entry.event_type
    if kind is None or not issubclass(kind, PhaseAdvanced | PhaseRetried | BackAtCheckpoint):
        return None
    event = entry.event
    return 1 if isinstance(event, PhaseAdvanced) else getattr(event, "attempt", None)


def last_attempt(entries: Sequence[SessionHistory]) -> int:
    """Return which attempt a session is at after some entries, from its first one on."""
    return next((one for one in map(attempt_after, reversed(entries)) if one is not None), 1)


def first_own(history: Sequence[SessionHistory]) -> int:
    """Return how many entries a session has of the one that it is a fork of; 0 if of none."""
    for number in range(len(history), 0, -1):
        if history[number - 1].event_type is SessionForked:
            return number - 1
    return 0


def events_after(
    session_id: str, history: Sequence[SessionHistory], after: int
) -> Iterator[EntryEvent]:
    """Go through the events of a whole history, from behind so many entries on."""
    attempt = last_attempt(history[:after])
    yield from events_of(session_id, history[after:], after, attempt)


def events_of(
    session_id: str, entries: Iterable[SessionHistory], before: int, attempt: int
) -> Iterator[EntryEvent]:
    """Go through the events of consecutive entries.

    Args:
        session_id: The session.
        entries: The entries.
        before: How many stand before them.
        attempt: Which attempt the session was at before them.
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
    """Return whether a value can be the id of an event, and so a value of a header."""
    return isinstance(value, str) and _ID.fullmatch(value) is not None


def _id_of(event: SessionEvent, number: int) -> str:
    import hashlib  # which most processes need not load

    named = f"{event.session_id} {number} {event.name} {event.at.isoformat()}"
    return f"evt_{hashlib.sha256(named.encode()).hexdigest()[:_DIGITS]}"
