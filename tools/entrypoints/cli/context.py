"""Context of every command: the sessions' directory, the output and the environment."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from attrs import evolve, field, frozen

from ...base.clock import Clock, utc_now
from ...base.errors import AgentForgeError
from .options import misuse
from .output.output import Output

if TYPE_CHECKING:
    from ...base.settings.configuration import Configuration
    from ...harness import (
        PhaseExecutor,
        QuestionChannel,
        SessionContext,
        SessionManager,
        SessionObserver,
    )
    from ...harness.domain.session_data import SessionLabels
    from ...harness.session_ports import LocalSessions
    from ...harness.submission import Submission
    from ...jail import JailPolicy
    from ...workflows.gate_port import GateSandbox

BASE_VARIABLE = "AGENTFORGE_BASE"
"""Environment variable that names the sessions' directory."""
STORE_VARIABLE = "AGENTFORGE_STORE"
"""Environment variable that names the sessions' store."""
DIRECT_VARIABLE = "AGENTFORGE_STORE_DIRECT"
"""Environment variable that names the database server behind a connection pooler."""
OBJECTS_VARIABLE = "AGENTFORGE_OBJECTS"
"""Environment variable that names the workspaces' object store."""

_DESPITE_FAULTS = frozenset({"doctor", "init"})
"""Commands that run with an invalid configuration: they show it or write a new one."""
_REPEATS = 3
"""How many times a command is repeated after another process changed the session."""


@frozen
class CliEnvironment:
    """The clocks, the pause and the executors of phases and gates; replaceable.

    Attributes:
        clock: Returns the current time, timezone-aware.
        sleep: Waits for a number of seconds.
        monotonic: The clock that times agents.
        executor: Runs phases; the sandbox if None.
        gates: Runs gates; the sandbox if None.
    """

    clock: Clock = utc_now
    sleep: Callable[[float], None] = time.sleep
    monotonic: Callable[[], float] = time.monotonic
    executor: PhaseExecutor | None = None
    gates: GateSandbox | None = None


