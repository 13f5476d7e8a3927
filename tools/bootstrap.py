"""The composition root: what constructs adapters, and connects them to the ports they serve.

Every entry point asks here. A package is imported when the first function needs it.

The module is long because it is the one place where adapters are made.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self, cast

from attrs import evolve, frozen

from .adapters.ask_user import ask_user_tool
from .adapters.jail_executor import JailPhaseExecutor
from .adapters.sandbox_executor import SandboxPhaseExecutor
from .clock import Clock, utc_now
from .harness import PhaseExecutor, SessionManager, SessionState
from .stores import is_database, open_database, open_sessions

if TYPE_CHECKING:
    from .adapters.fleet.settings import FleetSettings
    from .adapters.pack_index import PackIndex
    from .adapters.postgres.fleet_view import JobView, WorkerView
    from .adapters.postgres.store import PostgresStore
    from .adapters.session_results import SessionResults
    from .adapters.session_snapshots import SessionSnapshots
    from .adapters.workspace_packs import Collected
    from .harness import QuestionChannel
    from .harness.session_ports import LocalSessions
    from .harness.snapshot_port import WorkspaceSnapshots
    from .harness.submission import Submission
    from .jail import JailPolicy
    from .project.configuration import Configuration
    from .prune import PruneResult, PruneSource, PruneTarget, RetentionPolicy, StoredSessions
    from .questions import Config, QuestionSessions
    from .sandbox import CancelToken, ExecutionPolicy
    from .workflows import AgentChoice, PhaseAgent, RunObserver, WorkflowRunner
    from .workflows.gate_port import GateSandbox

DEFAULT_ENDED_HOURS: Final = 30 * 24.0
"""How long agent sessions stay after they ended when no rule is named, in hours."""


def build_manager(
    base_path: Path | str | None = None,
    *,
    store: LocalSessions | str | None = None,
    objects: str | None = None,
    cache_bytes: int | None = None,
    policy: ExecutionPolicy | None = None,
    questions_dir: Path | str | None = None,
    ask_user: bool = False,
    snapshots: bool = True,
    isolation: str = "sandbox",
    jail: JailPolicy | None = None,
    channel: QuestionChannel | None = None,
) -> SessionManager:
    """Build a manager whose phases run in the sandbox or in a jail, and which can ask a person.

    Args:
        base_path: The sessions' directory; `.agentforge/sessions` if None.
        store: Where the sessions are, if not there: opened, or an address for
            `stores.open_sessions`.
        objects: The object store of their workspaces; see `open_snapshots`.
        cache_bytes: As of `open_snapshots`.
        policy: Limits and environment of phases that name none; the sandbox's default if None.
        questions_dir: The question sessions' directory; the configured one if None.
        ask_user: Whether code in the sandbox may ask, too; see `ask_user_tool()`.
        snapshots: Whether each checkpoint keeps the workspace; without git, none does.
        isolation: "sandbox", or "jail" for scripts of any language, run natively.
        jail: What scripts in a jail may use and see; the jail's default if None.
        channel: How a person is asked; as the configuration says if None.

    Raises:
        ValueError: There is no such isolation, or code in a jail was to ask.
    """
    sessions = _opened(base_path, store)
    tools: list[Callable[..., Any]] = []
    if isolation not in {"sandbox", "jail"}:
        raise ValueError(f"isolation: expected 'sandbox' or 'jail', got {isolation!r}")
    if isolation == "jail" and ask_user:
        raise ValueError("ask_user: code in a jail can't call functions of the host")
    executor: PhaseExecutor = (
        JailPhaseExecutor(sessions, jail)
        if isolation == "jail"
        else SandboxPhaseExecutor(sessions, policy, tools=tools)
    )
    manager = SessionManager(
        sessions,
        executor=executor,
        channel=channel
        or cast("QuestionChannel", _Late(lambda: _configured_channel(questions_dir, sessions))),
        snapshots=(
            open_snapshots(sessions, objects, cache_bytes=cache_bytes) if snapshots else None
        ),
    )
    if ask_user:
        tools.append(ask_user_tool(manager))
    return manager


def _opened(base_path: Path | str | None, store: LocalSessions | str | None) -> LocalSessions:
    if store is None or isinstance(store, str):
        return open_sessions(base_path, store=store)
    return store


def open_snapshots(
    store: LocalSessions, objects: str | None = None, *, cache_bytes: int | None = None
) -> WorkspaceSnapshots:
    """Open what keeps the workspaces of a store's sessions; git is looked for when it is needed.

    Args:
        store: The sessions.
        objects: The address of the object store that brings workspaces to other machines, where
            the sessions are in a database; see `adapters.object_store.open_objects`.
        cache_bytes: How much this machine keeps of sessions before those go that are stored there
            and worked on elsewhere, or ended, in bytes; 20 GiB if None.
    """
    return cast("WorkspaceSnapshots", _Late(lambda: _snapshots(store, objects, cache_bytes)))


def _snapshots(
    store: LocalSessions, objects: str | None, cache_bytes: int | None = None
) -> SessionSnapshots:
    from .adapters.session_snapshots import SessionSnapshots

    index = _pack_index(store)
    if index is None:
        return SessionSnapshots(store)
    from .adapters.object_store import open_objects
    from .adapters.workspace_packs import WorkspacePacks

    opened = None if objects is None else open_objects(objects)
    packs = WorkspacePacks(index, opened, store.base_path)
    if cache_bytes is None:
        return SessionSnapshots(store, packs=packs)
    return SessionSnapshots(store, packs=packs, cache_bytes=cache_bytes)


def _pack_index(store: LocalSessions) -> PackIndex | None:
    from .adapters.pack_index import KeepsPacks

    return store.pack_index() if isinstance(store, KeepsPacks) else None


def collect_packs(
    store: LocalSessions, objects: str | None, *, older_than_s: float = 86_400.0
) -> Collected:
    """Remove the packs from the object store that no session names; nothing on files.

    Args:
        store: The sessions.
        objects: The address of the object store, or None.
        older_than_s: The age below which one stays in any case, in seconds: its worker may be
            about to name it.

    Raises:
        AgentForgeError: The object store or the database does not answer.
    """
    from .adapters.object_store import open_objects
    from .adapters.workspace_packs import Collected, collect

    index = _pack_index(store)
    if index is None or objects is None:
        return Collected()
    return collect(index, open_objects(objects), older_than_s=older_than_s)


@contextmanager
def begun_files(
    store: LocalSessions, attachments: Mapping[str, bytes]
) -> Iterator[tuple[Path, str] | None]:
    """Have the files of the repository that a new session will begin with, and whose they are.

    Args:
        store: Where the session will be.
        attachments: What the session will begin with; None is yielded where no repository is.
    """
    from .adapters.session_snapshots import REPOSITORY_NAME, SessionSnapshots

    if REPOSITORY_NAME not in attachments:
        yield None
        return
    with SessionSnapshots(store).begun_files(attachments) as found:
        yield found


def configured_jail(
    configuration: Configuration, environment: Mapping[str, str] = os.environ
) -> JailPolicy | None:
    """Return what commands in a jail may use and see, as a project's configuration says it.

    Args:
        configuration: The configuration; None is returned where it says nothing of jails.
        environment: Where the variables are that it names; those that are not set are left out.

    Raises:
        InvalidJail: It asks for what a jail does not take.
    """
    if "jail" not in configuration.given:
        return None
    from .jail import FolderMount, JailLimits, JailPolicy

    said, root = configuration.jail, Path(os.path.abspath(configuration.root))
    limits: dict[str, Any] = {
        "deadline_s": said.timeout_s,
        "memory_bytes": said.memory_bytes,
        "processes": said.processes,
    }
    return JailPolicy(
        limits=JailLimits(**{name: value for name, value in limits.items() if value is not None}),
        read=[Path(os.path.abspath(one)) for one in said.read],
        mounts=[FolderMount(source=root / one, target=one) for one in said.mounts],
        environment={name: environment[name] for name in said.environment if name in environment},
        network=said.network,
    )


def forget_deleted(store: LocalSessions) -> None:
    """Remove the refs that people's repositories kept for sessions that a prune has deleted."""
    open_snapshots(store).forget_deleted()


