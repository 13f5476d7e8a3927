"""The entries of a session's history that runs of every kind write and read; pure."""

from __future__ import annotations

from typing import Final

from ..harness import SessionContext

INPUTS_PLACED: Final = "inputs_placed"
"""The history's entry that the inputs are in the workspace, for good."""

BEGINNINGS: Final = frozenset({"session_created", "phase_advanced", "phase_retried"})
"""The history's entries that begin an attempt."""


def attempt_label(round_number: int, attempt: int) -> str:
    """Name an attempt at a phase: `attempt 2`, or where the phase was come back to, its round too.

    Args:
        round_number: How often the phase was entered, from 1.
        attempt: Which attempt it is since then, from 1.
    """
    if round_number == 1:
        return f"attempt {attempt}"
    return f"round {round_number}" + (f", attempt {attempt}" if attempt > 1 else "")


def has_inputs(session: SessionContext) -> bool:
    """Tell whether the inputs are in the workspace."""
    return any(entry.action == INPUTS_PLACED for entry in session.history)


def why_stopped(session: SessionContext) -> str | None:
    """Return why a session was paused or aborted, or None where it was not, or nobody said."""
    action = f"session_{session.state.value}"
    return next((one.details for one in reversed(session.history) if one.action == action), None)


def told_pause(session: SessionContext) -> str:
    """Tell that somebody paused a session while a phase of it ran, and why."""
    reason = why_stopped(session)
    return f"paused while it ran: {reason}" if reason else "paused while it ran"
