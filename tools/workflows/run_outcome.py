"""How a run ended, of a workflow or of an agent's work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Any

from attrs import field, frozen

from ..harness import SessionState


def _names(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(values)


def _frozen_mapping(value: Mapping[str, int]) -> Mapping[str, int]:
    return MappingProxyType(dict(value))


class StopCause(Enum):
    """Why a run ended before its session was complete."""

    FAILED = "failed"
    """A phase failed as often as its workflow allows."""
    PERSON = "person"
    """A person has to answer or decide."""
    BUDGET = "budget"
    """What is left of the budget does not cover the next step."""
    AGENT = "agent"
    """The agent can't be asked."""
    PAUSED = "paused"
    """Somebody paused the session while it ran, or the run reached a limit of its own."""


@frozen(kw_only=True)
class RunOutcome:
    """How a run ended.

    Attributes:
        session_id: The session.
        state: COMPLETED or PAUSED; any state where a session is only looked at.
        phases_done: The phases that succeeded, in this run and before it, in order.
        reason: Why it is paused (or was aborted), or None.
        attempts: How many attempts each phase has had that was begun, by its name.
        waiting_for: The id of the questions that a person was asked and whose answers the session
            has not taken yet, or None.
        cause: Why the run ended before the session was complete; None where it did not, or where
            a session is only looked at.
    """

    session_id: str
    state: SessionState
    phases_done: tuple[str, ...] = field(converter=_names)
    reason: str | None = None
    attempts: Mapping[str, int] = field(factory=dict, converter=_frozen_mapping, hash=False)
    waiting_for: str | None = None
    cause: StopCause | None = field(default=None, eq=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the same as plain values, for JSON and for the state of other frameworks."""
        return {
            "session_id": self.session_id,
            "state": self.state.value,
            "phases_done": list(self.phases_done),
            "reason": self.reason,
            "attempts": dict(self.attempts),
            "waiting_for": self.waiting_for,
            "cause": None if self.cause is None else self.cause.value,
        }