def try_objects(url: str, *, monotonic: Callable[[], float] = time.monotonic) -> tuple[str, float]:
    """Write an object, read it and remove it; return the store's name and the seconds that took.

    Raises:
        ObjectStoreError: The store can't be used; the error says why.
    """
    from .adapters.object_store import open_objects
    from .adapters.object_store.objects import try_store

    objects = open_objects(url)
    begun = monotonic()
    try_store(objects)
    return objects.name, monotonic() - begun


def session_results(store: LocalSessions, objects: str | None = None) -> SessionResults:
    """Return what brings the results of a store's sessions to where a person works.

    Args:
        store: The sessions.
        objects: As of `open_snapshots`.
    """
    from .adapters.session_results import SessionResults

    return SessionResults(_snapshots(store, objects))


class _Late:
    """An object that is made when its first attribute is needed."""

    def __init__(self, make: Callable[[], object]) -> None:
        self._make = cache(make)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._make(), name)


def _configured_channel(directory: Path | str | None, store: LocalSessions) -> QuestionChannel:
    from .adapters.question_channel import QuestionSessionChannel
    from .questions import Notifier, load_config

    config = load_config()
    sessions = open_questions(directory, store=store, config=config)
    notifier = Notifier(config.notify, sessions.where, terminal=sys.stderr)
    return QuestionSessionChannel(sessions, notify=notifier.notify)


