"""One attempt at a program's phase: the code runs, waits, and goes on with what it called."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from attrs import frozen

from ...harness import PhaseResult, PhaseWaits
from ...harness.domain.history_events import PhaseRequest
from ...harness.services.suspended_phases import question_of
from ..agents.port import AgentAnswer, AgentRequest, AgentUnavailable
from ..gates.verdict import Verdict, failed, output_of, passed
from ..ports import Stop
from ..run.phase_attempt import AgentAttempts
from ..run.progress import Progress
from ..run.script_attempt import stop_until
from ..workflow import PROGRAM, Gate, Phase
from .program_calls import CallsStopped, ProgramCalls


@frozen
class NoAgentNamed:
    """The agent of a program's session that names none; a program may do without."""

    description: ClassVar[str] = "no agent"

    def answer(self, request: AgentRequest) -> AgentAnswer:
        """Refuse.

        Raises:
            AgentUnavailable: Always.
        """
        del request
        problem = "the program calls one, and its session names none; name one with --agent"
        raise AgentUnavailable(agent=self.description, problem=problem)


@frozen(kw_only=True, eq=False)
class ProgramAttempts(AgentAttempts):
    """Runs attempts at the phases of a session with a program, under its lock.

    The program is suspended wherever it waits, and stored; the next worker goes on at that line.

    Args:
        timeout_s: How long to wait for a person, or for the moment a program sleeps until, before
            the session pauses, in seconds.
    """

    timeout_s: float

    def _run(self, phase: Phase, progress: Progress) -> Verdict | Stop:
        gate = phase.agents_gate
        verdict = self.led.steps.verdict(progress.key)
        if gate.kind != PROGRAM or verdict is not None:
            return super()._run(phase, progress)
        stop = self.gates.ready_base(phase, progress)
        if stop is not None:
            return stop
        calls = ProgramCalls(
            led=self.led,
            phase=phase,
            progress=progress,
            gates=self.gates,
            conversation=self.conversation,
        )
        judged: list[Verdict] = []

        def judge(result: PhaseResult) -> str | None:
            verdict = _judged(gate, result)
            self.led.steps.keep_verdict(progress.key, verdict)
            judged.append(verdict)
            return None if verdict.passed else verdict.summary

        try:
            self.led.manager.run_phase(
                gate.code or "", judge=judge, calls=calls.answers, patience=self._patience
            )
        except CallsStopped as stopped:
            return stopped.stop
        except PhaseWaits as waits:
            return stop_until(phase, waits)
        self.led.observer.phase_finished(phase, judged[-1], None)
        self.led.observer.budget(self.led.budget)
        return judged[-1]

    def _patience(self, waiting: Mapping[str, PhaseRequest]) -> float:
        """Notify the observer of the questions that a program waits for; return how long it may."""
        for question_id, request in waiting.items():
            self.led.observer.questions_asked(question_id, [question_of(request)])
        return self.timeout_s


def _judged(gate: Gate, result: PhaseResult) -> Verdict:
    """Return whether a program that has ended succeeded."""
    if result.problem is not None:
        return failed(gate, result.problem, output_of(result))
    return passed(gate, "it ended with exit code 0")
