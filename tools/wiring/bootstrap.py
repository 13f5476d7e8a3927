"""The composition root: what constructs adapters, and connects them to the ports they serve.

Every entry point asks here. A package is imported when the first function needs it.

The module is long because it is the one place where adapters are made.
"""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, cast

from ..base.settings.choices import DEFAULT_PARTS
from ..fleet.stores import is_elsewhere, open_sessions
from ..harness import PhaseExecutor, SessionManager
from ..harness.lazy import Lazy
from .phases.ask_user import ask_user_tool
from .phases.executors import ExecutorParameters, make_executor

if TYPE_CHECKING:
    from ..base.settings.configuration import Configuration
    from ..base.settings.worker_configuration import WorkerConfiguration
    from ..fleet.objects.pack_index import PackIndex
    from ..fleet.postgres.store import PostgresStore
    from ..harness import QuestionChannel, SessionObserver
    from ..harness.session_ports import LocalSessions
    from ..jail import JailPolicy
    from ..questions import Config, QuestionSessions
    from ..sandbox import CancelToken, ExecutionPolicy
    from ..workflows import AgentChoice, PhaseAgent, RunObserver, WorkflowRunner
    from ..workflows.gate_port import GateSandbox
    from .workspaces.session_results import SessionResults
    from .workspaces.session_snapshots import SessionSnapshots


class SessionOptions(TypedDict, total=False):
    """How the sessions of a manager or a runner are kept, run and observed; each may be left out.

    Attributes:
        store: Where the sessions are, if not in files of this project: opened, or an address for
            `fleet.stores.open_sessions`.
        objects: The object store of their workspaces; see `open_snapshots`.
        policy: Limits and environment of what runs in the sandbox and names none; its default if
            None.
        isolation: What runs scripts: "sandbox", "jail" for any language, natively, or the name of
            an executor of an installed plugin.
        jail: What runs in a jail may use and see; the jail's default if None.
        observers: Who observes what happens to the sessions; see `harness.SessionObserver`.
        briefing_shows: As of `SessionManager`.
    """

    store: LocalSessions | str | None
    objects: str | None
    policy: ExecutionPolicy | None
    isolation: str
    jail: JailPolicy | None
    observers: Iterable[SessionObserver]
    briefing_shows: Collection[str]


def build_manager(
    base_path: Path | str | None = None,
    *,
    questions_dir: Path | str | None = None,
    ask_user: bool = False,
    snapshots: bool = True,
    channel: QuestionChannel | Lazy[QuestionChannel] | None = None,
    executor: PhaseExecutor | None = None,
    cache_bytes: int | None = None,
    repositories: Collection[Path] | None = None,
    **options: Unpack[SessionOptions],
) -> SessionManager:
    """Build a manager whose phases run in the sandbox or in a jail, and which can ask a person.

    Args:
        base_path: The sessions' directory; the project's, as the commands have it, if None.
        questions_dir: The question sessions' directory; the configured one if None.
        ask_user: Whether code in the sandbox may ask, too; see `ask_user_tool()`.
        snapshots: Whether each checkpoint keeps the workspace; without git, none does.
        channel: How a person is asked; as the configuration says if None.
        executor: What runs phases; what `isolation` says if None.
        cache_bytes: As of `open_snapshots`, and so is `repositories`.
        repositories: The folders whose repositories sessions may begin from; any if None.
        **options: See `SessionOptions`.

    Raises:
        UnknownExecutor: There is no such isolation.
        ValueError: Code that is not in the sandbox was to ask.
    """
    sessions = opened_sessions(base_path, options.get("store"))
    isolation = options.get("isolation", "sandbox")
    tools: list[Callable[..., Any]] = []
    if isolation != "sandbox" and ask_user:
        raise ValueError(f"ask_user: code in the {isolation} can't call functions of the host")
    if executor is None:
        settings = ExecutorParameters(
            policy=options.get("policy"), jail=options.get("jail"), tools=tools
        )
        executor = make_executor(isolation, sessions, settings)
    kept = partial(open_snapshots, sessions, options.get("objects"), cache_bytes, repositories)
    manager = SessionManager(
        sessions,
        executor=executor,
        channel=channel or Lazy(lambda: _configured_channel(questions_dir, sessions)),
        snapshots=Lazy(kept) if snapshots else None,
        **_observed(options),
    )
    if ask_user:
        tools.append(ask_user_tool(manager))
    return manager


