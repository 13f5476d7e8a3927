"""The harness's phases, executed in the sandbox, and the host function by which their code asks."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from attrs import define, field
from attrs.validators import ge

from ...harness import PhaseResult, Question, QuestionWaits, SessionManager
from ...harness.session_ports import LocalSessions
from .executors import phase_result, session_workspace

if TYPE_CHECKING:
    from ...base.cancellation import CancelToken
    from ...sandbox import ExecutionPolicy, Sandbox
    from .executors import ExecutorParameters

DEFAULT_KEPT: Final = 16
"""The default number of idle sandboxes an executor retains."""
DEFAULT_ASK_WAIT_S: Final = 30.0
"""How long code in the sandbox waits for a person in one call, in seconds: half of the deadline
that an execution has by default."""


@define
class _CachedSandbox:
    """A reusable sandbox, and the number of executions that use it now."""

    sandbox: Sandbox
    users: int = 0


@define(eq=False)
class SandboxPhaseExecutor:
    """Runs phases in the sandbox, with the session's workspace as its only directory.

    Implements `harness.PhaseExecutor`. The sandbox is loaded at the first execution. Each workspace
    has one sandbox, which is reused; phases in one workspace run one after another. May be used
    from any thread, and as a context manager that closes it.

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
        with self._sandbox(workspace) as sandbox:
            return phase_result(
                sandbox.execute(
                    code, files=files, timeout=deadline_s, fuel=fuel, cancel=self._cancel
                )
            )

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


def make_executor(store: LocalSessions, settings: ExecutorParameters) -> SandboxPhaseExecutor:
    """Create an executor from its parameters."""
    return SandboxPhaseExecutor(store, settings.policy, tools=settings.tools)


def ask_user_tool(
    manager: SessionManager, *, wait_s: float = DEFAULT_ASK_WAIT_S
) -> Callable[..., dict[str, object]]:
    """Return the host function `ask_user`, for `create_sandbox(tools=[...])`.

    Code in the sandbox calls it as `from host import tools; tools.ask_user(...)`. The deadline of
    the execution keeps running, so one call waits for at most `wait_s` seconds; a later answer is
    found by the next execution that asks the same. The manager's session is the one that asks.
    """

    def ask_user(
        prompt: str, options: list[str], title: str = "", multi_select: bool = False
    ) -> dict[str, object]:
        """Ask the person that this work is for, and wait for the answer.

        Args:
            prompt: The whole question.
            options: The answers to choose from, two to four; own words may always be given.
            title: A word or two for lists; the beginning of the prompt if empty.
            multi_select: Whether several may be chosen.
        """
        question = Question(
            prompt=prompt,
            title=title or prompt[:24],
            options=options,
            multi_select=multi_select,
        )
        try:
            reply = manager.ask([question], timeout_s=wait_s)
        except QuestionWaits as waits:
            return {"outcome": "waiting", "question_id": waits.question_id}
        answer = reply.answers[0] if reply.answers else None
        return {
            "outcome": reply.outcome,
            "question_id": reply.question_id,
            "selected": [] if answer is None else list(answer.selected),
            "own_words": None if answer is None else answer.text,
            "text": reply.text,
            "reason": reply.reason,
        }

    return ask_user
