"""The port of session observers, and the events that they receive."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, Protocol, runtime_checkable

from .event_codec import logged
from .event_values import EventValue, Occurrence
from .history_events import CheckpointTaken, PhaseAdvanced, PhaseEnded
from .session_entries import SessionHistory
from .session_notices import CheckpointReached, NoteRecorded

EVENT_VERSION: Final = 1
"""Version of `SessionEvent.to_dict`; it changes when a field is removed or changes its meaning."""


class SessionEvent(EventValue):
    """Something that happened, with its time and place.

    Attributes:
        session_id: The session; None if it concerns no single session.
        at: The time, aware, in UTC.
        phase: The session's phase then, or None.
        attempt: The attempt at that phase, from 1, or None.
        what: An event of `history_events` or a notice of `session_notices`, with its fields.
    """

    session_id: str | None
    at: datetime
    phase: str | None = None
    attempt: int | None = None
    what: Occurrence

    @property
    def name(self) -> str:
        """The log name of what happened ("session.paused", "phase.failed", …)."""
        return self.what.log_name

    def to_dict(self) -> dict[str, Any]:
        """Return the event as a dict of JSON values.

        Fields that are too long or too private for a log are left out: prompts, answers, evidence.
        """
        return {
            "version": EVENT_VERSION,
            "type": self.name,
            "timestamp": self.at.isoformat(timespec="microseconds").replace("+00:00", "Z"),
            "session_id": self.session_id,
            "phase": self.phase,
            "attempt": self.attempt,
            "data": _as_json(logged(self.what)),
        }


def _as_json(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _as_json(one) for name, one in value.items()}
    return [_as_json(one) for one in value] if isinstance(value, tuple) else value


def occurrences(entry: SessionHistory, number: int) -> tuple[Occurrence, ...]:
    """Return the events that an entry stands for, in order: one or two.

    Args:
        entry: The entry.
        number: Its number in the history, from 1.
    """
    event = entry.event
    if event is None:
        return (NoteRecorded(action=entry.action, tokens=entry.data.get("tokens", 0)),)
    if isinstance(event, CheckpointTaken):
        return (CheckpointReached(entry=number),)
    if isinstance(event, PhaseEnded | PhaseAdvanced):
        return (event, CheckpointReached(entry=number))
    return (event,)


class SessionObserver(Protocol):
    """Receives what happens to sessions, once it is on disk."""

    def on_event(self, event: SessionEvent) -> None:
        """Handle an event.

        Called in the thread that leads the session, after the change is on disk and before the call
        that made it returns, so it should be quick. A session's events come in order. An exception
        is logged (`observer.failed`) and fails nothing, except those that end a program, such as
        `KeyboardInterrupt`. An observer shared by several managers may be called by several threads
        at once.
        """
        ...


@runtime_checkable
class CatchesUp(Protocol):
    """An observer that can also report what other processes saved."""

    def look(self) -> None:
        """Note that sessions changed; what is due is reported in the background."""
        ...
