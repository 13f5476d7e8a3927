"""What runs of every kind ask a session's history; pure."""

from __future__ import annotations

from typing import Final

from ..harness import SessionContext, SessionState
from ..harness.history_events import (
    HistoryEvent,
    InputsPlaced,
    PhaseAdvanced,
    PhaseRetried,
    PhaseSucceeded,
    SessionAborted,
    SessionCreated,
    SessionPaused,
)

BEGINNINGS: Final = (SessionCreated, PhaseAdvanced, PhaseRetried)
"""The events that begin an attempt."""
_STOPS: Final[dict[SessionState, type[HistoryEvent]]] = {
    SessionState.PAUSED: SessionPaused,
    SessionState.ABORTED: SessionAborted,
}
_MOST_PATHS: Final = 1000


def attempt_label(round_number: int, attempt: int) -> str:
    """Name an attempt at a phase: `attempt 2`, or where the phase was come back to, its round too.

    Args:
        round_number: How often the phase was entered, from 1.
        attempt: Which attempt it is since then, from 1.
    """
    if round_number == 1:
        return f"attempt {attempt}"
    return f"round {round_number}" + (f", attempt {attempt}" if attempt > 1 else "")


def inputs_placed(targets: list[str]) -> InputsPlaced:
    """Return the event that the inputs are in the workspace, for good."""
    return InputsPlaced(paths=tuple(targets[:_MOST_PATHS]))


def has_inputs(session: SessionContext) -> bool:
    """Return whether the inputs are in the workspace."""
    return any(entry.event_type is InputsPlaced for entry in session.history)


def phases_passed(session: SessionContext) -> set[str | None]:
    """Return the phases that succeeded at least once."""
    return {entry.phase for entry in session.history if entry.event_type is PhaseSucceeded}


def why_stopped(session: SessionContext) -> str | None:
    """Return why a session was paused or aborted, or None where it was not, or nobody said."""
    kind = _STOPS.get(session.state)
    for entry in reversed(session.history):
        if entry.event_type is kind and isinstance(
            event := entry.event, SessionPaused | SessionAborted
        ):
            return event.reason
    return None


def told_pause(session: SessionContext) -> str:
    """Tell that somebody paused a session while a phase of it ran, and why."""
    reason = why_stopped(session)
    return f"paused while it ran: {reason}" if reason else "paused while it ran"