@frozen
class Cli:
    """The global options, and the objects that they select.

    Attributes:
        base: The sessions' directory; the default one in the working directory if None.
        output: Where output goes.
        verbose: Whether events are logged to standard error.
        objects_url: The workspaces' object store; they stay on this machine if None.
        outside: The clocks, the pause and the executors.
        base_given: Whether the base was given rather than searched for.
        configured: The project's configuration, the error that makes it unusable, or None if the
            project has none.
        store_url: The sessions' store; the base's files if None.
        store_given: Whether the store was given on the command line.
        opened: Closes its resources when the command ends.
        submission: Submits sessions to the fleet instead of running them here, or None.
        labels: The title, tags and metadata of a new session, or None.
        walls: Whether agents and gates by command run in a jail; see `without_jail`.
    """

    base: Path | None
    output: Output
    verbose: bool = False
    objects_url: str | None = None
    outside: CliEnvironment = field(factory=CliEnvironment)
    base_given: bool = True
    configured: Configuration | AgentForgeError | None = None
    store_url: str | None = field(default=None, repr=False)
    store_given: bool = False
    opened: ExitStack = field(factory=ExitStack)
    submission: Submission | None = None
    labels: SessionLabels | None = None
    walls: bool = True

    @property
    def usable(self) -> Configuration | None:
        """The project's configuration; None if there is none or it can't be used."""
        return None if isinstance(self.configured, AgentForgeError) else self.configured

    @property
    def configuration(self) -> Configuration:
        """The project's configuration; the defaults if there is none.

        Raises:
            InvalidConfiguration: The configuration can't be used.
        """
        from ...base.settings.configuration import Configuration

        if isinstance(self.configured, AgentForgeError):
            raise self.configured
        return self.configured if self.configured is not None else Configuration()

    def named_store(self) -> str | None:
        """Return the store as a command line must name it, without a password.

        Return None if a variable or the configuration already names it.
        """
        if not self.store_url or not self.store_given:
            return None
        if os.environ.get(STORE_VARIABLE) == self.store_url:
            return None
        from ...fleet.stores import is_database, without_password

        if not is_database(self.store_url):
            return without_password(self.store_url)
        from ...fleet.stores import for_command_line

        return for_command_line(self.store_url)

    def store(self) -> LocalSessions:
        """Return the store's sessions, with the base as their directory on this machine.

        If the command submits sessions, each save hands the session to the fleet. The store is
        closed when the command ends.
        """
        return self._store

    @cached_property
    def _store(self) -> LocalSessions:
        url, direct = self.store_url, self.store_direct
        if self.submission is not None and url is not None:
            from ...wiring.fleet import open_submitting

            store = open_submitting(url, self.base, self.submission, direct=direct)
        else:
            from ...fleet.stores import open_sessions

            store = open_sessions(self.base, store=url, direct=direct)
        self.opened.callback(store.close)
        return store

    def sessions_brought(self) -> LocalSessions | None:
        """Return the sessions that came with the repository; None if the command uses those."""
        from .default_sessions import sessions_brought

        return sessions_brought(self.base, named=self.base_given or bool(self.store_url))

    @property
    def store_direct(self) -> str | None:
        """The address of the database server itself, if the store's is a connection pooler."""
        named = os.environ.get(DIRECT_VARIABLE)
        if named or self.usable is None or self.usable.store.url != self.store_url:
            return named or None
        return self.usable.store.direct

    @property
    def in_database(self) -> bool:
        """Whether the sessions are in a database rather than in the base's files."""
        from ...fleet.stores import is_database

        return is_database(self.store_url)

    def observers(self) -> Sequence[SessionObserver]:
        """Return the configured observers; they are closed when the command ends."""
        return self._observers

    @cached_property
    def _observers(self) -> Sequence[SessionObserver]:
        configured = self.usable
        if configured is None or not configured.names_observers:
            return ()
        from ...integrations.observers.observing import configured_observers

        opened = configured_observers(configured, self.store)
        self.opened.callback(opened.close)
        return opened.observers

    def manager(self, **adapters: Any) -> SessionManager:
        """Return a manager without a session; by default it runs no code and asks no questions."""
        from ...harness import SessionManager

        return SessionManager(
            self.store(),
            clock=self.outside.clock,
            observers=self.observers(),
            briefing_shows=self.briefing_shows,
            **adapters,
        )

    def keeping_manager(
        self, channel: QuestionChannel | None = None, executor: PhaseExecutor | None = None
    ) -> SessionManager:
        """Return a manager that saves workspaces at checkpoints and restores them."""
        from ...harness.lazy import Lazy
        from ...wiring.bootstrap import open_snapshots

        snapshots = Lazy(lambda: open_snapshots(self.store(), self.objects_url))
        return self.manager(channel=channel, executor=executor, snapshots=snapshots)

    def program_executor(self) -> PhaseExecutor:
        """Return what runs programs: the sandbox."""
        from ...wiring.bootstrap import build_executor

        return self.outside.executor or build_executor(self.store())

    def working_manager(self, isolation: str = "sandbox") -> SessionManager:
        """Return a manager without a session that can run phases.

        Args:
            isolation: The name of the executor of scripts.
        """
        if self.outside.executor is not None:
            return self.keeping_manager(executor=self.outside.executor)
        from ...wiring.bootstrap import build_manager

        return build_manager(
            store=self.store(),
            objects=self.objects_url,
            isolation=isolation,
            jail=self.jail(),
            observers=self.observers(),
            briefing_shows=self.briefing_shows,
        )

    @property
    def briefing_shows(self) -> tuple[str, ...]:
        """The parts that briefings show; the default if the configuration can't be used."""
        from ...base.settings.choices import DEFAULT_PARTS

        return DEFAULT_PARTS if self.usable is None else self.usable.briefing.shows

    def jail(self) -> JailPolicy | None:
        """Return the limits and visible paths of jailed commands, if any are given."""
        from ...wiring.bootstrap import configured_jail

        found = configured_jail(self.configuration)
        if self.walls:
            return found
        from ...jail import JailPolicy

        return evolve(JailPolicy() if found is None else found, walls=False)

    def without_jail(self, *, said: bool) -> Cli:
        """Return this context for a command with `--no-jail` if `said`, and remark what it means.

        Only a command's own option may say so. Nothing of it is stored: to resume takes the word
        again.

        Raises:
            typer.BadParameter: The work is submitted; workers decide themselves.
        """
        if not said:
            return self
        if self.submission is not None:
            raise misuse("--no-jail", "is never of submitted work; leave it out")
        self.output.remark(
            "not sealed: the agent and the gate's command run as you, without a jail. They can "
            "read, change and send everything that you can."
        )
        return evolve(self, walls=False)

    def command(self, *words: str) -> str:
        """Return a command line, without a password, that selects the same sessions as this one.

        Omits what a variable or the configuration already selects.
        """
        start = ["agentforge"]
        base = str(self.base) if self.base_given and self.base is not None else None
        if base not in (None, os.environ.get(BASE_VARIABLE)):
            start += ["--base", str(self.base)]
        store = self.named_store()
        if store is not None:
            start += ["--store", store]
        return shlex.join([*start, *words])

    def load(
        self, shortened: str, *, manager: SessionManager | None = None
    ) -> tuple[SessionManager, SessionContext]:
        """Load a session by its id or a part of it; `manager()` makes the manager by default.

        Raises:
            SessionNotFound: No session matches.
            AmbiguousId: Several sessions match.
            SessionCorrupted: Its file does not hold a session.
        """
        from ...harness import SessionNotFound

        manager = manager if manager is not None else self.manager()
        session_id = manager.store.resolve(shortened)
        session = manager.load(session_id)
        if session is None:
            raise SessionNotFound(session_id, path=manager.store.where)
        return manager, session

    def own_id(self, shortened: str) -> str:
        """Return the whole id of one of this person's sessions, from the id or a part of it.

        Raises:
            SessionNotFound: No session matches.
            AmbiguousId: Several sessions match.
            SessionNotAdopted: The session is not this person's.
        """
        from ...harness.session_ports import require_own

        store = self.store()
        session_id = store.resolve(shortened)
        require_own(store, session_id)
        return session_id

    def change(
        self, shortened: str, act: Callable[[SessionManager], object]
    ) -> tuple[SessionManager, SessionContext]:
        """Load a session and change it; reload and repeat after a conflict.

        An explicit command applies to the session's current state, so it is repeated up to
        three times.

        Raises:
            SessionConflict: Another process changed the session first each time.
        """
        from ...harness.services.session_recording import despite_conflicts

        manager, session = self.load(shortened)

        def reload() -> bool:
            manager.reload()  # in place: `session` now has the state on disk
            return True

        despite_conflicts(lambda: act(manager), again=reload, attempts=_REPEATS + 1)
        return manager, session


def cli_of(context: typer.Context, *, json: bool = False) -> Cli:
    """Return the global options, with the command's own `--json` applied.

    Raises:
        InvalidConfiguration: The configuration can't be used, and the command needs it.
    """
    root = context.find_root()
    cli = root.obj
    assert isinstance(cli, Cli)  # noqa: S101 (the application's callback created it)
    fault = cli.configured
    if isinstance(fault, AgentForgeError) and root.invoked_subcommand not in _DESPITE_FAULTS:
        raise fault
    cli.output.json = cli.output.json or json
    return cli
