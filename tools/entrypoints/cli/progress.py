"""What a person sees while phases run: a table that is redrawn, or a line for each event."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Final

from rich.console import RenderableType
from rich.text import Text

from ...harness import PhaseResult, SessionManager
from .output import Output
from .phases_view import PhasesDrawing, PhasesView
from .render import words
from .text import duration_text

if TYPE_CHECKING:
    from ...workflows import Phase, Workflow

_HEARTBEAT: Final = "working, "


class RunView(PhasesView):
    """Keeps what is known of a run, for whoever shows it; it is a `workflows.RunObserver`.

    Attributes:
        workflow: What is run, once that is known.
        last: The result that was recorded last, or None.
        problem: Why that was no success, or None.
    """

    def __init__(self, manager: SessionManager) -> None:
        super().__init__(manager)
        self.workflow: Workflow | None = None
        self.last: PhaseResult | None = None
        self.problem: str | None = None
        self.running_since: float | None = None

    def run_started(self, session_id: str, workflow: Workflow, *, resumed: bool) -> None:
        """Take up what earlier runs did."""
        del resumed
        self.workflow = workflow
        self.take_up(session_id, [phase.name for phase in workflow.phases])

    def phase_started(self, phase: Phase, *, attempt: int, position: int, total: int) -> None:
        """Mark a phase as running."""
        del phase, total
        row = self.rows[position - 1]
        row.state = "running"
        row.attempt = attempt
        self.running_since = time.monotonic()

    def phase_finished(self, phase: Phase, result: PhaseResult, problem: str | None) -> None:
        """Mark a phase as done or failed."""
        row = self.row(phase.name)
        row.state = "succeeded" if problem is None else "failed"
        row.duration_s = (row.duration_s or 0.0) + result.duration_s
        row.tokens += phase.tokens
        self.running_since = None
        self.last = result
        self.problem = problem

    def ended(self) -> None:
        """Mark a phase whose result was not recorded: the run is over."""
        super().ended()
        self.running_since = None


class LiveRunView(RunView):
    """Redraws a table on a terminal."""

    def __init__(self, manager: SessionManager, output: Output) -> None:
        super().__init__(manager)
        self._drawing = PhasesDrawing(output)

    def shown(self) -> AbstractContextManager[object]:
        """Draw the table until the context ends, which leaves its last state on the screen."""
        return self._drawing.live(self._draw)

    def phase_started(self, phase: Phase, *, attempt: int, position: int, total: int) -> None:
        """Show a phase as running, however short it is."""
        super().phase_started(phase, attempt=attempt, position=position, total=total)
        self._drawing.draw_now()

    def _draw(self) -> RenderableType:
        if self.workflow is None or self.session_id is None:
            return Text()
        running = next((row for row in self.rows if row.state == "running"), None)
        since = self.running_since
        doing = None
        if running is not None and since is not None:
            doing = f"{running.name}, {duration_text(time.monotonic() - since)}"
        return self._drawing.picture(self, self.workflow.name, doing=doing)


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
        told = "succeeded" if problem is None else f"failed: {problem}"
        self._output.line(
            f"{self.place(phase.name)}: {told} "
            f"({duration_text(result.duration_s)}, {phase.tokens:,} tokens)"
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
