"""Leading a session: by one worker at a time, under the session's run lock."""

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
from ...harness.domain.session_notices import GateStarted
from ...harness.store.session_folders import make_folder
from ..errors import AlreadyRunning, PhaseNotInWorkflow
from ..job import Job
from ..ports import RunObserver
from ..prompts.workspace_files import WorkspaceFiles
from ..workflow import Phase
from .step_journal import StepJournal


@frozen(kw_only=True, eq=False)
class LedSession:
    """A session under its run's lock, and what the run of it goes by.

    Attributes:
        manager: Leads the session.
        observer: Observes the run.
        job: What is run.
        session: The manager's current session, as it was read under the lock.
        files: Those of its workspace.
        steps: What the run keeps beside the session.
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
        """Say that the gate of a phase is about to judge."""
        self.manager.announce(GateStarted(gate=phase.agents_gate.kind))
        self.observer.gate_started(phase)


def require_open(
    manager: SessionManager, session_id: str, session: SessionContext | None, operation: str
) -> SessionContext:
    """Return a session that was looked for, if it is there and has not ended.

    Raises:
        SessionNotFound: It is not there.
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
    """Hold the session's run lock; what is read under it is what is so.

    The lock is on the session's copy of what it works through: saves lock the session's directory,
    and the workspace belongs to the code that runs in it.

    Args:
        manager: Leads the session; it becomes the current one.
        session_id: The session.
        operation: What is wanted, for messages.
        observer: Observes the run.
        job: What is run: it says which attachment is locked, and which phases there are.
        fs: The file system of the workspace.
        lock_timeout_s: How long to wait for another worker that is just ending, in seconds.

    Raises:
        SessionNotFound: There is no such session (any more).
        AlreadyRunning: Another worker runs it.
        InvalidStateTransition: It has ended.
        PhaseNotInWorkflow: It was led into another phase.
        WriteError: Its workspace can't be made or opened.
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
    """Make the workspace if need be, and hold it open."""
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
