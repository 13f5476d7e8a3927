"""`WorkflowRunner` for event loops."""

from __future__ import annotations

from typing import Final

from ...wiring.bootstrap import build_runner
from ...workflows import WorkflowRunner
from .event_loop import require_anyio
from .faces import in_thread
from .turns import ManagerTurns


class AsyncWorkflowRunner:
    """Runs and resumes workflows, from an event loop of asyncio or trio.

        runner = AsyncWorkflowRunner(build_agent_runner(observer=observer))
        outcome = await runner.start(work, agent)

    The methods are those of `WorkflowRunner`, awaited, with its guarantees; its observer is called
    in the run's thread. Runs of one manager take turns: to run several sessions at the same time,
    build a runner for each.

    Cancellation ends code, commands, agents' programs, calls of a model and waits for a person
    soon; the session is then what a killed worker leaves, and `resume` goes on with it. It is
    raised once the run's thread has ended.
    """

    def __init__(self, runner: WorkflowRunner | None = None) -> None:
        """Take a runner, as `build_runner()` or `build_agent_runner()` makes it; or make one.

        Args:
            runner: The runner; one of scripts in the sandbox, at `.agentforge/sessions`, if None.

        Raises:
            ExtraMissing: anyio is not installed.
        """
        require_anyio()
        runner = build_runner() if runner is None else runner
        self._wrapped: Final = runner
        self._turns: Final = ManagerTurns(runner.manager)

    @property
    def synchronous(self) -> WorkflowRunner:
        """The runner that does the work; its methods block."""
        return self._wrapped

    start = in_thread(WorkflowRunner.start, waits=True)
    begin = in_thread(WorkflowRunner.begin)
    outcome = in_thread(WorkflowRunner.outcome)
    resume = in_thread(WorkflowRunner.resume, waits=True)
    retry = in_thread(WorkflowRunner.retry, waits=True)
