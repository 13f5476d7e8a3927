"""Progress of a run for a person: a table that is redrawn, or a line for each event."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Final

from rich.console import Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from ....harness import PhaseResult, SessionManager, TokenBudget
from ....workflows.ports import RunObserver
from ..options import QUESTIONS_OPTION
from .output import Output
from .render import PhaseRow, budget_bar, phase_rows, phase_table, words
from .text import counted_of, duration_text

if TYPE_CHECKING:
    from ....workflows import Job, Phase
    from ....workflows.agents.port import AgentQuestion, TokenUsage
    from ....workflows.gates.verdict import Verdict

_REFRESHES_PER_SECOND: Final = 8


class RunView(RunObserver):
    """State of a run of scripts or of an agent; shows nothing itself.

    Also turns each event into a line, for subclasses that show lines.

    Attributes:
        session_id: The session, once the run has one.
        job: The job, once it is known.
        title: The session's title, else the job's.
        rows: The state of each phase.
        spent: The budget, once it has been read.
        doing: The current step, in a few words, or None.
        said: What the agent said last in that step, or None.
        since: When that step began, on the monotonic clock.
        started: When this run began, on the monotonic clock.
        last: The result of a script that was recorded last, or None.
        problem: Why that result is not a success, or None.
        verdicts: The verdicts on agents' attempts in this run, oldest first, each with its phase,
            round and attempt.
        questions_dir: The questions directory, if it is not the default of `agentforge answer`.
        store: The store of the questions, if the command must name it.
        resume: The words of the command that goes on with the session, without its id.
        on_failing_base: Is called with the report if the gates' commands fail before anything was
            written, or None; an exception that it raises ends the run.
    """

    def __init__(self, manager: SessionManager, output: Output) -> None:
        self._manager = manager
        self._output = output
        self.session_id: str | None = None
        self.job: Job | None = None
        self.title = ""
        self.rows: list[PhaseRow] = []
        self.spent: TokenBudget | None = None
        self.doing: str | None = None
        self.said: str | None = None
        self.since = 0.0
        self.started = time.monotonic()
        self.last: PhaseResult | None = None
        self.problem: str | None = None
        self.verdicts: list[tuple[str, int, int, Verdict]] = []
        self.questions_dir: str | None = None
        self.store: str | None = None
        self.resume: tuple[str, ...] = ("resume",)
        self.on_failing_base: Callable[[str], None] | None = None

    # ------------------------------------------------------------------------- how it is shown

    def shown(self) -> AbstractContextManager[object]:
        """Show the run while the context lasts."""
        return nullcontext()

    def aside(self) -> AbstractContextManager[object]:
        """Free the terminal for a question while the context lasts."""
        return nullcontext()

    @property
    def is_agents(self) -> bool:
        """Whether an agent works on the phases."""
        return self.job is not None and self.job.work is not None

    def row(self, name: str) -> PhaseRow:
        """Return the row of a phase, or of a program's call, which has one from here on."""
        for row in self.rows:
            if row.name == name:
                return row
        self.rows.append(PhaseRow(name, state="running"))
        return self.rows[-1]

    def answer_command(self, asked: str) -> str:
        """Return the command with which a person answers."""
        words = ["agentforge", "answer", asked]
        if self.store is not None:
            words[1:1] = ["--store", self.store]
        if self.questions_dir is not None:
            words += [QUESTIONS_OPTION, self.questions_dir]
        return shlex.join(words)

    def ended(self) -> None:
        """Mark phases without a recorded result as stopped, because the run has ended."""
        self.doing = None
        for row in self.rows:
            if row.state == "running":
                row.state = "stopped"

    def _line(self, text: str) -> None:
        """Receive an event as a line of text; ignored here."""

    def _redraw(self) -> None:
        """Show the state at once; nothing is shown here."""

    def _step(self, phase: Phase, text: str) -> None:
        position = 1 + [row.name for row in self.rows].index(phase.name)
        self._line(f"[{position}/{len(self.rows)}] {phase.name}: {text}")

    def _do(self, step: str) -> None:
        self.doing, self.said = step, None
        self.since = time.monotonic()

    # ------------------------------------------------------------------------------ the events

    def run_started(self, session_id: str, job: Job, *, resumed: bool) -> None:
        """Read the results of earlier runs."""
        self.job, self.session_id = job, session_id
        session = self._manager.current_session
        done: dict[str, PhaseRow] = {}
        for row in phase_rows(session) if session else ():
            earlier = done.get(row.name)
            if earlier is not None:  # another round of the phase
                row.tokens += earlier.tokens
                if earlier.duration_s is not None:
                    row.duration_s = (row.duration_s or 0.0) + earlier.duration_s
            done[row.name] = row
        self.rows = [done.get(name, PhaseRow(name)) for name in job.workflow.names]
        for row in self.rows:
            if row.state not in {"succeeded", "failed"}:
                row.state = "pending"
        self.title = (session.title if session else None) or job.title
        self._line(f"{'Resuming' if resumed else 'Running'} {self.title} in session {session_id}")

    def phase_started(
        self, phase: Phase, *, attempt: int, round_number: int, position: int, total: int
    ) -> None:
        """Mark a phase as running."""
        del position, total
        row = self.row(phase.name)
        row.state, row.attempt, row.round_number = "running", attempt, round_number
        self._do(phase.name)
        again = f"round {round_number}, " if round_number > 1 else ""
        of_agent = f"{again}attempt {attempt} of {phase.max_attempts}"
        self._step(phase, of_agent if self.is_agents else f"running, attempt {attempt}")

    def agent_called(self, phase: Phase, *, call: int, prompt_tokens: int) -> None:
        """Record that the agent works."""
        del call
        self._do(f"{phase.name}: the agent is thinking (about {prompt_tokens:,} tokens in)")

    def agent_said(self, phase: Phase, text: str) -> None:
        """Record what the agent is at."""
        del phase
        first, self.said = self.said is None, text
        if first:
            self._redraw()

    def agent_answered(
        self, phase: Phase, *, usage: TokenUsage, duration_s: float, failure: str | None
    ) -> None:
        """Add the cost of an answer."""
        row = self.row(phase.name)
        row.tokens += usage.total
        row.duration_s = (row.duration_s or 0.0) + duration_s
        about = "about " if usage.estimated else ""
        cost = f"{about}{usage.output_tokens:,} tokens for {usage.input_tokens:,}"
        said = failure or f"agent answered with {cost}"
        self._step(phase, f"{said} ({duration_text(duration_s)})")

    def gate_started(self, phase: Phase) -> None:
        """Record that the gate runs."""
        self._do(f"{phase.name}: the gate {phase.agents_gate.kind} is judging")

    def base_judged(self, phase: Phase, *, said: str, failed: bool) -> None:
        """Say which check failed before anything was written."""
        if failed:
            self._step(phase, said)
        if failed and self.on_failing_base is not None:
            self.on_failing_base(said)

    def phase_finished(self, phase: Phase, verdict: Verdict, result: PhaseResult | None) -> None:
        """Mark a phase as succeeded or failed."""
        row, lasted = self.row(phase.name), duration_text(verdict.duration_s)
        if result is None:
            self.verdicts.append((phase.name, row.round_number, row.attempt, verdict))
            word = "passed" if verdict.passed else "failed"
            said = f"gate {verdict.gate} {word}: {verdict.summary} ({lasted})"
        else:
            self.last, self.problem = result, None if verdict.passed else verdict.summary
            row.tokens += phase.tokens
            ended = "succeeded" if verdict.passed else f"failed: {verdict.summary}"
            said = f"{ended} ({lasted}, {phase.tokens:,} tokens)"
        row.state = "succeeded" if verdict.passed else "failed"
        row.duration_s = (row.duration_s or 0.0) + verdict.duration_s
        self.doing = None
        self._step(phase, said)

    def questions_asked(self, asked: str, questions: Sequence[AgentQuestion]) -> None:
        """Record that the run waits for a person."""
        command = self.answer_command(asked)
        self._do(f"waiting for {counted_of(len(questions), 'answer')}: {command}")
        self._line(f"Waiting for a person: questions {asked}")
        for one in questions:
            self._line(f"    {one.prompt}")
        self._line(f"To answer: {command}")

    def sandbox_prepares(self, line: str) -> None:
        """Record what the first execution on a machine waits for."""
        self.doing = f"sandbox: {line}"
        self._line(f"Sandbox: {line}")

    def budget(self, budget: TokenBudget) -> None:
        """Record the budget."""
        self.spent = budget

    def paused(self, reason: str) -> None:
        """Do nothing; the summary reports it."""

    def completed(self) -> None:
        """Do nothing; the summary reports it."""


