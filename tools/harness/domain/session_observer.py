"""The port of those who observe sessions, and what they are given."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, Protocol, runtime_checkable

from .event_codec import logged
from .event_values import EventValue, Occurrence
from .history_events import CheckpointTaken, PhaseAdvanced, PhaseEnded
from .session_entries import SessionHistory
from .session_notices import CheckpointReached, NoteRecorded

EVENT_VERSION: Final = 1
"""The version of `SessionEvent.to_dict`: another one where a field goes or means something else."""


class SessionEvent(EventValue):
    """Something that happened, with when and where.

    Attributes:
        session_id: The session; None where it is of no one session.
        at: When, aware, in UTC.
        phase: The session's phase then, or None.
        attempt: Which attempt at it, from 1, or None.
        what: What happened: an event of `history_events` or a notice of `session_notices`, with
            its fields.
    """

    session_id: str | None
    at: datetime
    phase: str | None = None
    attempt: int | None = None
    what: Occurrence

    @property
    def name(self) -> str:
        """What happened, by its name in the log ("session.paused", "phase.failed", …)."""
        return self.what.log_name

    def to_dict(self) -> dict[str, Any]:
        """Return the event as JSON has it.

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
    """Return what an entry says happened, in order: one event or two.

    Args:
        entry: The entry.
        number: Which one of its history it is, from 1.
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
    """Observes sessions: what happens to them, once it is on disk."""

    def on_event(self, event: SessionEvent) -> None:
        """Take an event.

        It is called in the thread that leads the session, after the change is on disk and before
        the call that made it returns; the events of a session come in their order. So it had
        better be quick. What it raises is logged (`observer.failed`) and fails nothing, but for
        what ends a program, as `KeyboardInterrupt` does. One observer of several managers may be
        called by several threads at once.
        """
        ...


@runtime_checkable
class CatchesUp(Protocol):
    """An observer that can be told of what other processes saved, too."""

    def look(self) -> None:
        """Take note that sessions changed; what there is to tell is told in the background."""
        ...
