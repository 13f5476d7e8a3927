"""The steps of a run as session events: what has no entry in the history, told to all observers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..harness import PhaseResult, SessionManager, TokenBudget
from ..harness.domain.session_notices import (
    AgentCalled,
    AttemptStarted,
    GateStarted,
    QuestionWaiting,
    RunStarted,
)
from .agents.port import AgentQuestion, TokenUsage
from .gates.verdict import Verdict
from .job import Job
from .ports import RunObserver
from .workflow import Gate, Phase


class AnnouncedRun:
    """Announces each step through the manager, then has it observed by the run's own observer.

    What has an entry in the history (an answer, a verdict, a pause, the end) is announced with it
    already, and only passed on here. A `RunObserver`.

    Args:
        manager: Leads the session; its observers are told.
        observer: Observes the run itself; what it raises ends the run.
    """

    def __init__(self, manager: SessionManager, observer: RunObserver) -> None:
        self._manager: Final = manager
        self._observer: Final = observer

    def run_started(self, session_id: str, job: Job, *, resumed: bool) -> None:
        """See `RunObserver`."""
        self._manager.announce(RunStarted(workflow=job.workflow.name, resumed=resumed))
        self._observer.run_started(session_id, job, resumed=resumed)

    def phase_started(
        self, phase: Phase, *, attempt: int, round_number: int, position: int, total: int
    ) -> None:
        """See `RunObserver`."""
        self._manager.announce(
            AttemptStarted(round_number=round_number, position=position, total=total)
        )
        self._observer.phase_started(
            phase, attempt=attempt, round_number=round_number, position=position, total=total
        )

    def agent_called(self, phase: Phase, *, call: int, prompt_tokens: int) -> None:
        """See `RunObserver`."""
        self._manager.announce(AgentCalled(call=call, prompt_tokens=prompt_tokens))
        self._observer.agent_called(phase, call=call, prompt_tokens=prompt_tokens)

    def agent_answered(
        self, phase: Phase, *, usage: TokenUsage, duration_s: float, failure: str | None
    ) -> None:
        """See `RunObserver`."""
        self._observer.agent_answered(phase, usage=usage, duration_s=duration_s, failure=failure)

    def gate_started(self, phase: Phase) -> None:
        """See `RunObserver`."""
        gate = phase.gate
        self._manager.announce(GateStarted(gate=gate.kind if isinstance(gate, Gate) else "script"))
        self._observer.gate_started(phase)

    def phase_finished(self, phase: Phase, verdict: Verdict, result: PhaseResult | None) -> None:
        """See `RunObserver`."""
        self._observer.phase_finished(phase, verdict, result)

    def questions_asked(self, asked: str, questions: Sequence[AgentQuestion]) -> None:
        """See `RunObserver`."""
        self._manager.announce(QuestionWaiting(question_id=asked, count=len(questions)))
        self._observer.questions_asked(asked, questions)

    def budget(self, budget: TokenBudget) -> None:
        """See `RunObserver`."""
        self._observer.budget(budget)

    def paused(self, reason: str) -> None:
        """See `RunObserver`."""
        self._observer.paused(reason)

    def completed(self) -> None:
        """See `RunObserver`."""
        self._observer.completed()