class LiveRunView(RunView):
    """Run view that redraws a table on a terminal."""

    def __init__(self, manager: SessionManager, output: Output) -> None:
        super().__init__(manager, output)
        self._spinner = Spinner("dots", style="bold cyan")
        self._live: Live | None = None

    def shown(self) -> AbstractContextManager[object]:
        """Draw the table until the context ends; its last state stays on the screen."""
        self._live = Live(
            console=self._output.console,
            get_renderable=self._draw,
            refresh_per_second=_REFRESHES_PER_SECOND,
            vertical_overflow="visible",
        )
        return self._live

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Stop drawing while the context lasts, then continue below."""
        live = self._live if self._live is not None and self._live.is_started else None
        if live is not None:
            live.stop()
        try:
            yield
        finally:
            if live is not None:
                live.start()

    def _line(self, text: str) -> None:
        """Redraw at once, so that each event is shown even if another follows immediately."""
        del text
        self._redraw()

    def _redraw(self) -> None:
        if self._live is not None and self._live.is_started:
            self._live.refresh()

    def _draw(self) -> RenderableType:
        if self.job is None:
            return Text()
        title = words(self.title, "bold")
        title.append_text(words(f"  {self.session_id}", "dim"))
        parts: list[RenderableType] = [title, phase_table(self.rows)]
        parts += [verdict_text(*one) for one in self.verdicts]
        if self.doing is not None:
            line = Table.grid(padding=(0, 1, 0, 0))
            lasted = duration_text(time.monotonic() - self.since)
            line.add_row(self._spinner, words(f"{self.doing}, {lasted}"))
            parts.append(line)
            if self.said is not None:
                parts.append(words(f"  {self.said}", "dim"))
        if self.spent is not None:
            lasted = duration_text(time.monotonic() - self.started)
            parts.append(budget_bar(self.spent).append(f"  {lasted} in all"))
        return Group(*parts)


class PlainRunView(RunView):
    """Run view that writes a line for each event."""

    def _line(self, text: str) -> None:
        self._output.line(text)


def run_view(manager: SessionManager, output: Output) -> RunView:
    """Return the view of a run: silent for JSON, redrawn on a terminal, else lines."""
    if output.json:
        return RunView(manager, output)
    return LiveRunView(manager, output) if output.interactive else PlainRunView(manager, output)


def verdict_text(phase: str, round_number: int, attempt: int, verdict: Verdict) -> Text:
    """Return a verdict on one line."""
    from ....workflows.run.progress import attempt_label

    mark, style = ("passed", "green") if verdict.passed else ("failed", "red")
    line = Text(f"{phase}, {attempt_label(round_number, attempt)}  ", "dim")
    line.append(f"{mark}  ", style)
    line.append_text(words(f"{verdict.gate}: {verdict.summary}"))
    line.append(f"  ({duration_text(verdict.duration_s)})", "dim")
    return line