def agents_channel(
    directory: Path | None = None, *, store: LocalSessions | str | None = None
) -> QuestionChannel:
    """Return the channel of agents' questions, which notifies the person of each.

    Args:
        directory: The question sessions' directory; see `open_questions`.
        store: Where the agent sessions are; see `open_questions`.

    Raises:
        InvalidConfig: The configuration can't be used.
    """
    from .adapters.question_channel import QuestionSessionChannel
    from .questions import Notifier, load_config

    sessions = open_agents_questions(directory, store=store)
    notifier = Notifier(load_config().notify, sessions.where, terminal=sys.stderr)
    return QuestionSessionChannel(sessions, notify=notifier.notify)


class SessionRunners:
    """Runs the sessions of a PostgreSQL store one after another, as `agentforge resume` does.

    What can be kept from one session to the next is: the connections, and a warm sandbox.

    Args:
        store: The store.
        base_path: The sessions' directory on this machine; `.agentforge/sessions` if None.
        direct: The server's own address, where `store` is a connection pooler.
        objects: The object store of the workspaces; see `open_snapshots`.

    Raises:
        StoreExtraMissing: The packages for it are not installed.
        InvalidStoreAddress: It is no PostgreSQL store.
        InvalidConfiguration: The project's configuration can't be used.
    """

    def __init__(
        self,
        store: str,
        base_path: Path | str | None = None,
        *,
        direct: str | None = None,
        objects: str | None = None,
    ) -> None:
        from .project.configuration import load_configuration

        configuration = load_configuration()
        self._sessions = open_shared_sessions(store, base_path, direct=direct)
        self._objects = objects
        self._cache_bytes = configuration.store.cache_bytes
        self._jail = configured_jail(configuration)
        self._managers: dict[str, SessionManager] = {}

    def manager_of(self, session_id: str, job_id: int) -> SessionManager:
        """Return the manager for a session, which runs it for a job of the queue.

        Raises:
            StoreError: The session can't be read now.
        """
        self._sessions.job_id = job_id
        return self._manager(self._isolation_of(session_id))

    def plain_manager(self) -> SessionManager:
        """Return a manager for what is no run."""
        return SessionManager(self._sessions)

    def runner(self, manager: SessionManager, observer: RunObserver) -> WorkflowRunner:
        """Return what runs the sessions of a manager; it waits for no person."""
        return build_agent_runner(manager=manager, jail=self._jail, observer=observer)

    def _isolation_of(self, session_id: str) -> str:
        from .harness import HarnessError
        from .workflows.job import Job

        try:
            return Job.of_session(self._sessions, session_id).workflow.isolation
        except HarnessError as error:
            if error.retryable:
                raise
            return "sandbox"  # the runner says what is wrong with it

    def _manager(self, isolation: str) -> SessionManager:
        if isolation not in self._managers:
            self._managers[isolation] = build_manager(
                store=self._sessions,
                objects=self._objects,
                cache_bytes=self._cache_bytes,
                isolation=isolation,
                jail=self._jail,
                channel=cast(
                    "QuestionChannel", _Late(lambda: agents_channel(store=self._sessions))
                ),
            )
        return self._managers[isolation]


