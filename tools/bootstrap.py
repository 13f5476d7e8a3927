"""Where the parts meet: the harness's port for phase work, served by the sandbox."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final, cast

from attrs import define, frozen

from tools.harness import PhaseResult, SessionManager, SessionNotFound, SessionStore
from tools.harness.pruning import HarnessTarget
from tools.prune import PruneTarget
from tools.workflows import RunObserver, WorkflowRunner

if TYPE_CHECKING:
    from tools.sandbox import ExecutionPolicy, Sandbox

DEFAULT_ENDED_HOURS: Final = 30 * 24.0
"""How long agent sessions stay after they ended when nobody names a rule, in hours."""

DEFAULT_KEPT: Final = 16
"""How many sandboxes at rest an executor keeps."""


@define
class _Kept:
    """A sandbox that is used again.

    Attributes:
        sandbox: The sandbox.
        users: How many executions are using it now.
    """

    sandbox: Sandbox
    users: int = 0


class SandboxPhaseExecutor:
    """Runs phase work in the sandbox, with the session's workspace as its only directory.

    Implements `tools.harness.PhaseExecutor`. The sandbox is loaded at the first execution. One
    sandbox is kept for each workspace; phases in one workspace run one after another. May be used
    from any thread, and as a context manager that closes it.
    """

    def __init__(
        self,
        store: SessionStore,
        policy: ExecutionPolicy | None = None,
        *,
        kept: int = DEFAULT_KEPT,
    ) -> None:
        """Make an executor; nothing runs yet.

        Args:
            store: Says where a session's workspace is.
            policy: Limits and environment of phases that name none; the sandbox's default if
                None.
            kept: The most sandboxes kept while nothing runs in them; the one used longest ago is
                closed first.

        Raises:
            ValueError: `kept` is negative.
        """
        if kept < 0:
            raise ValueError(f"kept: expected 0 or more, got {kept}")
        self._store = store
        self._policy = policy
        self._most_kept = kept
        self._lock = threading.Lock()
        self._kept: OrderedDict[Path, _Kept] = OrderedDict()
        self._closed = False

    def __enter__(self) -> SandboxPhaseExecutor:
        """This executor; it is closed when the block is left."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close the executor."""
        self.close()

    @property
    def kept_sandboxes(self) -> int:
        """How many sandboxes there are now, those that something runs in included."""
        with self._lock:
            return len(self._kept)

    def close(self) -> None:
        """Close the sandboxes at rest now, and each other one when what runs in it has ended.

        Nothing is kept from then on; an execution after this has a sandbox for itself. Calling it
        again does nothing.
        """
        with self._lock:
            self._closed = True
            self._trim()

    def execute(
        self,
        code: str,
        *,
        session_id: str,
        deadline_s: float | None = None,
        fuel: int | None = None,
    ) -> PhaseResult:
        """Run code in the workspace of a session, which is made (mode 0700) if it is missing.

        Args:
            code: Python source.
            session_id: Whose workspace the code sees.
            deadline_s: Wall-clock limit in seconds; the policy's if None.
            fuel: Limit in WebAssembly instructions; the policy's if None.

        Returns:
            What became of it, whatever the code did.

        Raises:
            InvalidSessionId: It is no id; nothing ran.
            SessionNotFound: The session is gone; nothing ran.
            InvalidExecution: A limit or the code is none that the sandbox takes; nothing ran.
            WorkspaceError: The workspace can't be used; nothing ran.
            WorkspaceBusy: Others ran in the workspace for too long; nothing ran.
            SandboxUnavailable: This machine or process can't run guests; nothing ran.
        """
        workspace = self._store.workspace_path(session_id)
        try:
            os.mkdir(workspace, 0o700)
        except FileExistsError:
            pass
        except FileNotFoundError:
            raise SessionNotFound(session_id, path=self._store.base_path) from None
        with self._sandbox(workspace) as sandbox:
            result = sandbox.execute(code, timeout=deadline_s, fuel=fuel)
        return PhaseResult(
            success=result.success,
            exit_code=result.exit_code,
            trapped=result.trapped,
            stdout=result.stdout,
            stderr=result.stderr,
            truncated=result.truncated,
            duration_s=result.duration_s,
            fuel_consumed=result.fuel_consumed,
            files_created=result.files_created,
            files_modified=result.files_modified,
            files_deleted=result.files_deleted,
            workspace=result.workspace_path,
            quota_exceeded=cast("tuple[str, ...]", result.metadata["quota_exceeded"]),
        )

    @contextmanager
    def _sandbox(self, workspace: Path) -> Iterator[Sandbox]:
        """Lend the sandbox of a workspace; it is not closed meanwhile."""
        from tools.sandbox import create_sandbox

        workspace = workspace.parent.resolve() / workspace.name  # wherever the process goes next
        with self._lock:
            kept = self._kept.get(workspace)
            if kept is None:
                sandbox = create_sandbox(workspace=workspace, policy=self._policy)
                kept = self._kept[workspace] = _Kept(sandbox)
            self._kept.move_to_end(workspace)
            kept.users += 1
        try:
            yield kept.sandbox
        finally:
            with self._lock:
                kept.users -= 1
                self._trim()

    def _trim(self) -> None:
        """Close the sandboxes at rest that are too many, the one used longest ago first."""
        most = 0 if self._closed else self._most_kept
        resting = [workspace for workspace, kept in self._kept.items() if not kept.users]
        for workspace in resting[: max(len(resting) - most, 0)]:
            self._kept.pop(workspace).sandbox.close()


