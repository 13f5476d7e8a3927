"""Where the parts meet: the harness's port for phase work, served by the sandbox."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tools.harness import PhaseResult, SessionManager, SessionNotFound, SessionStore
from tools.workflows import RunObserver, WorkflowRunner

if TYPE_CHECKING:
    from tools.sandbox import ExecutionPolicy


class SandboxPhaseExecutor:
    """Runs phase work in the sandbox, with the session's workspace as its only directory.

    Implements `tools.harness.PhaseExecutor`. The sandbox is loaded at the first execution.
    """

    def __init__(self, store: SessionStore, policy: ExecutionPolicy | None = None) -> None:
        """Make an executor; nothing runs yet.

        Args:
            store: Says where a session's workspace is.
            policy: Limits and environment of phases that name none; the sandbox's default if
                None.
        """
        self._store = store
        self._policy = policy

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
            SandboxUnavailable: This machine or process can't run guests; nothing ran.
        """
        from tools.sandbox import create_sandbox

        workspace = self._store.workspace_path(session_id)
        try:
            os.mkdir(workspace, 0o700)
        except FileExistsError:
            pass
        except FileNotFoundError:
            raise SessionNotFound(session_id, path=self._store.base_path) from None
        sandbox = create_sandbox(workspace=workspace, policy=self._policy)
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
        )


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