def open_shared_sessions(
    store: str, base_path: Path | str | None = None, *, direct: str | None = None
) -> PostgresStore:
    """Open the sessions of a PostgreSQL store, the one kind that a fleet shares.

    Args:
        store: Its address.
        base_path: The sessions' directory on this machine; `.agentforge/sessions` if None.
        direct: The server's own address, where `store` is a connection pooler.

    Raises:
        StoreExtraMissing: The packages for it are not installed.
        InvalidStoreAddress: It is no PostgreSQL store.
    """
    if not is_database(store):
        from .adapters.postgres.address import without_password
        from .adapters.postgres.errors import InvalidStoreAddress

        raise InvalidStoreAddress(
            store=without_password(store), reason="a fleet shares a PostgreSQL store"
        )
    database = open_database(store, direct=direct)
    from .adapters.postgres.store import PostgresStore

    return PostgresStore(database, base_path)


def open_submitting(
    store: str,
    base_path: Path | str | None,
    submission: Submission,
    *,
    direct: str | None = None,
) -> LocalSessions:
    """Open the sessions of a store so that each save hands the session to the fleet.

    Args:
        store: Its address.
        base_path: The sessions' directory on this machine; `.agentforge/sessions` if None.
        submission: How the fleet is to take them.
        direct: The server's own address, where `store` is a connection pooler.

    Raises:
        StoreExtraMissing: The packages for it are not installed.
        InvalidStoreAddress: It is no PostgreSQL store.
    """
    database = open_shared_sessions(store, direct=direct).database
    from .adapters.postgres.submissions import SubmittingStore

    return SubmittingStore(database, base_path, submission)


def new_submission(*, queue: str, priority: int, at: datetime | None) -> Submission:
    """Return how the fleet is to take a session.

    Raises:
        ValueError: The queue or the priority is none.
    """
    from .harness.submission import Submission

    return Submission(queue=queue, priority=priority, at=at)


def submitting_runner(manager: SessionManager, gates: GateSandbox | None = None) -> WorkflowRunner:
    """Return a runner that only begins sessions; workers have what their gates need.

    Args:
        manager: Leads the sessions.
        gates: Where gates are looked at; nowhere if None.
    """
    from .adapters.gates_elsewhere import CommandsElsewhere, GatesElsewhere
    from .workflows import WorkflowRunner

    return WorkflowRunner(manager, gates or GatesElsewhere(), commands=CommandsElsewhere())


def submit_session(manager: SessionManager) -> None:
    """Hand a manager's current session to the fleet; a paused one becomes active.

    Raises:
        InvalidStateTransition: It has ended.
        NotAWorkflowSession: No workflow began it.
    """
    from .adapters.postgres.submissions import SubmittingStore
    from .workflows.job import Job
    from .workflows.run_lock import require_open

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
    """Return the settings of a worker; a silent one is taken for dead after five heartbeats.

    Args:
        concurrency: How many sessions it runs at once.
        queues: The queues that it takes jobs of; the default one if None.
        grace_s: How long sessions may go on once it is stopped, in seconds.
        heartbeat_s: How often it says that it is alive, in seconds.

    Raises:
        ValueError: One of them is out of its range.
    """
    from .adapters.fleet.settings import LIMIT_HEARTBEATS, FleetSettings

    settings = FleetSettings(
        concurrency=concurrency,
        grace_s=grace_s,
        heartbeat_s=heartbeat_s,
        limit_s=LIMIT_HEARTBEATS * heartbeat_s,
    )
    return settings if queues is None else evolve(settings, queues=tuple(queues))