def _observed(options: SessionOptions) -> dict[str, Any]:
    """Return what a manager is observed by, and what its briefings show."""
    shows = options.get("briefing_shows", DEFAULT_PARTS)
    return {"observers": options.get("observers", ()), "briefing_shows": shows}


def opened_sessions(
    base_path: Path | str | None, store: LocalSessions | str | None
) -> LocalSessions:
    """Return a store: the one that is open already, or the one of an address or a directory."""
    if store is None or isinstance(store, str):
        return open_sessions(base_path, store=store)
    return store


def open_snapshots(
    store: LocalSessions,
    objects: str | None = None,
    cache_bytes: int | None = None,
    repositories: Collection[Path] | None = None,
) -> SessionSnapshots:
    """Open what keeps the workspaces of a store's sessions; git is looked for when it is needed.

    Args:
        store: The sessions.
        objects: The address of the object store that brings workspaces to other machines, where
            the sessions are in a database; see `fleet.objects.open_objects`.
        cache_bytes: How much this machine keeps of sessions before those go that are stored there
            and worked on elsewhere, or ended, in bytes; 20 GiB if None.
        repositories: The folders whose repositories sessions may begin from; any if None.

    Raises:
        ObjectStoreError: The object store can't be used.
    """
    from .workspaces.session_snapshots import SessionSnapshots

    index = pack_index_of(store)
    if index is None:
        return SessionSnapshots(store, repositories=repositories)
    from ..fleet.objects import open_objects
    from ..fleet.workspaces.workspace_packs import WorkspacePacks

    opened = None if objects is None else open_objects(objects)
    packs = WorkspacePacks(index, opened, store.base_path)
    bounds: dict[str, Any] = {} if cache_bytes is None else {"cache_bytes": cache_bytes}
    return SessionSnapshots(store, packs=packs, repositories=repositories, **bounds)


def pack_index_of(store: LocalSessions) -> PackIndex | None:
    """Return the index of the packs of a store's workspaces; None where no machines share them."""
    from ..fleet.objects.pack_index import KeepsPacks

    return store.pack_index() if isinstance(store, KeepsPacks) else None


@contextmanager
def begun_files(
    store: LocalSessions, attachments: Mapping[str, bytes]
) -> Iterator[tuple[Path, str] | None]:
    """Have the files of the repository that a new session will begin with, and whose they are.

    Args:
        store: Where the session will be.
        attachments: What the session will begin with; None is yielded where no repository is.
    """
    from .workspaces.session_snapshots import REPOSITORY_NAME, SessionSnapshots

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
    from ..jail import FolderMount, JailLimits, JailPolicy

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


def try_gate(configuration: Configuration) -> str:
    """See that a jail as configured has the program of the gate's command; return its name.

    The command is not run. A program of the workspace, as `./test.sh`, is looked for in no place.

    Raises:
        GateUnavailable: No jail can be made, or it can't have the program.
        InvalidJail: The configuration asks for what a jail does not take.
        ValueError: The command is empty, or its quotes are not closed.
    """
    from ..workflows.gate_port import CommandRequest
    from .gates.gate_jail import JailGates

    gate = configuration.gate
    words = shlex.split(gate.command or "")
    if not words:
        raise ValueError("command in [gate] is empty")
    request = CommandRequest(command=gate.command or "", report=gate.report)
    JailGates(configured_jail(configuration), programs=words[:1]).prepare([request])
    return words[0]


def forget_deleted(store: LocalSessions) -> None:
    """Remove the refs that people's repositories kept for sessions that a prune has deleted."""
    open_snapshots(store).forget_deleted()


