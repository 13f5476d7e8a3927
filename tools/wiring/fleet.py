"""The fleet's part of the composition root: submitting sessions, and running them.

It builds on `bootstrap`, whose managers and runners it gives to the workers.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attrs import asdict, evolve

from ..base.settings.choices import ISOLATIONS
from ..fleet.stores import is_database, open_database
from ..harness import SessionManager, SessionState
from ..harness.lazy import Lazy
from ..integrations.observers.observing import configured_observers
from ..workflows import WorkflowRunner
from ..workflows.submitted_work import ExecutorNotAllowed
from .bootstrap import (
    agents_channel,
    build_agent_runner,
    build_manager,
    configured_jail,
    isolation_of,
    open_questions,
)
from .pruning import prune_store, transcripts_kind

if TYPE_CHECKING:
    from ..base.settings.worker_configuration import WorkerConfiguration
    from ..fleet.postgres.fleet_view import FleetView as FleetView  # noqa: PLC0414 (re-exported)
    from ..fleet.postgres.store import PostgresStore
    from ..fleet.workers.settings import FleetSettings
    from ..harness import PhaseExecutor
    from ..harness.session_ports import LocalSessions
    from ..harness.submission import Submission
    from ..workflows import RunObserver, Workflow


class SessionRunners:
    """Runs the sessions of a PostgreSQL store one after another, as `agentforge resume` does.

    The connections and a warm sandbox are reused from one session to the next.

    Args:
        store: The sessions' store.
        base_path: The sessions' directory on this machine; `.agentforge/sessions` if None.
        direct: The server's own address, where `store` is a connection pooler.
        objects: The object store of the workspaces; see `open_snapshots`.
        allowed: What this worker does for submissions; the least if None.
        executor: Runs scripts; the sandbox or a jail, as their workflow says, if None.
        claimed: Called with a session's id once the session is claimed.

    Raises:
        ExtraMissing: The packages for PostgreSQL are not installed.
        InvalidStoreAddress: The store is not PostgreSQL.
        InvalidConfiguration: The project's configuration can't be used.
    """

    def __init__(
        self,
        store: str,
        base_path: Path | str | None = None,
        *,
        direct: str | None = None,
        objects: str | None = None,
        allowed: WorkerConfiguration | None = None,
        executor: PhaseExecutor | None = None,
        claimed: Callable[[str], object] = lambda _session_id: None,
    ) -> None:
        from ..base.settings.configuration import load_configuration
        from ..base.settings.worker_configuration import WorkerConfiguration

        configuration = load_configuration()
        self._sessions = open_shared_sessions(store, base_path, direct=direct)
        self._sessions.on_claim = claimed
        self._allowed = WorkerConfiguration() if allowed is None else allowed
        self._objects = objects
        self._executor = executor
        self._cache_bytes = configuration.store.cache_bytes
        self._jail = configured_jail(configuration)
        self._observers = configured_observers(configuration, lambda: self._sessions)
        self._shown: dict[str, Any] = {
            "observers": self._observers.observers,
            "briefing_shows": configuration.briefing.shows,
        }
        self._managers: dict[str, SessionManager] = {}

    def manager_of(self, session_id: str, job_id: int) -> SessionManager:
        """Return the manager that runs a session for a job of the queue.

        Raises:
            StoreError: The session can't be read now.
        """
        self._sessions.job_id = job_id
        return self._manager(isolation_of(self._sessions, session_id))

    def plain_manager(self) -> SessionManager:
        """Return a manager for calls that are no run."""
        return SessionManager(self._sessions, **self._shown)

    def runner(self, manager: SessionManager, observer: RunObserver) -> WorkflowRunner:
        """Return the runner of a manager's sessions; it waits for no person."""
        return build_agent_runner(
            manager=manager, jail=self._jail, allowed=self._allowed, observer=observer
        )

    def close(self) -> None:
        """Wait briefly for pending notifications, then close the store's connections."""
        self._observers.close()
        self._sessions.close()

    def _manager(self, isolation: str) -> SessionManager:
        if isolation not in ISOLATIONS and self._executor is None:
            raise ExecutorNotAllowed(executor=isolation)
        if isolation not in self._managers:
            self._managers[isolation] = build_manager(
                store=self._sessions,
                objects=self._objects,
                cache_bytes=self._cache_bytes,
                isolation=isolation,
                jail=self._jail,
                executor=self._executor,
                channel=Lazy(lambda: agents_channel(store=self._sessions)),
                repositories=self._allowed.repositories,
                **self._shown,
            )
        return self._managers[isolation]


