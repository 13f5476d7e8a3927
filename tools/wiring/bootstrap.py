"""The composition root: constructs adapters and connects them to the ports they implement.

Every entry point calls it. A package is imported when the first function needs it.

The module is long because it is the only place that constructs adapters.
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
from .phases.executors import ExecutorParameters, make_executor

if TYPE_CHECKING:
    from ..base.cancellation import CancelToken
    from ..base.settings.configuration import Configuration
    from ..base.settings.worker_configuration import WorkerConfiguration
    from ..fleet.objects.pack_index import PackIndex
    from ..fleet.postgres.store import PostgresStore
    from ..harness import QuestionChannel, SessionObserver
    from ..harness.session_ports import LocalSessions
    from ..jail import JailPolicy
    from ..questions import Config, QuestionSessions
    from ..sandbox import ExecutionPolicy
    from ..workflows import AgentChoice, PhaseAgent, RunObserver, WorkflowRunner
    from ..workflows.gate_port import GateSandbox
    from .workspaces.session_results import SessionResults as SessionResults  # noqa: PLC0414 (entry points name it)
    from .workspaces.session_snapshots import SessionSnapshots


class SessionOptions(TypedDict, total=False):
    """Options of a manager's or a runner's sessions, each of which may be omitted.

    Attributes:
        store: The sessions' store, if not this project's files: an open one, or an address for
            `fleet.stores.open_sessions`.
        objects: The object store of their workspaces; see `open_snapshots`.
        policy: Limits and environment of code in the sandbox that names none; the sandbox's default
            if None.
        isolation: What runs scripts: "sandbox", "jail" for any language, natively, or the name of
            an installed plugin's executor.
        jail: Limits and visible paths of jailed commands; the jail's default if None.
        observers: Observers of the sessions' events; see `harness.SessionObserver`.
        briefing_shows: See `SessionManager`.
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
    snapshots: bool = True,
    channel: QuestionChannel | Lazy[QuestionChannel] | None = None,
    executor: PhaseExecutor | None = None,
    cache_bytes: int | None = None,
    repositories: Collection[Path] | None = None,
    **options: Unpack[SessionOptions],
) -> SessionManager:
    """Build a manager whose phases run in the sandbox or in a jail, and which can ask a person.

    Args:
        base_path: The sessions' directory; if None the project's, as for the commands.
        questions_dir: The question sessions' directory; the configured one if None.
        snapshots: Whether each checkpoint saves the workspace; none does without git.
        channel: Asks a person; the configured channel if None.
        executor: Runs phases; the one that `isolation` names if None.
        cache_bytes: See `open_snapshots`, also for `repositories`.
        repositories: The folders whose repositories sessions may start from; any if None.
        **options: See `SessionOptions`.

    Raises:
        UnknownExecutor: The isolation is unknown.
    """
    sessions = opened_sessions(base_path, options.get("store"))
    if executor is None:
        settings = ExecutorParameters(policy=options.get("policy"), jail=options.get("jail"))
        executor = make_executor(options.get("isolation", "sandbox"), sessions, settings)
    kept = partial(open_snapshots, sessions, options.get("objects"), cache_bytes, repositories)
    return SessionManager(
        sessions,
        executor=executor,
        channel=channel or Lazy(lambda: agents_channel(questions_dir, store=sessions)),
        snapshots=Lazy(kept) if snapshots else None,
        **_observed(options),
    )


def _observed(options: SessionOptions) -> dict[str, Any]:
    """Return a manager's observers, and the parts that its briefings show."""
    shows = options.get("briefing_shows", DEFAULT_PARTS)
    return {"observers": options.get("observers", ()), "briefing_shows": shows}


def opened_sessions(
    base_path: Path | str | None, store: LocalSessions | str | None
) -> LocalSessions:
    """Return a store: the given one, or the one of an address or a directory."""
    if store is None or isinstance(store, str):
        return open_sessions(base_path, store=store)
    return store