def try_objects(url: str) -> tuple[str, float]:
    """Write an object, read it and remove it; return the store's name and the seconds that took.

    Raises:
        ObjectStoreError: The store can't be used; the error says why.
    """
    from ..fleet.objects import open_objects
    from ..fleet.objects.objects import try_store

    objects = open_objects(url)
    begun = time.monotonic()
    try_store(objects)
    return objects.name, time.monotonic() - begun


def session_results(store: LocalSessions, objects: str | None = None) -> SessionResults:
    """Return what brings the results of a store's sessions to where a person works.

    Args:
        store: The sessions.
        objects: As of `open_snapshots`.
    """
    from .workspaces.session_results import SessionResults

    return SessionResults(open_snapshots(store, objects))


def _configured_channel(directory: Path | str | None, store: LocalSessions) -> QuestionChannel:
    from ..questions import load_config

    config = load_config()
    return _notifying(open_questions(directory, store=store, config=config), config)


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
    from ..questions import load_config

    return _notifying(open_agents_questions(directory, store=store), load_config())


def _notifying(sessions: QuestionSessions, config: Config) -> QuestionChannel:
    from ..questions import Notifier
    from .phases.question_channel import QuestionSessionChannel

    notifier = Notifier(config.notify, sessions.where, terminal=sys.stderr)
    return QuestionSessionChannel(sessions, notify=notifier.notify)


def isolation_of(store: LocalSessions, session_id: str) -> str:
    """Return where a session's scripts run; where no workflow can be read, the runner says so.

    Raises:
        HarnessError: The store does not answer now; the same call may succeed later.
    """
    from ..harness import HarnessError
    from ..workflows.job import Job

    try:
        return Job.of_session(store, session_id).workflow.isolation
    except HarnessError as error:
        if error.retryable:
            raise
        return "sandbox"