@frozen(kw_only=True)
class PruneKind:
    """A kind of sessions that can be pruned.

    Attributes:
        target: Where they are and how they are dated.
        max_age_hours: How old they get, in hours, before they go when nobody names a rule.
    """

    target: PruneTarget
    max_age_hours: float


def prune_kinds(
    base_path: Path | str | None = None,
    *,
    workspace_root: Path | str | None = None,
    questions_dir: Path | str | None = None,
) -> dict[str, PruneKind]:
    """Name the kinds of sessions that can be pruned.

    Args:
        base_path: Where the agent sessions are; `.agentforge/sessions` if None.
        workspace_root: Where the sandbox sessions are; `workspace` if None.
        questions_dir: Where the question sessions are; `.agentforge/questions` if None.
    """
    from tools.questions.pruning import QuestionTarget
    from tools.questions.settings import QuestionsConfig
    from tools.questions.store import DEFAULT_BASE_DIR
    from tools.sandbox.pruning import DEFAULT_AGE_HOURS, SandboxTarget
    from tools.sandbox.session_files import DEFAULT_ROOT

    sandboxes = SandboxTarget(DEFAULT_ROOT if workspace_root is None else Path(workspace_root))
    sessions = HarnessTarget(SessionStore(base_path).base_path)
    questions = QuestionTarget(DEFAULT_BASE_DIR if questions_dir is None else Path(questions_dir))
    return {
        sandboxes.kind: PruneKind(target=sandboxes, max_age_hours=DEFAULT_AGE_HOURS),
        sessions.kind: PruneKind(target=sessions, max_age_hours=DEFAULT_ENDED_HOURS),
        questions.kind: PruneKind(
            target=questions, max_age_hours=QuestionsConfig().retention_s / 3600
        ),
    }


def build_manager(
    base_path: Path | str | None = None, *, policy: ExecutionPolicy | None = None
) -> SessionManager:
    """Make a manager whose phases run in the sandbox.

    Args:
        base_path: Where the sessions are; `.agentforge/sessions` if None.
        policy: Limits and environment of phases that name none; the sandbox's default if None.
    """
    store = SessionStore(base_path)
    return SessionManager(store, executor=SandboxPhaseExecutor(store, policy))


def build_runner(
    base_path: Path | str | None = None,
    *,
    policy: ExecutionPolicy | None = None,
    observer: RunObserver | None = None,
) -> WorkflowRunner:
    """Make a runner of workflows whose phases run in the sandbox.

    Args:
        base_path: Where the sessions are; `.agentforge/sessions` if None.
        policy: Limits and environment of phases that name none; the sandbox's default if None.
        observer: Is told what happens; nobody if None.
    """
    return WorkflowRunner(build_manager(base_path, policy=policy), observer)