def open_snapshots(
    store: LocalSessions,
    objects: str | None = None,
    cache_bytes: int | None = None,
    repositories: Collection[Path] | None = None,
) -> SessionSnapshots:
    """Open the snapshots of a store's workspaces; git is looked up on first use.

    Args:
        store: The sessions.
        objects: The address of the object store that brings workspaces to other machines, if the
            sessions are in a database; see `fleet.objects.open_objects`.
        cache_bytes: How many bytes of sessions this machine retains before it removes those that
            are in the object store and ended or are worked on elsewhere; 20 GiB if None.
        repositories: The folders whose repositories sessions may start from; any if None.

    Raises:
        ObjectStoreError: The object store can't be used.
    """
    from .workspaces.session_snapshots import SessionSnapshots

    index = pack_index_of(store)
    if index is None:
        return SessionSnapshots(store, repositories=repositories)
    from ..fleet.objects import open_objects
    from ..fleet.objects.workspace_packs import WorkspacePacks

    opened = None if objects is None else open_objects(objects)
    packs = WorkspacePacks(index, opened, store.base_path)
    bounds: dict[str, Any] = {} if cache_bytes is None else {"cache_bytes": cache_bytes}
    return SessionSnapshots(store, packs=packs, repositories=repositories, **bounds)


def pack_index_of(store: LocalSessions) -> PackIndex | None:
    """Return the index of a store's workspace packs; None if machines do not share workspaces."""
    from ..fleet.objects.pack_index import KeepsPacks

    return store.pack_index() if isinstance(store, KeepsPacks) else None


@contextmanager
def begun_files(
    store: LocalSessions, attachments: Mapping[str, bytes]
) -> Iterator[tuple[Path, str] | None]:
    """Yield the repository files a new session starts from, and the session that owns them.

    Args:
        store: The future session's store.
        attachments: The future session's attachments; without a repository, None is yielded.
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
    """Return the limits and visible paths of jailed commands from a project's configuration.

    Args:
        configuration: The configuration; None is returned if it has no section on jails.
        environment: The source of the variables it names; unset ones are omitted.

    Raises:
        InvalidJail: It asks for something a jail does not support.
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
    """Check that the configured jail has the program of the gate's command; return its name.

    The command is not run. A program of the workspace, such as `./test.sh`, is not looked up.

    Raises:
        GateUnavailable: No jail can be created, or it can't have the program.
        InvalidJail: The configuration asks for something a jail does not support.
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
    """Remove the refs in people's repositories that belong to sessions deleted by a prune."""
    open_snapshots(store).forget_deleted()


def try_objects(url: str) -> tuple[str, float]:
    """Write an object, read it and remove it; return the store's name and the seconds it took.

    Raises:
        ObjectStoreError: The store can't be used; the error says why.
    """
    from ..fleet.objects import open_objects
    from ..fleet.objects.objects import try_store

    objects = open_objects(url)
    started = time.monotonic()
    try_store(objects)
    return objects.name, time.monotonic() - started


def session_results(store: LocalSessions, objects: str | None = None) -> SessionResults:
    """Return what applies the results of a store's sessions to a person's checkout.

    Args:
        store: The sessions.
        objects: See `open_snapshots`.
    """
    from .workspaces.session_results import SessionResults

    return SessionResults(open_snapshots(store, objects))


def agents_channel(
    directory: Path | str | None = None, *, store: LocalSessions | str | None = None
) -> QuestionChannel:
    """Return the channel of sessions' questions, which notifies the person of each question.

    Args:
        directory: The question sessions' directory; see `open_questions`.
        store: Where the agent sessions are; see `open_questions`.

    Raises:
        InvalidConfig: The configuration can't be used.
    """
    from ..questions import Notifier, load_config
    from .phases.question_channel import QuestionSessionChannel

    sessions = open_agents_questions(None if directory is None else Path(directory), store=store)
    notifier = Notifier(load_config().notify, sessions.where, terminal=sys.stderr)
    return QuestionSessionChannel(sessions, notify=notifier.notify)


def isolation_of(store: LocalSessions, session_id: str) -> str:
    """Return where a session's scripts run; the sandbox if no workflow can be read.

    Raises:
        HarnessError: The store does not answer; the same call may succeed later.
    """
    from ..harness import HarnessError
    from ..workflows.job import Job

    try:
        return Job.of_session(store, session_id).workflow.isolation
    except HarnessError as error:
        if error.retryable:
            raise
        return "sandbox"