def open_shared_sessions(
    store: str, base_path: Path | str | None = None, *, direct: str | None = None
) -> PostgresStore:
    """Open the sessions of a PostgreSQL store, the only kind that a fleet shares.

    Args:
        store: Its address.
        base_path: The sessions' directory on this machine; `.agentforge/sessions` if None.
        direct: The server's own address, where `store` is a connection pooler.

    Raises:
        ExtraMissing: The packages for PostgreSQL are not installed.
        InvalidStoreAddress: The store is not PostgreSQL.
    """
    if not is_database(store):
        from ..fleet.postgres.address import without_password
        from ..fleet.postgres.errors import InvalidStoreAddress

        raise InvalidStoreAddress(
            store=without_password(store), reason="a fleet shares a PostgreSQL store"
        )
    database = open_database(store, direct=direct)
    from ..fleet.postgres.store import PostgresStore

    return PostgresStore(database, base_path)


def open_submitting(
    store: str,
    base_path: Path | str | None,
    submission: Submission,
    *,
    direct: str | None = None,
) -> LocalSessions:
    """Open the sessions of a store so that each save submits the session to the fleet.

    Args:
        store: Its address.
        base_path: The sessions' directory on this machine; `.agentforge/sessions` if None.
        submission: How the fleet should run them.
        direct: The server's own address, where `store` is a connection pooler.

    Raises:
        ExtraMissing: The packages for PostgreSQL are not installed.
        InvalidStoreAddress: The store is not PostgreSQL.
    """
    database = open_shared_sessions(store, direct=direct).database
    from ..fleet.postgres.store import SubmittingStore

    return SubmittingStore(database, base_path, submission)


class SubmittingRunner(WorkflowRunner):
    """A runner that creates sessions and runs none: the workers have what their gates need."""

    def _check_gates(self, workflow: Workflow) -> None:
        """Accept any workflow: the worker pauses a session whose gates can't run there."""


def submit_session(manager: SessionManager) -> None:
    """Submit a manager's current session to the fleet; a paused one becomes active.

    Raises:
        InvalidStateTransition: The session has ended.
        NotAWorkflowSession: The session was not started by a workflow.
    """
    from ..fleet.postgres.store import SubmittingStore
    from ..workflows.job import Job
    from ..workflows.run.run_lock import require_open

    store, session = manager.store, manager.current_session
    assert isinstance(store, SubmittingStore)  # noqa: S101 (opened for this)
    assert session is not None  # noqa: S101 (the caller loaded it)
    require_open(manager, session.session_id, session, "submit")
    Job.of_session(store, session.session_id)
    if session.state is SessionState.PAUSED:
        manager.resume()
    else:
        store.submit(session)


def fleet_settings(
    *, concurrency: int, queues: list[str] | None, grace_s: float, heartbeat_s: float
) -> FleetSettings:
    """Return a worker's settings; without a heartbeat for five intervals it counts as dead.

    Args:
        concurrency: How many sessions it runs at once.
        queues: The queues to take jobs from; the default one if None.
        grace_s: How long sessions may continue after the worker is stopped, in seconds.
        heartbeat_s: The time between two heartbeats, in seconds.

    Raises:
        ValueError: A value is out of range.
    """
    from ..fleet.workers.settings import LIMIT_HEARTBEATS, FleetSettings

    settings = FleetSettings(
        concurrency=concurrency,
        grace_s=grace_s,
        heartbeat_s=heartbeat_s,
        limit_s=LIMIT_HEARTBEATS * heartbeat_s,
    )
    return settings if queues is None else evolve(settings, queues=tuple(queues))


