"""What every view of a run has: the table of its phases, its budget, and how that is drawn."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Final

from rich.console import Group, RenderableType
from rich.live import Live
from rich.spinner import Spinner
from rich.table import Table

from ...harness import SessionContext, SessionManager, TokenBudget
from .output import Output
from .render import PhaseRow, budget_bar, phase_rows, phase_table, words

_REFRESHES_PER_SECOND: Final = 8


class PhasesView:
    """Keeps what is known of a run, whatever runs.

    Attributes:
        session_id: The session, once the run has one.
        rows: What became of each phase.
        spent: The budget, once it was looked at.
    """

    def __init__(self, manager: SessionManager) -> None:
        self._manager = manager
        self.session_id: str | None = None
        self.rows: list[PhaseRow] = []
        self.spent: TokenBudget | None = None

    @property
    def session(self) -> SessionContext | None:
        """The session as the manager has it."""
        return self._manager.current_session

    def shown(self) -> AbstractContextManager[object]:
        """Show the run while the context lasts."""
        return nullcontext()

    def aside(self) -> AbstractContextManager[object]:
        """Keep off the terminal while the context lasts, for somebody is asked there."""
        return nullcontext()

    def take_up(self, session_id: str, phases: Sequence[str]) -> None:
        """Take up what earlier runs did.

        Args:
            session_id: The session.
            phases: The names of the phases, in their order.
        """
        self.session_id = session_id
        done = {row.name: row for row in phase_rows(self.session)} if self.session else {}
        self.rows = [done.get(name, PhaseRow(name)) for name in phases]
        for row in self.rows:
            if row.state not in {"succeeded", "failed"}:
                row.state = "pending"

    def row(self, name: str) -> PhaseRow:
        """Return the row of a phase."""
        return next(row for row in self.rows if row.name == name)

    def place(self, name: str) -> str:
        """Write where a phase stands among all."""
        position = 1 + next(index for index, row in enumerate(self.rows) if row.name == name)
        return f"[{position}/{len(self.rows)}] {name}"

    def budget(self, budget: TokenBudget) -> None:
        """Take note of the budget."""
        self.spent = budget

    def ended(self) -> None:
        """Mark a phase of which nothing was recorded at its end: the run is over."""
        for row in self.rows:
            if row.state == "running":
                row.state = "stopped"

    def paused(self, reason: str) -> None:
        """Nothing: the summary tells it."""

    def completed(self) -> None:
        """Nothing: the summary tells it."""


class PhasesDrawing:
    """Draws a run on a terminal, again and again.

    Args:
        output: The terminal.
    """

    def __init__(self, output: Output) -> None:
        self._output = output
        self._spinner = Spinner("dots", style="bold cyan")
        self._live: Live | None = None

    def live(self, draw: Callable[[], RenderableType]) -> AbstractContextManager[object]:
        """Draw until the context ends, which leaves the last state on the screen.

        Args:
            draw: Makes the picture of now.
        """
        self._live = Live(
            console=self._output.console,
            get_renderable=draw,
            refresh_per_second=_REFRESHES_PER_SECOND,
            vertical_overflow="visible",
        )
        return self._live

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Stop drawing while the context lasts, and go on below."""
        live = self._live if self._live is not None and self._live.is_started else None
        if live is not None:
            live.stop()
        try:
            yield
        finally:
            if live is not None:
                live.start()

    def draw_now(self) -> None:
        """Draw at once, where something is drawn: what is over before the next turn is seen."""
        if self._live is not None and self._live.is_started:
            self._live.refresh()

    def picture(
        self,
        view: PhasesView,
        name: str,
        *,
        remarks: Sequence[RenderableType] = (),
        doing: str | None = None,
    ) -> RenderableType:
        """Make the picture of a view.

        Args:
            view: What is drawn.
            name: What runs, for the title.
            remarks: What stands below the phases.
            doing: What happens now, or None.
        """
        title = words(name, "bold")
        title.append_text(words(f"  {view.session_id}", "dim"))
        parts: list[RenderableType] = [title, phase_table(view.rows), *remarks]
        if doing is not None:
            line = Table.grid(padding=(0, 1, 0, 0))
            line.add_row(self._spinner, words(doing))
            parts.append(line)
        if view.spent is not None:
            parts.append(budget_bar(view.spent))
        return Group(*parts)
