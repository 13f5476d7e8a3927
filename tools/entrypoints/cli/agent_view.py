"""What a person sees while an agent works: a table that is redrawn, or a line for each event."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from rich.console import RenderableType
from rich.text import Text

from ...harness import SessionManager
from .options import QUESTIONS_OPTION
from .output import Output
from .phases_view import PhasesDrawing, PhasesView
from .render import words
from .text import duration_text

if TYPE_CHECKING:
    from ...workflows.agent_workflow import AgentPhase
    from ...workflows.agents import AgentQuestion, TokenUsage
    from ...workflows.gates import Verdict
    from ...workflows.job import AgentWork


class AgentView(PhasesView):
    """Keeps what is known of a run; it is a `workflows.agent_observer.AgentObserver`.

    Attributes:
        work: What is done, once that is known.
        doing: What happens now, in a few words, or None.
        since: When that began, on the view's clock.
        verdicts: The verdicts of this run, oldest first, each with its phase, round and attempt.
        questions_dir: Where those are, if it is not where `agentforge answer` looks.
    """

    def __init__(
        self, manager: SessionManager, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        super().__init__(manager)
        self._monotonic = monotonic
        self.work: AgentWork | None = None
        self.doing: str | None = None
        self.verdicts: list[tuple[str, int, int, Verdict]] = []
        self.questions_dir: str | None = None
        self.since = 0.0

    def run_started(self, session_id: str, work: AgentWork, *, resumed: bool) -> None:
        """Take up what earlier runs did."""
        del resumed
        self.work = work
        self.take_up(session_id, [phase.name for phase in work.workflow.phases])

    def _do(self, words_: str) -> None:
        self.doing = words_
        self.since = self._monotonic()

    def phase_started(
        self, phase: AgentPhase, *, attempt: int, round_number: int, position: int, total: int
    ) -> None:
        """Mark a phase as running."""
        del position, total
        row = self.row(phase.name)
        row.state, row.attempt, row.round_number = "running", attempt, round_number
        self._do(phase.name)

    def agent_called(self, phase: AgentPhase, *, call: int, prompt_tokens: int) -> None:
        """Say that the agent thinks."""
        del call
        self._do(f"{phase.name}: the agent is thinking (about {prompt_tokens:,} tokens in)")

    def agent_answered(
        self, phase: AgentPhase, *, usage: TokenUsage, duration_s: float, failure: str | None
    ) -> None:
        """Take the cost."""
        del failure
        row = self.row(phase.name)
        row.tokens += usage.total
        row.duration_s = (row.duration_s or 0.0) + duration_s

    def gate_started(self, phase: AgentPhase) -> None:
        """Say that the gate judges."""
        self._do(f"{phase.name}: the gate {phase.gate.kind} is judging")

    def phase_finished(self, phase: AgentPhase, verdict: Verdict) -> None:
        """Mark a phase as done or failed."""
        row = self.row(phase.name)
        row.state = "succeeded" if verdict.passed else "failed"
        row.duration_s = (row.duration_s or 0.0) + verdict.duration_s
        self.verdicts.append((phase.name, row.round_number, row.attempt, verdict))
        self.doing = None

    def questions_asked(self, asked: str, questions: Sequence[AgentQuestion]) -> None:
        """Say that a person is waited for."""
        self._do(f"waiting for {len(questions)} answers: {self.answer_command(asked)}")

    def answer_command(self, asked: str) -> str:
        """Write the command by which a person answers."""
        words = ["agentforge", "answer", asked]
        if self.questions_dir is not None:
            words += [QUESTIONS_OPTION, self.questions_dir]
        return shlex.join(words)

    def ended(self) -> None:
        """Mark a phase whose verdict was not recorded: the run is over."""
        super().ended()
        self.doing = None


def verdict_text(phase: str, round_number: int, attempt: int, verdict: Verdict) -> Text:
    """Write a verdict on one line."""
    from ...workflows.history import attempt_label

    mark, style = ("passed", "green") if verdict.passed else ("failed", "red")
    line = Text(f"{phase}, {attempt_label(round_number, attempt)}  ", "dim")
    line.append(f"{mark}  ", style)
    line.append_text(words(f"{verdict.gate}: {verdict.summary}"))
    line.append(f"  ({duration_text(verdict.duration_s)})", "dim")
    return line


class LiveAgentView(AgentView):
    """Redraws a table on a terminal."""

    def __init__(self, manager: SessionManager, output: Output) -> None:
        super().__init__(manager)
        self._drawing = PhasesDrawing(output)

    def shown(self) -> AbstractContextManager[object]:
        """Draw the table until the context ends, which leaves its last state on the screen."""
        return self._drawing.live(self._draw)

    def aside(self) -> AbstractContextManager[object]:
        """Stop redrawing while the context lasts."""
        return self._drawing.aside()

    def _draw(self) -> RenderableType:
        if self.work is None or self.session_id is None:
            return Text()
        doing = None
        if self.doing is not None:
            doing = f"{self.doing}, {duration_text(self._monotonic() - self.since)}"
        return self._drawing.picture(
            self,
            f"{self.work.workflow.name} {self.work.name}",
            remarks=[verdict_text(*one) for one in self.verdicts],
            doing=doing,
        )


class PlainAgentView(AgentView):
    """Writes a line for each event."""

    def __init__(self, manager: SessionManager, output: Output) -> None:
        super().__init__(manager)
        self._output = output

    def run_started(self, session_id: str, work: AgentWork, *, resumed: bool) -> None:
        """Name the session."""
        super().run_started(session_id, work, resumed=resumed)
        word = "Resuming" if resumed else "Running"
        self._output.line(f"{word} {work.workflow.name} {work.name} in session {session_id}")

    def phase_started(
        self, phase: AgentPhase, *, attempt: int, round_number: int, position: int, total: int
    ) -> None:
        """Name the phase."""
        super().phase_started(
            phase, attempt=attempt, round_number=round_number, position=position, total=total
        )
        again = f"round {round_number}, " if round_number > 1 else ""
        self._output.line(
            f"[{position}/{total}] {phase.name}: {again}attempt {attempt} of {phase.max_attempts}"
        )

    def _tell(self, phase: AgentPhase, text: str) -> None:
        self._output.line(f"{self.place(phase.name)}: {text}")

    def agent_answered(
        self, phase: AgentPhase, *, usage: TokenUsage, duration_s: float, failure: str | None
    ) -> None:
        """Tell the cost."""
        super().agent_answered(phase, usage=usage, duration_s=duration_s, failure=failure)
        about = "about " if usage.estimated else ""
        told = (
            f"agent answered with {about}{usage.output_tokens:,} tokens for {usage.input_tokens:,}"
        )
        self._tell(phase, f"{failure or told} ({duration_text(duration_s)})")

    def questions_asked(self, asked: str, questions: Sequence[AgentQuestion]) -> None:
        """Tell what is asked."""
        super().questions_asked(asked, questions)
        self._output.line(f"Waiting for a person: questions {asked}")
        for one in questions:
            self._output.line(f"    {one.prompt}")
        self._output.line(f"To answer: {self.answer_command(asked)}")

    def phase_finished(self, phase: AgentPhase, verdict: Verdict) -> None:
        """Tell the verdict."""
        super().phase_finished(phase, verdict)
        word = "passed" if verdict.passed else "failed"
        self._tell(
            phase,
            f"gate {verdict.gate} {word}: {verdict.summary} ({duration_text(verdict.duration_s)})",
        )


def agent_view(manager: SessionManager, output: Output) -> AgentView:
    """Choose how a run is shown: silently in JSON, redrawn on a terminal, else in lines."""
    if output.json:
        return AgentView(manager)
    return LiveAgentView(manager, output) if output.interactive else PlainAgentView(manager, output)