def worker_allowed(**options: Any) -> WorkerConfiguration:
    """Return what a worker does for submissions.

    Its person's own configuration decides, and so do options, which come from the same person and
    take precedence. A project's file has no effect.

    Args:
        **options: Attributes of `WorkerConfiguration`; the configuration's value for None.

    Raises:
        InvalidConfiguration: The person's configuration can't be used.
    """
    from ..base.settings.worker_configuration import load_worker_configuration

    said = {name: value for name, value in options.items() if value is not None}
    return evolve(load_worker_configuration(), **said)


def open_fleet(store: str, *, direct: str | None = None) -> FleetView:
    """Open a view of a fleet by its PostgreSQL store; see `open_shared_sessions`."""
    from ..fleet.postgres.fleet_view import FleetView

    return FleetView(open_shared_sessions(store, direct=direct).database)


def run_worker(
    store: str,
    settings: FleetSettings,
    allowed: WorkerConfiguration,
    *,
    base_path: Path | str | None = None,
    direct: str | None = None,
    objects: str | None = None,
    address: tuple[str, int] | None = None,
    verbose: bool = False,
) -> None:
    """Run a worker of the fleet until SIGTERM or Ctrl-C.

    Args:
        store: The PostgreSQL store.
        settings: Its queues, concurrency and time limits.
        allowed: What it does for submissions, besides starting sessions from the repository that
            the worker was started in.
        base_path: The sessions' directory on this machine; `.agentforge/sessions` if None.
        direct: The server's own address, where `store` is a connection pooler.
        objects: The object store of the workspaces; see `open_snapshots`.
        address: Where it serves its health and metrics, or None.
        verbose: Whether to log everything that its sessions log, not only warnings.

    Raises:
        StoreError: The store can't be used as it is.
        FleetStopped: The store was unreachable for as long as the settings allow.
    """
    sessions = open_shared_sessions(store, base_path, direct=direct)
    from ..base.data_folder import is_repository
    from ..fleet.workers.running import run_until_stopped
    from ..workflows.submitted_work import served_by

    here = Path.cwd()
    if is_repository(here):
        allowed = evolve(allowed, repositories=(here, *allowed.repositories))
    run_until_stopped(
        sessions.database,
        evolve(settings, allowed=served_by(allowed)),
        greeting={
            "store": store,
            "direct": direct,
            "base": None if base_path is None else str(base_path),
            "objects": objects,
            "allowed": asdict(allowed),
            "level": 10 if verbose else 30,
        },
        prune=lambda: prune_fleet(store, base_path, direct=direct, objects=objects),
        address=address,
    )


def prune_fleet(
    store: str,
    base_path: Path | str | None = None,
    *,
    direct: str | None = None,
    objects: str | None = None,
) -> dict[str, int]:
    """Remove what a fleet no longer needs: ended sessions, questions, transcripts, unused packs.

    Safe to run on several machines at once.

    Args:
        store: The PostgreSQL store.
        base_path: The sessions' directory on this machine; `.agentforge/sessions` if None.
        direct: The server's own address, where `store` is a connection pooler.
        objects: The object store of the workspaces; see `open_snapshots`.

    Returns:
        The number of removed items of each kind, by name.

    Raises:
        AgentForgeError: The store or the object store does not answer. What was removed stays
            removed, and the next prune continues.
    """
    from ..prune import RetentionPolicy

    removed = prune_store(store, base_path, objects=objects)
    sessions = open_shared_sessions(store, base_path, direct=direct)
    try:
        questions = open_questions(store=sessions).cleanup_expired_sessions()
        transcripts = [
            kind.prune(RetentionPolicy(max_age_hours=kind.max_age_hours)).deleted_sessions
            for kind in transcripts_kind(sessions).values()
        ]
    finally:
        sessions.close()
    return {
        "sessions": len(removed.deleted_sessions),
        "questions": len(questions.deleted),
        "transcripts": sum(map(len, transcripts)),
    }
