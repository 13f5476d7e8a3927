"""Who is told of a workflow's run, and what."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ..harness import PhaseResult, TokenBudget
    from .workflow_document import Phase, Workflow


class RunObserver(Protocol):
    """Is told what happens during a run, as soon as it is on disk.

    What it raises ends the run where it is; the session can be resumed.
    """

    def run_started(self, session_id: str, workflow: Workflow, *, resumed: bool) -> None:
        """A run begins; one that is refused never does.

        Args:
            session_id: The session; with it the run can be resumed, whatever happens next.
            workflow: What is run.
            resumed: False if the session was created for this run.
        """
        ...

    def phase_started(self, phase: Phase, *, attempt: int, position: int, total: int) -> None:
        """A phase's code is about to run.

        Args:
            phase: The phase.
            attempt: Which attempt at it, from 1.
            position: Where it stands in the workflow, from 1.
            total: How many phases the workflow has.
        """
        ...

    def phase_finished(self, phase: Phase, result: PhaseResult, problem: str | None) -> None:
        """A phase's result is recorded.

        Args:
            phase: The phase.
            result: What became of it, with `success` as it was judged.
            problem: Why it is no success, or None.
        """
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


class SilentObserver:
    """Does nothing; a base for observers that want to know some things only."""

    def run_started(self, session_id: str, workflow: Workflow, *, resumed: bool) -> None:
        """See `RunObserver`."""

    def phase_started(self, phase: Phase, *, attempt: int, position: int, total: int) -> None:
        """See `RunObserver`."""

    def phase_finished(self, phase: Phase, result: PhaseResult, problem: str | None) -> None:
        """See `RunObserver`."""

    def budget(self, budget: TokenBudget) -> None:
        """See `RunObserver`."""

    def paused(self, reason: str) -> None:
        """See `RunObserver`."""

    def completed(self) -> None:
        """See `RunObserver`."""