class FleetView:
    """A fleet as it stands, on its own connection; close it, as by a `with` statement.

    Args:
        store: The PostgreSQL store.
        direct: The server's own address, where `store` is a connection pooler.

    Raises:
        StoreExtraMissing: The packages for it are not installed.
        InvalidStoreAddress: It is no PostgreSQL store.
    """

    def __init__(self, store: str, *, direct: str | None = None) -> None:
        self._database = open_shared_sessions(store, direct=direct).database

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    @property
    def where(self) -> str:
        """The store, for messages."""
        return self._database.name

    def workers(self) -> list[WorkerView]:
        """Return the workers that are alive."""
        from .adapters.postgres.fleet_view import workers

        return workers(self._database)

    def jobs(
        self, *, failed: bool = False, session_id: str | None = None, limit: int = 50
    ) -> tuple[list[JobView], int]:
        """Return the first jobs, and how many there are.

        Args:
            failed: Whether only those that failed are wanted.
            session_id: Whose, or None for all.
            limit: The most that are returned.
        """
        from .adapters.postgres.fleet_view import jobs

        return jobs(self._database, failed=failed, session_id=session_id, limit=limit)

    def withdraw(self, session_id: str) -> bool:
        """Have the fleet work on a session no more; return whether a worker runs it, which stops.

        Raises:
            NotSubmitted: The fleet does not work on it.
        """
        from .adapters.postgres.fleet_view import withdraw

        return withdraw(self._database, session_id)


