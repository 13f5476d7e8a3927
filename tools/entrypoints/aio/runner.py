"""`WorkflowRunner` for event loops."""

from __future__ import annotations

from typing import Final

from ...wiring.bootstrap import build_runner
from ...workflows import WorkflowRunner
from .faces import ManagerTurns, in_thread
from .thread_call import require_anyio


class AsyncWorkflowRunner:
    """Runner of workflows, for an asyncio or trio event loop.

        runner = AsyncWorkflowRunner(build_agent_runner(observer=observer))
        outcome = await runner.start(work, agent)

    The methods are those of `WorkflowRunner`, awaited, with its guarantees; its observer is called
    in the run's thread. Runs of one manager take turns: to run several sessions at the same time,
    build a runner for each.

    Cancellation soon ends code, commands, agent programs, model calls and waits for a person; the
    session is then in the state that a killed worker leaves, and `resume` continues it. The
    cancellation is raised once the run's thread has ended.
    """

    def __init__(self, runner: WorkflowRunner | None = None) -> None:
        """Wrap a runner, as `build_runner()` or `build_agent_runner()` returns it, or build one.

        Args:
            runner: The runner; None builds one for scripts in the sandbox, with the sessions in
                `.agentforge/sessions`.

        Raises:
            ExtraMissing: anyio is not installed.
        """
        require_anyio()
        runner = build_runner() if runner is None else runner
        self._wrapped: Final = runner
        self._turns: Final = ManagerTurns(runner.manager)

    @property
    def synchronous(self) -> WorkflowRunner:
        """The wrapped runner; its methods block."""
        return self._wrapped

    start = in_thread(WorkflowRunner.start, waits=True)
    begin = in_thread(WorkflowRunner.begin)
    outcome = in_thread(WorkflowRunner.outcome)
    resume = in_thread(WorkflowRunner.resume, waits=True)
    retry = in_thread(WorkflowRunner.retry, waits=True)
