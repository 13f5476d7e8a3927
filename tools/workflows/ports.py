"""The observer of a run, and the run's outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import Enum
from types import MappingProxyType
from typing import Any, Protocol

from attrs import field, frozen

from ..harness import PhaseResult, SessionState, TokenBudget
from .agents.port import AgentQuestion, PhaseAgent, TokenUsage
from .converters import as_tuple
from .gates.verdict import Verdict
from .job import Job
from .workflow import Phase


class RunObserver:
    """Observes a run: each event after it is on disk; subclasses override the methods they need.

    An exception from an observer ends the run; the session can be resumed. To observe without
    that effect, use a `SessionObserver` of the manager, which gets the same as events.
    """

    def run_started(self, session_id: str, job: Job, *, resumed: bool) -> None:
        """Observe the start of a run; not called for a run that is refused.

        Args:
            session_id: The session; with it the run can be resumed, whatever happens next.
            job: The job, with its workflow.
            resumed: False if the session was created for this run.
        """

    def phase_started(
        self, phase: Phase, *, attempt: int, round_number: int, position: int, total: int
    ) -> None:
        """Observe the start of an attempt at a phase, or its continuation.

        Args:
            phase: The phase.
            attempt: The number of the attempt in this round, from 1.
            round_number: How often the phase was entered, from 1.
            position: The phase's position in the workflow, from 1.
            total: The number of phases in the workflow.
        """

    def agent_called(self, phase: Phase, *, call: int, prompt_tokens: int) -> None:
        """Observe that the agent is about to be called."""

    def agent_said(self, phase: Phase, text: str) -> None:
        """Observe what the agent is at while it works, if it says so."""

    def agent_answered(
        self, phase: Phase, *, usage: TokenUsage, duration_s: float, failure: str | None
    ) -> None:
        """Observe that the agent's answer, or its failure, is stored."""

    def gate_started(self, phase: Phase) -> None:
        """Observe that the gate of an agent's phase is about to judge."""

    def base_judged(self, phase: Phase, *, said: str, failed: bool) -> None:
        """Observe what the gates' commands reported before anything was written.

        Args:
            phase: The first phase.
            said: The report in words.
            failed: Whether a command failed, though not for want of tests.
        """

    def phase_finished(self, phase: Phase, verdict: Verdict, result: PhaseResult | None) -> None:
        """Observe that a verdict is recorded.

        Args:
            phase: The phase.
            verdict: The gate's verdict.
            result: A script's result, with `success` as it was judged; None for an agent.
        """

    def questions_asked(self, asked: str, questions: Sequence[AgentQuestion]) -> None:
        """Observe that questions under this id wait for the person's answers."""

    def budget(self, budget: TokenBudget) -> None:
        """Observe the budget after a charge, and once at the start of the run."""

    def paused(self, reason: str) -> None:
        """Observe that the session is paused; the run ends."""

    def completed(self) -> None:
        """Observe that the session is complete; the run ends."""


class CallLimits(Protocol):
    """Limits of what the calls of agents may cost a person, beside each session's own budget."""

    def refusal(self, session_id: str, agent: PhaseAgent) -> str | None:
        """Return which limit is spent and what to do; None if the agent may be called."""
        ...

    def charge(self, session_id: str, agent: PhaseAgent, usage: TokenUsage) -> None:
        """Record what a call cost."""
        ...


class StopCause(Enum):
    """Why a run ended before its session was complete."""

    FAILED = "failed"
    """A phase failed, and the run does not start its next attempt."""
    PERSON = "person"
    """A person has to answer or decide."""
    BUDGET = "budget"
    """The remaining budget does not cover the next step."""
    AGENT = "agent"
    """The agent is not available."""
    TIME = "time"
    """The code of a phase sleeps."""
    PAUSED = "paused"
    """The session was paused while it ran, or the run reached its own limit."""


@frozen(kw_only=True)
class Stop:
    """Why a run stopped before its session was complete; nothing is lost, and it can be resumed.

    Attributes:
        reason: What it waits for and what to do, for people.
        cause: The kind of reason.
        question_id: The question whose answer it waits for, or None.
        missing_tokens: By how much to extend the budget first, in tokens; 0: not at all.
        back_to: The phase that a person may decide to go back to, or None.
        needs_retry: Whether only `retry` starts another attempt; `resume` would be refused.
        wake_at: When `resume` goes on even without what it waits for, or None.
    """

    reason: str
    cause: StopCause
    question_id: str | None = None
    missing_tokens: int = 0
    back_to: str | None = None
    needs_retry: bool = False
    wake_at: datetime | None = None


def _frozen_mapping(value: Mapping[str, int]) -> Mapping[str, int]:
    return MappingProxyType(dict(value))


@frozen(kw_only=True)
class RunOutcome:
    """The outcome of a run.

    Attributes:
        session_id: The session.
        state: COMPLETED or PAUSED; from `outcome`, any state.
        phases_done: The phases that succeeded, in this run and before it, in order.
        reason: Why it is paused (or was aborted), or None.
        attempts: The number of attempts of each phase that was started, by its name.
        waiting_for: The id of questions that a person was asked and whose answers the session has
            not read yet, or None.
        stop: Why the run ended before the session was complete; None if it did not, or if nothing
            was run.
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
        """The kind of reason that stopped the run, or None."""
        return None if self.stop is None else self.stop.cause

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as plain values, for JSON and for the state of other frameworks."""
        return {
            "session_id": self.session_id,
            "state": self.state.value,
            "phases_done": list(self.phases_done),
            "reason": self.reason,
            "attempts": dict(self.attempts),
            "waiting_for": self.waiting_for,
            "cause": None if self.cause is None else self.cause.value,
        }
