"""The harness's phases, executed in the sandbox; code that waits is suspended and resumed."""

from __future__ import annotations

import json
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from attrs import define, evolve, field
from attrs.validators import ge

from ...harness import PhaseResult
from ...harness.domain.history_events import PhaseRequest
from ...harness.ports import SuspendedProgram, Unanswered
from ...harness.session_ports import LocalSessions
from .executors import phase_result, session_workspace

if TYPE_CHECKING:
    from ...base.cancellation import CancelToken
    from ...sandbox import ExecutionPolicy, Sandbox, SandboxResult
    from ...sandbox.result_parts import ProgramFrame, ProgramRequest
    from .executors import ExecutorParameters

DEFAULT_KEPT: Final = 16
"""The default number of idle sandboxes an executor retains."""
_MAY_WAIT: Final = re.compile(r"\bagentforge\b|\binput\s*\(")
"""What the code of a phase contains if it can wait."""


@define
class _CachedSandbox:
    """A reusable sandbox, and the number of executions that use it now."""

    sandbox: Sandbox
    users: int = 0


@define(eq=False)
class SandboxPhaseExecutor:
    """Runs phases in the sandbox, with the session's workspace as its only directory.

    Implements `harness.ResumingExecutor`: code that names `agentforge`, or calls `input`, runs in
    a durable sandbox and may wait; not with mounts. Each workspace has one sandbox for other code,
    which is reused and loaded at its first execution; phases in one workspace run one after
    another. May be used from any thread, and as a context manager that closes it.

    Args:
        store: Locates a session's workspace.
        policy: Limits and environment of phases that name none; the sandbox's default if None.
        kept: The most idle sandboxes, 0 or more; the least recently used one is closed first.
        tools: Host functions that the code may call; see `create_sandbox()`.
        cancel: Stops every execution, from any thread; its result then reports that.
    """

    _store: LocalSessions
    _policy: ExecutionPolicy | None = None
    _most_kept: int = field(default=DEFAULT_KEPT, alias="kept", kw_only=True, validator=ge(0))
    _tools: Sequence[Callable[..., Any]] = field(default=(), kw_only=True)
    _cancel: CancelToken | None = field(default=None, kw_only=True)
    _lock: threading.Lock = field(factory=threading.Lock, init=False)
    _cached: OrderedDict[Path, _CachedSandbox] = field(factory=OrderedDict, init=False)
    _closed: bool = field(default=False, init=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def kept_sandboxes(self) -> int:
        """The current number of sandboxes, including those in use."""
        with self._lock:
            return len(self._cached)

    def close(self) -> None:
        """Close the idle sandboxes now, and each of the others when its execution has ended.

        From then on each execution has a sandbox of its own, and none is reused. Further calls do
        nothing.
        """
        with self._lock:
            self._closed = True
            self._trim()

    def check(self) -> None:
        """Check that the interpreter's files exist; nothing is loaded or compiled.

        Raises:
            SandboxUnavailable: They are missing; the error says what to do.
        """
        from ...sandbox.installed.interpreter_files import InterpreterFiles

        InterpreterFiles.found()

    def execute(
        self,
        code: str,
        *,
        session_id: str,
        deadline_s: float | None = None,
        fuel: int | None = None,
        files: Mapping[str, bytes | str] | None = None,
    ) -> PhaseResult:
        """Run code in the session's workspace, which is created (mode 0700) if missing.

        The policy's limits apply if `deadline_s` (seconds) or `fuel` (WebAssembly instructions) is
        None.

        Raises:
            InvalidSessionId: The id is malformed. As with every other error, nothing ran.
            SessionNotFound: The session does not exist.
            InvalidExecution: The sandbox does not accept a limit, a file or the code.
            WorkspaceError: The workspace can't be used.
            WorkspaceBusy: The workspace was in use for too long.
            SandboxUnavailable: This machine or process can't run guests.
        """
        workspace = session_workspace(self._store, session_id)
        has_mounts = self._policy is not None and bool(self._policy.mounts)
        if _MAY_WAIT.search(code) and not has_mounts:
            from ...sandbox import create_sandbox

            using: AbstractContextManager[Sandbox] = create_sandbox(
                workspace=workspace,
                policy=self._policy,
                stateful=True,
                durable=True,
                tools=tuple(self._tools),
            )
        else:
            using = self._sandbox(workspace)
        with using as sandbox:
            result = sandbox.execute(
                code, files=files, timeout=deadline_s, fuel=fuel, cancel=self._cancel
            )
            return _result_of(sandbox, result)

    def resume(
        self,
        program: bytes,
        answers: Mapping[int, object],
        *,
        session_id: str,
        deadline_s: float | None = None,
    ) -> PhaseResult:
        """Go on with a suspended program in the session's workspace; see `ResumingExecutor`.

        Raises:
            ProgramSnapshotRefused: The program can't go on with this interpreter, or its state is
                damaged.
            SandboxError: As for `execute`.
        """
        from ...sandbox import ProgramSnapshot, RequestFailed, Sandbox

        given = {
            number: RequestFailed(answer.reason) if isinstance(answer, Unanswered) else answer
            for number, answer in answers.items()
        }
        workspace = session_workspace(self._store, session_id)
        with Sandbox.restore(
            ProgramSnapshot(program),
            workspace,
            policy=self._policy,
            tools=tuple(self._tools),
        ) as sandbox:
            result = sandbox.resume(given, timeout=deadline_s, cancel=self._cancel)
            return self._settled(session_id, sandbox, result)

    def _settled(
        self,
        session_id: str,  # noqa: ARG002 (for an executor that extends this one)
        sandbox: Sandbox,
        result: SandboxResult,
    ) -> PhaseResult:
        """Return the result of a durable sandbox's execution."""
        return _result_of(sandbox, result)

    @contextmanager
    def _sandbox(self, workspace: Path) -> Iterator[Sandbox]:
        """Yield the sandbox of a workspace; it is not closed during the block."""
        from ...sandbox import create_sandbox

        with self._lock:
            cached = self._cached.get(workspace)
            if cached is None:
                sandbox = create_sandbox(
                    workspace=workspace, policy=self._policy, tools=tuple(self._tools)
                )
                cached = self._cached[workspace] = _CachedSandbox(sandbox)
            self._cached.move_to_end(workspace)
            cached.users += 1
        try:
            yield cached.sandbox
        finally:
            with self._lock:
                cached.users -= 1
                self._trim()

    def _trim(self) -> None:
        """Close surplus idle sandboxes, the least recently used first."""
        most = 0 if self._closed else self._most_kept
        idle = [workspace for workspace, cached in self._cached.items() if not cached.users]
        for workspace in idle[: max(len(idle) - most, 0)]:
            self._cached.pop(workspace).sandbox.close()


def _result_of(sandbox: Sandbox, result: SandboxResult) -> PhaseResult:
    """Convert a result; that of a program that waits with its state."""
    found, suspended = phase_result(result), result.suspended
    if suspended is None:
        return found
    waits = SuspendedProgram(
        program=bytes(sandbox.snapshot()),
        requests=tuple(map(_request, suspended.requests)),
        wake_at=suspended.wake_at,
        where=tuple(map(_place, suspended.where)),
    )
    return evolve(found, suspended=waits)


def _place(one: ProgramFrame) -> str:
    return f"{one.file.removeprefix('/app/')}:{one.line} in {one.function}"


def _request(one: ProgramRequest) -> PhaseRequest:
    is_call = one.kind == "call"
    return PhaseRequest(
        id=one.id,
        kind=one.kind,
        prompt=one.question,
        title=one.title,
        options=one.options,
        multi_select=one.multi_select,
        tool=one.tool,
        arguments=json.dumps(one.arguments) if is_call else None,
        until=None if one.until is None else one.until.isoformat(),
    )


def make_executor(store: LocalSessions, settings: ExecutorParameters) -> SandboxPhaseExecutor:
    """Create an executor from its parameters."""
    return SandboxPhaseExecutor(store, settings.policy)
