"""The life cycle of a session: its states, and what each allows and refuses; pure."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

from ..errors import HarnessError
from .history_events import (
    HistoryEvent,
    SessionAborted,
    SessionCompleted,
    SessionPaused,
    SessionResumed,
)


class SessionState(Enum):
    """The state of a session in its life cycle."""

    ACTIVE = "active"
    PAUSED = "paused"
    COMPLETED = "completed"
    ABORTED = "aborted"

    @property
    def is_terminal(self) -> bool:
        """Whether no further step is possible."""
        return self in _TERMINAL


_TERMINAL: Final = (SessionState.COMPLETED, SessionState.ABORTED)

TRANSITIONS: Final[Mapping[tuple[SessionState, str], SessionState]] = {
    (SessionState.ACTIVE, "pause"): SessionState.PAUSED,
    (SessionState.ACTIVE, "complete"): SessionState.COMPLETED,
    (SessionState.ACTIVE, "abort"): SessionState.ABORTED,
    (SessionState.PAUSED, "resume"): SessionState.ACTIVE,
    (SessionState.PAUSED, "abort"): SessionState.ABORTED,
}
"""The complete life cycle: allowed steps by state, with their targets; all others are refused."""

STEPS: Final[Mapping[str, type[HistoryEvent]]] = {
    "pause": SessionPaused,
    "resume": SessionResumed,
    "complete": SessionCompleted,
    "abort": SessionAborted,
}
"""The event of each life-cycle step."""
HISTORY_ACTIONS: Final[Mapping[str, str]] = {
    operation: kind.action for operation, kind in STEPS.items()
}
"""The history action of each step."""

_LEADS_TO: Final = {operation: target for (_, operation), target in TRANSITIONS.items()}
STATE_AFTER: Final[Mapping[str, SessionState]] = {
    HISTORY_ACTIONS[operation]: target for operation, target in _LEADS_TO.items()
}
"""The state after each life-cycle entry of the history."""

_REFUSED: Final[Mapping[str, str]] = {
    "advance_phase": "take session {} to another phase",
    "retry_phase": "begin another attempt in session {}",
    "run_phase": "run code in session {}",
    "checkpoint_session": "make a checkpoint of session {}",
    "record_tokens": "record tokens in session {}",
    "extend_budget": "extend the budget of session {}",
    "add_artifact": "record an artifact in session {}",
    "add_history": "add to the history of session {}",
    "set_workflow_state": "change the workflow state of session {}",
    "update_workflow_state": "change the workflow state of session {}",
    "record": "record work in session {}",
    "ask": "ask a person in session {}",
    "append_entries": "add entries to session {}",
    "save": "save session {} so",
}
"""Refused operations in words; life-cycle steps are their own words."""


class InvalidStateTransition(HarnessError, kw_only=True):
    """The session's state does not allow the requested operation."""

    message = "cannot {refused}: it is {current_state}; {hint}. Nothing was changed."
    brief = "Cannot transition from {current_state} to {target_state}."
    session_id: str
    current_state: SessionState
    """The session's state, which is unchanged."""
    operation: str
    """The requested operation ("pause", "record_tokens", …)."""
    target_state: SessionState = SessionState.ACTIVE
    """The requested state, or the state that the operation leads to or requires."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.target_state is SessionState.ACTIVE:
            self.target_state = _LEADS_TO.get(self.operation, SessionState.ACTIVE)

    @property
    def refused(self) -> str:
        """The requested operation, in words."""
        words = _REFUSED.get(self.operation, f"{self.operation.replace('_', ' ')} session {{}}")
        return words.format(self.session_id)

    @property
    def hint(self) -> str:
        """What is possible instead."""
        allowed = ", ".join(a for (s, a) in TRANSITIONS if s is self.current_state)
        if allowed:
            return f"from here it can only: {allowed}"
        forks = ", and a fork goes on from one of its checkpoints"
        return f"it has ended for good{forks if self.operation in {'rewind', 'retry'} else ''}"


class InvalidStateForPhaseAdvance(InvalidStateTransition):
    """`advance_phase()` on a session that is not active."""
