"""`Sandbox` for event loops."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from ...sandbox import Sandbox
from .faces import Turns, in_thread
from .thread_call import require_anyio

if TYPE_CHECKING:
    from ...sandbox import ExecutionPolicy, Suspension
    from ...sandbox.executor import Isolation


class AsyncSandbox:
    """Sandbox over one workspace with one policy, for an asyncio or trio event loop.

        async with AsyncSandbox(create_sandbox(workspace="work")) as sandbox:
            result = await sandbox.execute(code)

    The methods are those of `Sandbox`, awaited, with its guarantees. Executions may be awaited at
    the same time; those in one workspace run one after another. Cancelling an execution ends the
    guest within a tenth of a second; the cancellation is raised once the thread has ended. Files
    written before that remain in the workspace.
    """

    def __init__(self, sandbox: Sandbox) -> None:
        """Wrap a sandbox, as `create_sandbox()` or `create_session_sandbox()` returns it.

        Raises:
            ExtraMissing: anyio is not installed.
        """
        require_anyio()
        self._wrapped: Final = sandbox
        self._turns: Final = Turns()

    def __repr__(self) -> str:
        return f"AsyncSandbox({self._wrapped!r})"

    async def __aenter__(self) -> Self:
        """Return this sandbox; leaving the block closes it."""
        return self

    async def __aexit__(self, *error: object) -> None:
        """Close the sandbox, even if the block was cancelled."""
        from anyio import CancelScope

        with CancelScope(shield=True):
            await self.close()

    @property
    def synchronous(self) -> Sandbox:
        """The wrapped sandbox; its methods block."""
        return self._wrapped

    @property
    def workspace(self) -> Path:
        """The host directory the guest sees as `/app`."""
        return self._wrapped.workspace

    @property
    def policy(self) -> ExecutionPolicy:
        """The default limits of an execution."""
        return self._wrapped.policy

    @property
    def stateful(self) -> bool:
        """Whether variables persist from one execution to the next."""
        return self._wrapped.stateful

    @property
    def suspended(self) -> Suspension | None:
        """What the program of a durable sandbox waits for, or None."""
        return self._wrapped.suspended

    @property
    def isolation(self) -> Isolation | None:
        """Where executions run: "process" means another process, None this one."""
        return self._wrapped.isolation

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._wrapped.closed

    execute = in_thread(Sandbox.execute, waits=True)
    resume = in_thread(Sandbox.resume, waits=True)
    snapshot = in_thread(Sandbox.snapshot)
    fork = in_thread(Sandbox.fork)
    close = in_thread(Sandbox.close, waits=True)
