"""Who observes a run, and how it ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import Any

from attrs import field, frozen

from ..harness import PhaseResult, SessionState, TokenBudget
from .agents.port import AgentQuestion, TokenUsage
from .converters import as_tuple
from .gates.verdict import Verdict
from .job import Job
from .workflow import Phase


class RunObserver:
    """Observes a run: each event once it is on disk; a subclass has methods for those it needs.

    What it raises ends the run where it is; the session can be resumed. For what must never do
    that, a `SessionObserver` of the manager observes the same, as events.
    """

    def run_started(self, session_id: str, job: Job, *, resumed: bool) -> None:
        """A run begins; one that is refused never does.

        Args:
            session_id: The session; with it the run can be resumed, whatever happens next.
            job: What is run, with its workflow.
            resumed: False if the session was created for this run.
        """

    def phase_started(
        self, phase: Phase, *, attempt: int, round_number: int, position: int, total: int
    ) -> None:
        """An attempt at a phase begins, or is continued.

        Args:
            phase: The phase.
            attempt: Which attempt in this round, from 1.
            round_number: How often the phase was entered, from 1.
            position: Where it stands in the workflow, from 1.
            total: How many phases the workflow has.
        """

    def agent_called(self, phase: Phase, *, call: int, prompt_tokens: int) -> None:
        """The agent is about to be asked."""

    def agent_answered(
        self, phase: Phase, *, usage: TokenUsage, duration_s: float, failure: str | None
    ) -> None:
        """The agent's answer, or its failure, is stored."""

    def gate_started(self, phase: Phase) -> None:
        """The gate of an agent's phase is about to judge."""

    def phase_finished(self, phase: Phase, verdict: Verdict, result: PhaseResult | None) -> None:
        """The verdict is recorded.

        Args:
            phase: The phase.
            verdict: What its gate decided.
            result: What became of a script, with `success` as it was judged; None for an agent.
        """

    def questions_asked(self, asked: str, questions: Sequence[AgentQuestion]) -> None:
        """Questions wait for the person's answers under this id."""

    def budget(self, budget: TokenBudget) -> None:
        """The budget was charged, or is looked at for the first time in this run."""

    def paused(self, reason: str) -> None:
        """The session is paused; the run ends."""

    def completed(self) -> None:
        """The session is complete; the run ends."""


class StopCause(Enum):
    """Why a run ended before its session was complete."""

    FAILED = "failed"
    """A phase failed, and nothing begins its next attempt within the run."""
    PERSON = "person"
    """A person has to answer or decide."""
    BUDGET = "budget"
    """What is left of the budget does not cover the next step."""
    AGENT = "agent"
    """The agent can't be asked."""
    PAUSED = "paused"
    """Somebody paused the session while it ran, or the run reached a limit of its own."""


@frozen(kw_only=True)
class Stop:
    """Why a run stops before its session is complete; nothing is lost, and it can be resumed.

    Attributes:
        reason: What it waits for and what to do, for people.
        cause: What kind of thing that is.
        question_id: The question whose answer it waits for, or None.
        missing_tokens: By how much the budget has to be extended first, in tokens; 0: not at all.
        back_to: The phase that a person may decide to go back to, or None.
        needs_retry: Whether only `retry` begins another attempt; `resume` would be refused.
    """

    reason: str
    cause: StopCause
    question_id: str | None = None
    missing_tokens: int = 0
    back_to: str | None = None
    needs_retry: bool = False


def _frozen_mapping(value: Mapping[str, int]) -> Mapping[str, int]:
    return MappingProxyType(dict(value))


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
        stop: Why the run ended before the session was complete; None where it did not, or where
            a session is only looked at.
    """

    session_id: str
    state: SessionState
    phases_done: tuple[str, ...] = field(converter=as_tuple)
    reason: str | None = None
    attempts: Mapping[str, int] = field(factory=dict, converter=_frozen_mapping, hash=False)
    waiting_for: str | None = None
    stop: Stop | None = field(default=None, eq=False)

    @property
    def cause(self) -> StopCause | None:
        """What kind of thing stopped the run, or None."""
        return None if self.stop is None else self.stop.cause

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
