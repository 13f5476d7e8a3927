"""What every command is given: the sessions' directory, the output, and the environment."""

from __future__ import annotations

import os
import shlex
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from attrs import field, frozen

from ...base.clock import Clock, utc_now
from ...base.errors import AgentForgeError
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
    from ...integrations.observers.observing import ConfiguredObservers
    from ...jail import JailPolicy
    from ...workflows.gate_port import GateSandbox

BASE_VARIABLE = "AGENTFORGE_BASE"
"""The environment variable that names the directory of the sessions."""
STORE_VARIABLE = "AGENTFORGE_STORE"
"""The environment variable that names the store of the sessions."""
DIRECT_VARIABLE = "AGENTFORGE_STORE_DIRECT"
"""That of the database server itself, where the store's address is a connection pooler."""
OBJECTS_VARIABLE = "AGENTFORGE_OBJECTS"
"""The environment variable that names the object store of the workspaces."""

_DESPITE_FAULTS = frozenset({"doctor", "init"})
"""Commands that work with a faulty configuration: they show it, or write a new one."""
_REPEATS = 3
"""How often a person's command is repeated after another process changed the session."""


@frozen
class Outside:
    """The clocks, the pause and what runs phases, replaceable.

    Attributes:
        clock: The time now, aware.
        sleep: Waits for so many seconds.
        monotonic: The clock that agents are timed with.
        executor: What runs phases; the sandbox if None.
        gates: Where gates run; the sandbox if None.
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
        base: Where the sessions are, or None for the default place in the working directory.
        output: Where output goes.
        verbose: Whether events are logged to standard error.
        objects_url: The object store of the workspaces, or None: they stay on this machine.
        outside: The clock and the pause.
        base_given: Whether the base was given, and not searched for.
        configured: The project's configuration, why it can't be used, or None where it has none.
        store_url: The store of the sessions, or None: they are in the base's files.
        store_given: Whether the store was given on the command line.
        opened: What is closed when the command ends.
        submission: How sessions are submitted to the fleet instead of being run here, or None.
        labels: The title, tags and metadata that a session is begun with, or None.
    """

    base: Path | None
    output: Output
    verbose: bool = False
    objects_url: str | None = None
    outside: Outside = field(factory=Outside)
    base_given: bool = True
    configured: Configuration | AgentForgeError | None = None
    store_url: str | None = field(default=None, repr=False)
    store_given: bool = False
    opened: ExitStack = field(factory=ExitStack)
    _store: list[LocalSessions] = field(factory=list, init=False, repr=False)
    _observers: list[ConfiguredObservers] = field(factory=list, init=False, repr=False)
    submission: Submission | None = None
    labels: SessionLabels | None = None

    @property
    def usable(self) -> Configuration | None:
        """The project's configuration, or None where there is none or it can't be used."""
        return None if isinstance(self.configured, AgentForgeError) else self.configured

    @property
    def configuration(self) -> Configuration:
        """What the project's configuration says; the defaults where there is none.

        Raises:
            InvalidConfiguration: It can't be used.
        """
        from ...base.settings.configuration import Configuration

        if isinstance(self.configured, AgentForgeError):
            raise self.configured
        return self.configured if self.configured is not None else Configuration()

    def named_store(self) -> str | None:
        """Return the store as a command line has to name it, without a password.

        None where a variable or the configuration says it already.
        """
        if not self.store_url or not self.store_given:
            return None
        if os.environ.get(STORE_VARIABLE) == self.store_url:
            return None
        from ...fleet.stores import is_database, without_password

        if not is_database(self.store_url):
            return without_password(self.store_url)
        from ...fleet.opening import for_command_line

        return for_command_line(self.store_url)

    def store(self) -> LocalSessions:
        """Return the sessions of the store, with the base as their place on this machine.

        Where they are submitted, each save hands the session to the fleet. They are closed when the
        command ends.
        """
        if not self._store:
            store = self._opened_store()
            self.opened.callback(store.close)
            self._store.append(store)
        return self._store[0]

    def _opened_store(self) -> LocalSessions:
        if self.submission is not None and self.store_url is not None:
            from ...wiring.fleet import open_submitting

            return open_submitting(
                self.store_url, self.base, self.submission, direct=self.store_direct
            )
        from ...fleet.stores import open_sessions

        return open_sessions(self.base, store=self.store_url, direct=self.store_direct)

    def sessions_brought(self) -> LocalSessions | None:
        """Return the sessions that came with the repository, where the command's are elsewhere."""
        from .default_sessions import sessions_brought

        return sessions_brought(self.base, named=self.base_given or bool(self.store_url))

    @property
    def store_direct(self) -> str | None:
        """The database server itself, where the store's address is a connection pooler."""
        named = os.environ.get(DIRECT_VARIABLE)
        if named or self.usable is None or self.usable.store.url != self.store_url:
            return named or None
        return self.usable.store.direct

    @property
    def in_database(self) -> bool:
        """Whether the sessions are in a database, and not in the base's files."""
        from ...fleet.stores import is_database

        return is_database(self.store_url)

    def observers(self) -> Sequence[SessionObserver]:
        """Return what the configuration tells others by; it is closed when the command ends."""
        if not self._observers:
            configured = self.usable
            if configured is None or not configured.names_observers:
                return ()
            from ...integrations.observers.observing import configured_observers

            opened = configured_observers(configured, self.store)
            self.opened.callback(opened.close)
            self._observers.append(opened)
        return self._observers[0].observers

    def manager(self) -> SessionManager:
        """Return a manager without a session that runs no code and asks nothing."""
        return self._manager()

    def keeping_manager(
        self, channel: QuestionChannel | None = None, executor: PhaseExecutor | None = None
    ) -> SessionManager:
        """Return a manager that keeps workspaces at checkpoints, and brings them back."""
        from ...harness.lazy import Lazy
        from ...wiring.bootstrap import open_snapshots

        snapshots = Lazy(lambda: open_snapshots(self.store(), self.objects_url))
        return self._manager(channel=channel, executor=executor, snapshots=snapshots)

    def working_manager(self, isolation: str = "sandbox") -> SessionManager:
        """Return a manager without a session, that can run phases.

        Args:
            isolation: The executor of scripts, by its name.
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

    def _manager(self, **adapters: Any) -> SessionManager:
        from ...harness import SessionManager

        return SessionManager(
            self.store(),
            clock=self.outside.clock,
            observers=self.observers(),
            briefing_shows=self.briefing_shows,
            **adapters,
        )

    @property
    def briefing_shows(self) -> tuple[str, ...]:
        """What briefings show, as the configuration says; the default where that can't be used."""
        from ...base.settings.choices import DEFAULT_PARTS

        return DEFAULT_PARTS if self.usable is None else self.usable.briefing.shows

    def jail(self) -> JailPolicy | None:
        """Return what commands in a jail may use and see, where the configuration says it."""
        from ...wiring.bootstrap import configured_jail

        return configured_jail(self.configuration)

    def command(self, *words: str) -> str:
        """Return a command line that selects the same sessions as this one; no password is in it.

        What a variable or the configuration says already, it does not repeat.
        """
        start = ["agentforge"]
        said = self.base_given and self.base is not None
        if said and os.environ.get(BASE_VARIABLE) != str(self.base):
            start += ["--base", str(self.base)]
        store = self.named_store()
        if store is not None:
            start += ["--store", store]
        return shlex.join([*start, *words])

    def load(
        self, shortened: str, *, manager: SessionManager | None = None
    ) -> tuple[SessionManager, SessionContext]:
        """Load a session by its id or a part of it, with a manager of `manager()` by default.

        Raises:
            SessionNotFound: There is none.
            AmbiguousId: There are several.
            SessionCorrupted: Its file is no session.
        """
        from ...harness import SessionNotFound

        manager = manager if manager is not None else self.manager()
        session_id = manager.store.resolve(shortened)
        session = manager.load(session_id)
        if session is None:
            raise SessionNotFound(session_id, path=manager.store.where)
        return manager, session

    def own_id(self, shortened: str) -> str:
        """Return the id of a session of this person's, by it or a part of it.

        Raises:
            SessionNotFound: There is none.
            AmbiguousId: There are several.
            SessionNotAdopted: It is not this person's.
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
            SessionConflict: Another process changed it first each time.
        """
        from ...harness.services.session_recording import despite_conflicts

        manager, session = self.load(shortened)

        def reload() -> bool:
            manager.reload()  # in place: `session` is as it is on disk
            return True

        despite_conflicts(lambda: act(manager), again=reload, attempts=_REPEATS + 1)
        return manager, session


def cli_of(context: typer.Context, *, json: bool = False) -> Cli:
    """Return the global options, with the command's own `--json` applied.

    Raises:
        InvalidConfiguration: The configuration can't be used, and the command does not do without.
    """
    root = context.find_root()
    cli = root.obj
    assert isinstance(cli, Cli)  # noqa: S101 (the callback of the application made it)
    fault = cli.configured
    if isinstance(fault, AgentForgeError) and root.invoked_subcommand not in _DESPITE_FAULTS:
        raise fault
    cli.output.json = cli.output.json or json
    return cli
