"""Who is told what happens while an agent works."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ..harness import TokenBudget
from .agent_workflow import AgentPhase
from .agents.port import AgentQuestion, TokenUsage
from .gates import Verdict
from .job import AgentWork


class AgentObserver(Protocol):
    """Is told what happens during a run.

    What it raises ends the run where it is; the session can be resumed.
    """

    def run_started(self, session_id: str, work: AgentWork, *, resumed: bool) -> None:
        """A run begins; one that is refused never does."""
        ...

    def phase_started(
        self, phase: AgentPhase, *, attempt: int, round_number: int, position: int, total: int
    ) -> None:
        """An attempt at a phase begins, or is gone on with.

        Args:
            phase: The phase.
            attempt: Which attempt in this round, from 1.
            round_number: How often the phase was entered, from 1.
            position: Where it stands in the workflow, from 1.
            total: How many phases the workflow has.
        """
        ...

    def agent_called(self, phase: AgentPhase, *, call: int, prompt_tokens: int) -> None:
        """The agent is about to be asked."""
        ...

    def agent_answered(
        self, phase: AgentPhase, *, usage: TokenUsage, duration_s: float, failure: str | None
    ) -> None:
        """The agent's answer, or its failure, is stored."""
        ...

    def gate_started(self, phase: AgentPhase) -> None:
        """The phase's gate is about to judge."""
        ...

    def phase_finished(self, phase: AgentPhase, verdict: Verdict) -> None:
        """The verdict is recorded."""
        ...

    def questions_asked(self, asked: str, questions: Sequence[AgentQuestion]) -> None:
        """A person was asked, and the run waits."""
        ...

    def budget(self, budget: TokenBudget) -> None:
        """The budget was charged, or is looked at for the first time in this run."""
        ...

    def paused(self, reason: str) -> None:
        """The session is paused; the run ends."""
        ...

    def completed(self) -> None:
        """The session is complete; the run ends."""
        ...


class SilentAgentObserver:
    """Does nothing; a base for observers that want to know some things only."""

    def run_started(self, session_id: str, work: AgentWork, *, resumed: bool) -> None:
        """See `AgentObserver`."""

    def phase_started(
        self, phase: AgentPhase, *, attempt: int, round_number: int, position: int, total: int
    ) -> None:
        """See `AgentObserver`."""

    def agent_called(self, phase: AgentPhase, *, call: int, prompt_tokens: int) -> None:
        """See `AgentObserver`."""

    def agent_answered(
        self, phase: AgentPhase, *, usage: TokenUsage, duration_s: float, failure: str | None
    ) -> None:
        """See `AgentObserver`."""

    def gate_started(self, phase: AgentPhase) -> None:
        """See `AgentObserver`."""

    def phase_finished(self, phase: AgentPhase, verdict: Verdict) -> None:
        """See `AgentObserver`."""

    def questions_asked(self, asked: str, questions: Sequence[AgentQuestion]) -> None:
        """See `AgentObserver`."""

    def budget(self, budget: TokenBudget) -> None:
        """See `AgentObserver`."""

    def paused(self, reason: str) -> None:
        """See `AgentObserver`."""

    def completed(self) -> None:
        """See `AgentObserver`."""