def build_executor(store: LocalSessions, cancel: CancelToken) -> PhaseExecutor:
    """Build what runs the code of one call in the sandbox, until `cancel` stops it."""
    from .phases.sandbox_executor import SandboxPhaseExecutor

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
        store: Where the agent sessions are: opened, or an address for
            `fleet.stores.open_sessions`.
        config: The configuration; read if None.
        **given: More for `QuestionSessions`, as a clock.

    Raises:
        InvalidConfig: The configuration can't be used.
        ExtraMissing: The store is a database, and the packages for it are not installed.
    """
    from ..questions import open_sessions as questions_of_config
    from .phases.question_channel import SessionEnds

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
    from .phases.question_channel import agents_questions

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
        if not is_elsewhere(store):
            return None
        store = open_sessions(store=store)
    return cast("PostgresStore", store) if hasattr(store, "question_store") else None


def build_runner(
    base_path: Path | str | None = None,
    *,
    observer: RunObserver | None = None,
    **options: Unpack[SessionOptions],
) -> WorkflowRunner:
    """Build a runner of workflows whose phases run in the sandbox or in a jail.

    Args:
        base_path: The sessions' directory; the project's, as the commands have it, if None.
        observer: Observes the runs, or None; what it raises ends a run.
        **options: See `SessionOptions`.

    Raises:
        UnknownExecutor: There is no such isolation.
    """
    return build_agent_runner(
        manager=build_manager(base_path, **options),
        observer=observer,
        policy=options.get("policy"),
        jail=options.get("jail"),
    )


def build_agent_runner(
    base_path: Path | str | None = None,
    *,
    manager: SessionManager | None = None,
    gates: GateSandbox | None = None,
    allowed: WorkerConfiguration | None = None,
    channel: QuestionChannel | None = None,
    observer: RunObserver | None = None,
    answers_timeout_s: float = 0.0,
    monotonic: Callable[[], float] = time.monotonic,
    **options: Unpack[SessionOptions],
) -> WorkflowRunner:
    """Build a runner of agents' work whose gates run in the sandbox.

    Args:
        base_path: The sessions' directory; the project's, as the commands have it, if None.
        manager: Leads the sessions, and asks a person through its own channel; a new one at
            `base_path` if None.
        gates: Where gates run; the sandbox if None.
        allowed: What of the agents that sessions name is allowed and given to them; what the
            sessions say if None.
        channel: How the new manager asks a person, as `QuestionSessionChannel`; without one a run
            pauses where a person is needed.
        observer: Observes the runs, or None; what it raises ends a run.
        answers_timeout_s: How long to wait for a person's answers before the session pauses for
            them, in seconds.
        monotonic: The clock that agents are timed with.
        **options: See `SessionOptions`; of gates, and of agents that edit in place, are `policy`
            and `jail`.

    Raises:
        ValueError: What a manager has of its own was given beside one.
    """
    own: list[str] = [name for name in ("observers", "briefing_shows") if name in options]
    own += [] if channel is None else ["channel"]
    if manager is not None and own:
        raise ValueError(f"{', '.join(own)}: the manager's own; give it to SessionManager")
    from ..workflows import RunObserver, WorkflowRunner
    from .gates.gate_jail import JailGates
    from .gates.gate_sandbox import SandboxGates

    if manager is None:
        opened = opened_sessions(base_path, options.get("store"))
        manager = SessionManager(
            opened,
            channel=channel,
            snapshots=Lazy(partial(open_snapshots, opened, options.get("objects"))),
            **_observed(options),
        )
    jail = options.get("jail")
    if gates is None:
        wheels = None if allowed is None else allowed.repositories
        gates = SandboxGates(options.get("policy"), wheels=wheels)
    return WorkflowRunner(
        manager,
        gates,
        commands=JailGates(jail),
        agents=partial(build_agent, manager.store, jail=jail, allowed=allowed),
        editing_agents=partial(build_editing_agent, manager.store, jail=jail, allowed=allowed),
        observer=RunObserver() if observer is None else observer,
        answers_timeout_s=answers_timeout_s,
        monotonic=monotonic,
    )


def build_agent(
    store: LocalSessions,
    choice: AgentChoice,
    *,
    jail: JailPolicy | None = None,
    allowed: WorkerConfiguration | None = None,
) -> PhaseAgent:
    """Build an agent that answers with text.

    Args:
        store: Where the sessions are.
        choice: Who it is.
        jail: What it may use and see where it is run in a jail; the jail's default if None.
        allowed: What a worker allows; None: it is run as this process is.

    Raises:
        AgentNotAllowed: The worker does not run it.
        ValueError: It is none that is known.
    """
    from ..workflows.agents.choice import make_agent

    if allowed is None:
        return make_agent(choice)
    from ..workflows.submitted_work import granted

    choice = granted(choice, allowed)
    if not allowed.agent_jail:
        return make_agent(choice)
    from ..agents.running.jailed_programs import JailedPrograms

    private = (Path(os.path.abspath(store.base_path)),)
    return make_agent(
        choice,
        runner=JailedPrograms(jail, network=choice.network, private=private),
        environment={name: os.environ[name] for name in choice.environment if name in os.environ},
    )


def build_editing_agent(
    store: LocalSessions,
    choice: AgentChoice,
    *,
    jail: JailPolicy | None = None,
    allowed: WorkerConfiguration | None = None,
) -> PhaseAgent:
    """Build an agent that edits in place, in a jail; recorded answers are taken as they are.

    Args:
        store: Where the sessions are.
        choice: Who it is: a command, a program by its name, or recordings.
        jail: What it may use and see besides; the jail's default if None. Whether it has the
            network says `choice` alone.
        allowed: What a worker allows and gives it, whatever `choice` says; all of that if None.

    Raises:
        AgentNotAllowed: The worker does not run it.
        ValueError: It can't edit, as an endpoint, or its command is none.
    """
    from ..agents.running.agent_jail import JailedAgent
    from ..workflows.agents.choice import make_agent

    if allowed is not None:
        from ..workflows.submitted_work import granted

        choice = granted(choice, allowed)
    if choice.kind in {"command", "program"}:
        return JailedAgent(store, choice, jail, shows_named=allowed is None)
    if choice.kind == "recorded":
        return make_agent(choice)
    raise ValueError(f"agent: {choice.kind} can't edit files in place; name a command")