def build_executor(
    store: LocalSessions, cancel: CancelToken | None = None, *, lasting: bool = False
) -> PhaseExecutor:
    """Build the executor of one call's or program's code in the sandbox; `cancel` stops it.

    Args:
        store: The sessions.
        cancel: Stops the code.
        lasting: Whether the code goes on with the variables of the session's earlier code.
    """
    if lasting:
        from .phases.lasting_executor import LastingExecutor

        return LastingExecutor(store, kept=0, cancel=cancel)
    from .phases.sandbox_executor import SandboxPhaseExecutor

    return SandboxPhaseExecutor(store, kept=0, cancel=cancel)


def open_questions(
    directory: Path | str | None = None,
    *,
    store: LocalSessions | str | None = None,
    config: Config | None = None,
    **given: Any,
) -> QuestionSessions:
    """Open the question sessions; questions of agent sessions that have ended are withdrawn.

    Args:
        directory: Their directory; if None, the database of `store`, else the configured directory.
        store: The agent sessions' store: an open one, or an address for
            `fleet.stores.open_sessions`.
        config: The configuration; read if None.
        **given: More arguments of `QuestionSessions`, such as a clock.

    Raises:
        InvalidConfig: The configuration can't be used.
        ExtraMissing: The store is a database, and its packages are not installed.
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
    """Open the question sessions with the limits for agents' questions.

    See `open_questions` for the arguments and errors.
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
    """Return the database that holds its sessions' questions; None if files hold them."""
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
        base_path: The sessions' directory; if None the project's, as for the commands.
        observer: Observes the runs, or None; an exception it raises ends the run.
        **options: See `SessionOptions`.

    Raises:
        UnknownExecutor: The isolation is unknown.
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
        base_path: The sessions' directory; if None the project's, as for the commands.
        manager: Leads the sessions, and asks a person through its own channel; a new one at
            `base_path` if None.
        gates: Runs gates; the sandbox if None.
        allowed: Which agents that sessions name may run, and what they are given; None trusts the
            sessions.
        channel: How the new manager asks a person, as `QuestionSessionChannel`; without one a run
            pauses when it needs a person.
        observer: Observes the runs, or None; an exception it raises ends the run.
        answers_timeout_s: How long to wait for a person's answers before the session pauses, in
            seconds.
        monotonic: The clock that times agents.
        **options: See `SessionOptions`; `policy` and `jail` apply to gates and to agents that edit
            in place.

    Raises:
        ValueError: An option of a new manager was given together with `manager`.
    """
    own: list[str] = [name for name in ("observers", "briefing_shows") if name in options]
    own += [] if channel is None else ["channel"]
    if manager is not None and own:
        raise ValueError(f"{', '.join(own)}: the manager's own; give it to SessionManager")
    from ..agents.run_limits import SpendingLimits
    from ..workflows import RunObserver, WorkflowRunner
    from .gates.gate_jail import JailGates
    from .gates.gate_sandbox import SandboxGates

    if manager is None:
        opened = opened_sessions(base_path, options.get("store"))
        manager = SessionManager(
            opened,
            executor=build_executor(opened),
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
        limits=SpendingLimits(manager.store.base_path),
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
        store: The sessions' store.
        choice: The agent.
        jail: Limits and visible paths if it runs in a jail; the jail's default if None.
        allowed: What the worker allows; None runs the agent as this process runs programs.

    Raises:
        AgentNotAllowed: The worker does not run this agent.
        ValueError: The agent is unknown.
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
    """Build an agent that edits in place, in a jail; recorded answers need none.

    Args:
        store: The sessions' store.
        choice: The agent: a command, a program by its name, or recordings.
        jail: More limits and visible paths; the jail's default if None. `choice` alone decides
            about the network.
        allowed: What the worker allows and gives the agent, overriding `choice`; None allows all.

    Raises:
        AgentNotAllowed: The worker does not run this agent.
        ValueError: The agent can't edit, such as an endpoint, or its command is not valid.
    """
    from ..agents.running.agent_jail import JailedAgent
    from ..workflows.agents.choice import make_agent

    if allowed is not None:
        from ..workflows.submitted_work import granted

        choice = granted(choice, allowed)
    if choice.kind in {"command", "program"}:
        return JailedAgent(store, choice, jail, own=allowed is None)
    if choice.kind == "recorded":
        return make_agent(choice)
    raise ValueError(f"agent: {choice.kind} can't edit files in place; name a command")
