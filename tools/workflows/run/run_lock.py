"""The session's run lock: one worker at a time leads a session."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen

from ...base.files import FileSystem, LockTimeout, WriteError
from ...base.files.filesystem import DIRECTORY_FLAGS, close_reader
from ...harness import (
    InvalidStateTransition,
    SessionContext,
    SessionManager,
    SessionNotFound,
    TokenBudget,
)
from ...harness.domain.session_observer import GateStarted
from ...harness.store.session_folders import make_folder
from ..errors import AlreadyRunning, PhaseNotInWorkflow
from ..job import Job
from ..ports import RunObserver
from ..prompts.workspace_files import WorkspaceFiles
from ..workflow import Phase
from .step_journal import StepJournal


@frozen(kw_only=True, eq=False)
class LedSession:
    """A session under its run lock, with everything its run needs.

    Attributes:
        manager: Leads the session.
        observer: Observes the run.
        job: What is run.
        session: The manager's current session, as read under the lock.
        files: The files of its workspace.
        steps: The run's journal beside the session.
    """

    manager: SessionManager
    observer: RunObserver
    job: Job
    session: SessionContext
    files: WorkspaceFiles
    steps: StepJournal

    @property
    def budget(self) -> TokenBudget:
        """The session's budget."""
        return self.session.token_budget

    def gate_started(self, phase: Phase) -> None:
        """Notify the observer that the gate of a phase is about to judge."""
        self.manager.announce(GateStarted(gate=phase.agents_gate.kind))
        self.observer.gate_started(phase)


def require_open(
    manager: SessionManager, session_id: str, session: SessionContext | None, operation: str
) -> SessionContext:
    """Return a loaded session if it exists and has not ended.

    Raises:
        SessionNotFound: It does not exist.
        InvalidStateTransition: It has ended.
    """
    if session is None:
        raise SessionNotFound(session_id, path=manager.store.where)
    if session.state.is_terminal:
        raise InvalidStateTransition(
            session_id=session_id, current_state=session.state, operation=operation
        )
    return session


@contextmanager
def run_lock(
    manager: SessionManager,
    session_id: str,
    operation: str,
    *,
    observer: RunObserver,
    job: Job,
    fs: FileSystem,
    lock_timeout_s: float,
) -> Iterator[LedSession]:
    """Hold the session's run lock; what is read under it stays current.

    The lock is on the session's copy of its workflow: saves lock the session's directory, and the
    workspace belongs to the code that runs in it.

    Args:
        manager: Leads the session; it becomes the current one.
        session_id: The session.
        operation: The requested operation, for messages.
        observer: Observes the run.
        job: What is run: it determines the locked attachment and the phases.
        fs: The file system of the workspace.
        lock_timeout_s: How long to wait for another worker that is just ending, in seconds.

    Raises:
        SessionNotFound: The session does not exist, or no longer.
        AlreadyRunning: Another worker runs it.
        InvalidStateTransition: It has ended.
        PhaseNotInWorkflow: It was moved to a phase that its workflow lacks.
        WriteError: Its workspace can't be created or opened.
    """
    store = manager.store
    lock = store.run_lock(session_id, job.lock_name, timeout_s=lock_timeout_s)
    try:
        lock.acquire()
    except FileNotFoundError:
        raise SessionNotFound(session_id, path=store.where) from None
    except LockTimeout as error:
        raise AlreadyRunning(session_id) from error
    try:
        workspace = store.workspace_path(session_id)
        require_open(manager, session_id, manager.load(session_id), operation)
        manager.prepare_workspace()
        manager.sweep_snapshots()
        with _open_workspace(manager, session_id, workspace, fs) as workspace_fd:
            session = require_open(manager, session_id, manager.load(session_id), operation)
            phases = job.workflow.names
            if session.current_phase not in phases:
                raise PhaseNotInWorkflow(session_id, phase=session.current_phase, known=phases)
            yield LedSession(
                manager=manager,
                observer=observer,
                job=job,
                session=session,
                files=WorkspaceFiles(fs=fs, fd=workspace_fd, root=workspace),
                steps=StepJournal(store, session_id),
            )
    finally:
        lock.release()


@contextmanager
def _open_workspace(
    manager: SessionManager, session_id: str, path: Path, fs: FileSystem
) -> Iterator[int]:
    """Open the workspace, creating it if needed."""
    try:
        make_folder(fs, path)
        fd = fs.open(str(path), DIRECTORY_FLAGS)
    except FileNotFoundError:
        raise SessionNotFound(session_id, path=manager.store.where) from None
    except OSError as error:
        raise WriteError(path=path, operation="open the workspace", cause=error) from error
    try:
        yield fd
    finally:
        close_reader(fs, fd)
