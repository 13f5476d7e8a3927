"""What a person sees while phases run: a table that is redrawn, or a line for each event."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Final

from rich.console import Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from tools.cli.durations import tell_duration
from tools.cli.output import Output
from tools.cli.render import PhaseRow, budget_bar, phase_rows, phase_table, words
from tools.harness import PhaseResult, SessionContext, SessionManager, TokenBudget

if TYPE_CHECKING:
    from tools.workflows import Phase, Workflow

_REFRESHES_PER_SECOND: Final = 8
_HEARTBEAT: Final = "working, "


class RunView:
    """Keeps what is known of a run, for whoever shows it; it is a `tools.workflows.RunObserver`.

    Attributes:
        session_id: The session, once the run has one.
        workflow: What is run, once that is known.
        rows: What became of each phase.
        last: The result that was recorded last, or None.
        problem: Why that was no success, or None.
    """

    def __init__(self, manager: SessionManager) -> None:
        self._manager = manager
        self.session_id: str | None = None
        self.workflow: Workflow | None = None
        self.rows: list[PhaseRow] = []
        self.last: PhaseResult | None = None
        self.problem: str | None = None
        self.spent: TokenBudget | None = None
        self.running_since: float | None = None

    @property
    def session(self) -> SessionContext | None:
        """The session as the manager has it."""
        return self._manager.current_session

    def shown(self) -> AbstractContextManager[object]:
        """Show the run while the context lasts."""
        return nullcontext()

    def run_started(self, session_id: str, workflow: Workflow, *, resumed: bool) -> None:
        """Take up what earlier runs did."""
        del resumed
        self.session_id = session_id
        self.workflow = workflow
        done = {row.name: row for row in phase_rows(self.session)} if self.session else {}
        self.rows = [done.get(phase.name, PhaseRow(phase.name)) for phase in workflow.phases]
        for row in self.rows:
            if row.state not in {"succeeded", "failed"}:
                row.state = "pending"

    def phase_started(self, phase: Phase, *, attempt: int, position: int, total: int) -> None:
        """Mark a phase as running."""
        del phase, total
        row = self.rows[position - 1]
        row.state = "running"
        row.attempt = attempt
        self.running_since = time.monotonic()

    def phase_finished(self, phase: Phase, result: PhaseResult, problem: str | None) -> None:
        """Mark a phase as done or failed."""
        row = next(row for row in self.rows if row.name == phase.name)
        row.state = "succeeded" if problem is None else "failed"
        row.duration_s = (row.duration_s or 0.0) + result.duration_s
        row.tokens += phase.tokens
        self.running_since = None
        self.last = result
        self.problem = problem

    def budget(self, budget: TokenBudget) -> None:
        """Take note of the budget."""
        self.spent = budget

    def ended(self) -> None:
        """Mark a phase whose result was not recorded: the run is over."""
        for row in self.rows:
            if row.state == "running":
                row.state = "stopped"
        self.running_since = None

    def paused(self, reason: str) -> None:
        """Nothing: the summary tells it."""

    def completed(self) -> None:
        """Nothing: the summary tells it."""


class LiveRunView(RunView):
    """Redraws a table on a terminal."""

    def __init__(self, manager: SessionManager, output: Output) -> None:
        super().__init__(manager)
        self._output = output
        self._spinner = Spinner("dots", style="bold cyan")

    def shown(self) -> AbstractContextManager[object]:
        """Draw the table until the context ends, which leaves its last state on the screen."""
        return Live(
            console=self._output.console,
            get_renderable=self._draw,
            refresh_per_second=_REFRESHES_PER_SECOND,
            vertical_overflow="visible",
        )

    def _draw(self) -> RenderableType:
        if self.workflow is None or self.session_id is None:
            return Text()
        title = words(self.workflow.name, "bold")
        title.append_text(words(f"  {self.session_id}", "dim"))
        parts: list[RenderableType] = [title, phase_table(self.rows)]
        running = next((row for row in self.rows if row.state == "running"), None)
        since = self.running_since
        if running is not None and since is not None:
            line = Table.grid(padding=(0, 1, 0, 0))
            told = words(f"{running.name}, {tell_duration(time.monotonic() - since)}")
            line.add_row(self._spinner, told)
            parts.append(line)
        if self.spent is not None:
            parts.append(budget_bar(self.spent))
        return Group(*parts)


class PlainRunView(RunView):
    """Writes a line for each event."""

    def __init__(self, manager: SessionManager, output: Output) -> None:
        super().__init__(manager)
        self._output = output

    def run_started(self, session_id: str, workflow: Workflow, *, resumed: bool) -> None:
        """Name the session."""
        super().run_started(session_id, workflow, resumed=resumed)
        word = "Resuming" if resumed else "Running"
        self._output.line(f"{word} {workflow.name} in session {session_id}")

    def phase_started(self, phase: Phase, *, attempt: int, position: int, total: int) -> None:
        """Name the phase."""
        super().phase_started(phase, attempt=attempt, position=position, total=total)
        self._output.line(f"[{position}/{total}] {phase.name}: running, attempt {attempt}")

    def phase_finished(self, phase: Phase, result: PhaseResult, problem: str | None) -> None:
        """Tell the result."""
        super().phase_finished(phase, result, problem)
        position = 1 + next(index for index, row in enumerate(self.rows) if row.name == phase.name)
        told = "succeeded" if problem is None else f"failed: {problem}"
        self._output.line(
            f"[{position}/{len(self.rows)}] {phase.name}: {told} "
            f"({tell_duration(result.duration_s)}, {phase.tokens:,} tokens)"
        )


def run_view(manager: SessionManager, output: Output) -> RunView:
    """Choose how a run is shown: silently in JSON, redrawn on a terminal, else in lines."""
    if output.json:
        return RunView(manager)
    return LiveRunView(manager, output) if output.interactive else PlainRunView(manager, output)


@contextmanager
def sandbox_progress(output: Output) -> Iterator[Callable[[str], None]]:
    """Show the preparation of the sandbox; gives a function to call with each line of it."""
    if output.json:
        yield lambda _line: None
        return
    if not output.interactive:

        def tell(line: str) -> None:
            if not line.startswith(_HEARTBEAT):
                output.line(f"Sandbox: {line}")

        yield tell
        return
    with output.console.status(Text("Sandbox")) as status:

        def update(line: str) -> None:
            if line.startswith(_HEARTBEAT):
                status.update(words(f"Sandbox: {line}"))
            else:
                output.line(f"Sandbox: {line}")

        yield update