def run_worker(
    store: str,
    settings: FleetSettings,
    *,
    base_path: Path | str | None = None,
    direct: str | None = None,
    objects: str | None = None,
    address: tuple[str, int] | None = None,
    verbose: bool = False,
) -> None:
    """Be a worker of the fleet until SIGTERM or Ctrl-C.

    Args:
        store: The PostgreSQL store.
        settings: What it does, and how long it waits.
        base_path: The sessions' directory on this machine; `.agentforge/sessions` if None.
        direct: The server's own address, where `store` is a connection pooler.
        objects: The object store of the workspaces; see `open_snapshots`.
        address: Where its health and metrics are served, or None.
        verbose: Whether all that its sessions log is logged, and not only warnings.

    Raises:
        StoreError: The store can't be used as it is.
        FleetStopped: It could not reach the store for as long as the settings say.
    """
    sessions = open_shared_sessions(store, base_path, direct=direct)
    from .adapters.fleet.running import run_until_stopped

    run_until_stopped(
        sessions.database,
        settings,
        greeting={
            "store": store,
            "direct": direct,
            "base": None if base_path is None else str(base_path),
            "objects": objects,
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
    """Remove what a fleet keeps no longer: ended sessions, questions, packs that no session names.

    Safe to run on several machines at once.

    Args:
        store: The PostgreSQL store.
        base_path: The sessions' directory on this machine; `.agentforge/sessions` if None.
        direct: The server's own address, where `store` is a connection pooler.
        objects: The object store of the workspaces; see `open_snapshots`.

    Returns:
        How many of each kind were removed, by name.

    Raises:
        AgentForgeError: The store or the object store does not answer; what was removed before
            stays so, and the next prune goes on.
    """
    removed = prune_store(store, base_path)
    sessions = open_shared_sessions(store, base_path, direct=direct)
    try:
        questions = open_questions(store=sessions).cleanup_expired_sessions()
        packs = collect_packs(sessions, objects)
    finally:
        sessions.close()
    return {
        "sessions": len(removed.deleted_sessions),
        "questions": len(questions.deleted),
        "packs": packs.objects,
    }


def build_executor(store: LocalSessions, cancel: CancelToken) -> PhaseExecutor:
    """Build what runs the code of one call in the sandbox, until `cancel` stops it."""
    return SandboxPhaseExecutor(store, kept=0, cancel=cancel)


def open_questions(
    directory: Path | str | None = None,
    *,
    store: LocalSessions | str | None = None,
    config: Config | None = None,
    **given: Any,
) -> QuestionSessions:
    """Open the question sessions so that those of ended agent sessions are withdrawn.

    Args:
        directory: Their directory; if None, the store's where that is a database, else the
            configured one.
        store: Where the agent sessions are: opened, or an address for `stores.open_sessions`.
        config: The configuration; read if None.
        **given: More for `QuestionSessions`, as a clock.

    Raises:
        InvalidConfig: The configuration can't be used.
        StoreExtraMissing: The store is a database, and the packages for it are not installed.
    """
    from .adapters.question_channel import SessionEnds
    from .questions import open_sessions as questions_of_config

    sessions = _keeping_questions(directory, store)
    return questions_of_config(
        directory,
        config=config,
        store=None if sessions is None else sessions.question_store(),
        session_end=SessionEnds(sessions),
        **given,
    )


def open_agents_questions(
    directory: Path | None = None, *, store: LocalSessions | str | None = None
) -> QuestionSessions:
    """Open the question sessions with the limits of what an agent's answer may ask.

    The arguments and what is raised are those of `open_questions`.
    """
    from .adapters.question_channel import agents_questions

    sessions = _keeping_questions(directory, store)
    return agents_questions(
        directory,
        store=None if sessions is None else sessions.question_store(),
        sessions=sessions,
    )


def _keeping_questions(
    directory: Path | str | None, store: LocalSessions | str | None
) -> PostgresStore | None:
    """Return the store that keeps the questions of its sessions; None where files have them."""
    if directory is not None or store is None:
        return None
    if isinstance(store, str):
        if not is_database(store):
            return None
        store = open_sessions(store=store)
    return cast("PostgresStore", store) if hasattr(store, "question_store") else None


def build_runner(
    base_path: Path | str | None = None,
    *,
    store: LocalSessions | str | None = None,
    objects: str | None = None,
    policy: ExecutionPolicy | None = None,
    observer: RunObserver | None = None,
    isolation: str = "sandbox",
    jail: JailPolicy | None = None,
) -> WorkflowRunner:
    """Build a runner of workflows whose phases run in the sandbox or in a jail.

    Args:
        base_path: The sessions' directory; `.agentforge/sessions` if None.
        store: Where the sessions are, if not there; as in `build_manager`.
        objects: The object store of their workspaces; see `open_snapshots`.
        policy: Limits and environment of phases that name none; the sandbox's default if None.
        observer: Observes the runs, or None.
        isolation: "sandbox", or "jail" for scripts of any language, run natively.
        jail: What scripts and gates in a jail may use and see; the jail's default if None.

    Raises:
        ValueError: There is no such isolation.
    """
    manager = build_manager(
        base_path, store=store, objects=objects, policy=policy, isolation=isolation, jail=jail
    )
    return build_agent_runner(policy=policy, manager=manager, observer=observer, jail=jail)


def build_agent_runner(
    base_path: Path | str | None = None,
    *,
    store: LocalSessions | str | None = None,
    objects: str | None = None,
    policy: ExecutionPolicy | None = None,
    manager: SessionManager | None = None,
    gates: GateSandbox | None = None,
    jail: JailPolicy | None = None,
    channel: QuestionChannel | None = None,
    observer: RunObserver | None = None,
    answers_timeout_s: float = 0.0,
    monotonic: Callable[[], float] = time.monotonic,
) -> WorkflowRunner:
    """Build a runner of agents' work whose gates run in the sandbox.

    Args:
        base_path: The sessions' directory; `.agentforge/sessions` if None.
        store: Where the sessions are, if not there; as in `build_manager`.
        objects: The object store of their workspaces; see `open_snapshots`.
        policy: Limits and environment of gates; the sandbox's default if None.
        manager: Leads the sessions, and asks a person through its own channel; a new one at
            `base_path` if None.
        gates: Where gates run; the sandbox if None.
        jail: What the commands of gates and agents that edit in place may use and see; the jail's
            default if None.
        channel: How the new manager asks a person, as `QuestionSessionChannel`; without one a run
            pauses where a person is needed.
        observer: Observes the runs, or None.
        answers_timeout_s: How long to wait for a person's answers before the session pauses for
            them, in seconds.
        monotonic: The clock that agents are timed with.

    Raises:
        ValueError: `channel` was given beside a manager, which has its own.
    """
    if manager is not None and channel is not None:
        raise ValueError("channel: is the manager's own; give it to SessionManager(channel=...)")
    from .adapters.gate_jail import JailGates
    from .adapters.gate_sandbox import SandboxGates
    from .workflows import WorkflowRunner
    from .workflows.agents.choice import make_agent

    if manager is None:
        opened = _opened(base_path, store)
        kept = open_snapshots(opened, objects)
        manager = SessionManager(opened, channel=channel, snapshots=kept)
    sessions = manager.store
    return WorkflowRunner(
        manager,
        gates if gates is not None else SandboxGates(policy),
        commands=JailGates(jail),
        agents=make_agent,
        editing_agents=lambda choice: build_editing_agent(sessions, choice, jail=jail),
        observer=observer,
        answers_timeout_s=answers_timeout_s,
        monotonic=monotonic,
    )


def build_editing_agent(
    store: LocalSessions, choice: AgentChoice, *, jail: JailPolicy | None = None
) -> PhaseAgent:
    """Build an agent that edits in place, in a jail; recorded answers are taken as they are.

    Args:
        store: Where the sessions are.
        choice: Who it is: a command, a program by its name, or recordings.
        jail: What it may use and see besides; the jail's default if None. Whether it has the
            network says `choice` alone.

    Raises:
        ValueError: It can't edit, as an endpoint, or its command is none.
    """
    from .adapters.agent_jail import JailedAgent
    from .workflows.agents.choice import make_agent

    if choice.kind in {"command", "program"}:
        return JailedAgent.of(store, choice, jail)
    if choice.kind == "recorded":
        return make_agent(choice)
    raise ValueError(f"agent: {choice.kind} can't edit files in place; name a command")


@frozen(kw_only=True)
class PruneKind:
    """A kind of sessions that can be pruned.

    Attributes:
        target: Where they are and how they are dated.
        max_age_hours: The age at which they go when no rule is named, in hours; None where the
            configuration keeps them for ever, whatever rule is named.
        states: The states they may be in; none where the kind has no states.

    Where a store has them as rows, there is no directory, no trash and no list of what was begun.
    """

    target: PruneSource
    max_age_hours: float | None
    states: frozenset[str] = frozenset()

    @property
    def directories(self) -> PruneTarget | None:
        """The sessions, where they are directories; None where a store has them as rows."""
        return cast("PruneTarget", self.target) if hasattr(self.target, "guards") else None

    @property
    def stored(self) -> StoredSessions | None:
        """The sessions, where a store has them as rows; None where they are directories."""
        return cast("StoredSessions", self.target) if self.directories is None else None

    @property
    def is_there(self) -> bool:
        """Whether there is such a directory; a store is always there."""
        return self.stored is not None or os.path.lexists(self.target.root)

    def prune(self, policy: RetentionPolicy, **more: Any) -> PruneResult:
        """Prune the sessions; see `prune.prune` and `prune.prune_stored`."""
        from .prune import prune, prune_stored

        if self.directories is not None:
            return prune(self.directories, policy, **more)
        return prune_stored(cast("StoredSessions", self.target), policy, **more)


def prune_kinds(
    base_path: Path | str | None = None,
    *,
    store: LocalSessions | str | None = None,
    workspace_root: Path | str | None = None,
    questions_dir: Path | str | None = None,
) -> dict[str, PruneKind]:
    """Return the kinds of sessions that can be pruned, by name.

    Args:
        base_path: The agent sessions' directory; `.agentforge/sessions` if None.
        store: Where the agent sessions are, if not there: opened, or an address for
            `stores.open_sessions`.
        workspace_root: The sandbox sessions' directory; `workspace` if None.
        questions_dir: The question sessions' directory; the configured one if None.

    Raises:
        questions.InvalidConfig: The configuration can't be used.
    """
    from .harness.prune_target import HarnessTarget
    from .questions import DEFAULT_BASE_DIR
    from .questions.config import load_config
    from .questions.prune_target import QuestionTarget
    from .questions.session_status import SessionStatus
    from .sandbox.prune_target import DEFAULT_AGE_HOURS, SandboxTarget
    from .sandbox.session_directory import DEFAULT_ROOT

    sandboxes = SandboxTarget(DEFAULT_ROOT if workspace_root is None else Path(workspace_root))
    found = _opened(base_path, store)
    prunable = getattr(found, "prunable", None)  # a store that has them as rows
    sessions = HarnessTarget(found.base_path) if prunable is None else prunable()
    config = load_config()
    directory = questions_dir if questions_dir is not None else config.directory
    questions = QuestionTarget(DEFAULT_BASE_DIR if directory is None else Path(directory))
    kept_s = config.questions.retention_s
    return {
        sandboxes.kind: PruneKind(target=sandboxes, max_age_hours=DEFAULT_AGE_HOURS),
        sessions.kind: PruneKind(
            target=sessions,
            max_age_hours=DEFAULT_ENDED_HOURS,
            states=frozenset(state.value for state in SessionState),
        ),
        questions.kind: PruneKind(
            target=questions,
            max_age_hours=kept_s / 3600 if kept_s > 0 else None,
            states=frozenset(state.value for state in SessionStatus),
        ),
    }


def prune_store(
    store: str,
    base_path: Path | str | None = None,
    *,
    objects: str | None = None,
    policy: RetentionPolicy | None = None,
    archive: Path | None = None,
    dry_run: bool = False,
    clock: Clock = utc_now,
) -> PruneResult:
    """Remove old sessions from a database, once for all its machines, and what is here of them.

    Safe to run on several machines at once. Run on each of them, it also deletes the directories
    there of sessions that were removed elsewhere.

    Args:
        store: The database.
        base_path: The sessions' directory on this machine; `.agentforge/sessions` if None.
        objects: The object store of the workspaces, of which what no session names goes, too.
        policy: Which go; those that ended 30 days ago if None.
        archive: Where to keep an archive of each before; none is kept if None.
        dry_run: Only say what would go.
        clock: The time.

    Raises:
        ArchiveUnavailable: The extra that compresses is not installed; nothing was removed.
        StoreError: The store does not answer, or is no database; what was removed is in its log.
    """
    from .adapters.postgres.store import PostgresStore
    from .harness.prune_target import CleanUpEvents
    from .prune import Disposal, Outside, RetentionPolicy, TarArchiver, prune_stored

    sessions = PostgresStore(open_database(store), base_path)
    try:
        result = prune_stored(
            sessions.prunable(),
            policy or RetentionPolicy(max_age_hours=DEFAULT_ENDED_HOURS),
            dry_run=dry_run,
            disposal=Disposal(
                archiver=None if archive is None else TarArchiver(directory=archive, clock=clock)
            ),
            observer=CleanUpEvents(),
            outside=Outside(clock=clock),
        )
        if not dry_run:
            sessions.clear_directories()
            forget_deleted(sessions)
            collect_packs(sessions, objects)
    finally:
        sessions.close()
    return result
