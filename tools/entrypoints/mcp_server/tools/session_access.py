"""Access of calls to the project's folders and to one store's sessions.

Sessions are read, or changed one change at a time; no folder outside the project can be named.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, TypeVar

from attrs import field, frozen

from ....base.clock import Clock, utc_now
from ....base.settings.choices import DEFAULT_PARTS
from ....base.settings.configuration import NO_REPOSITORY, RepositoryConfiguration
from ....base.settings.privacy import read_privacy
from ....harness import (
    PhaseExecutor,
    QuestionChannel,
    SessionContext,
    SessionManager,
    SessionNotFound,
    SessionObserver,
)
from ....harness.lazy import Lazy
from ....harness.services.session_recording import despite_conflicts
from ....harness.session_ports import LocalSessions, require_own
from ....harness.snapshot_port import WorkspaceSnapshots
from ....harness.views.briefing import DEFAULT_MAX_TOKENS
from ..calls import Call, Workers
from ..errors import InvalidArguments, OutsideProject
from ..results import SessionStateResult

_Result = TypeVar("_Result")

_REPEATS: Final = 12
"""How many times a change is repeated after another process changed the session.

Agents call tools in parallel, and several servers may lead one session: of 1,290 changes, 10 to 16
at a time, 3 were overtaken four times in a row."""
_FIRST_PAUSE_S: Final = 0.002
_LONGEST_PAUSE_S: Final = 0.1
"""The longest pause before a change is repeated, in seconds: at first, and the upper limit."""


@frozen(kw_only=True)
class SessionAccess:
    """Sessions of one store, as the tools of one server use them.

    Each call leads its session with a separate manager, so that calls and clients never share one.
    Calls that change one session run one after the other. An explicit call applies to the session's
    current state, so it is repeated if another process changed the session first.

    Attributes:
        store: The sessions.
        workers: Run blocking work, and hold the turns at each session.
        snapshots: Saves workspaces at checkpoints; without it, none is saved.
        channel: Asks a person what code asks; without it, such code can't go on.
        clock: Returns the current time.
        observers: Observe the sessions.
        briefing_shows: As for `SessionManager`.
        sleep: Pauses a worker thread for a number of seconds.
        chance: Returns random numbers from 0 to 1, so that colliding calls don't collide again.
    """

    store: LocalSessions
    workers: Workers = field(factory=Workers)
    snapshots: Lazy[WorkspaceSnapshots] | None = None
    channel: Lazy[QuestionChannel] | None = None
    clock: Clock = utc_now
    observers: Sequence[SessionObserver] = ()
    briefing_shows: Collection[str] = DEFAULT_PARTS
    sleep: Callable[[float], None] = time.sleep
    chance: Callable[[], float] = random.random

    def manager(self, executor: PhaseExecutor | None = None) -> SessionManager:
        """Return a new manager, which leads no session yet."""
        return SessionManager(
            self.store,
            executor=executor,
            snapshots=self.snapshots,
            channel=self.channel,
            clock=self.clock,
            observers=self.observers,
            briefing_shows=self.briefing_shows,
        )

    def lead(
        self, session_id: str, executor: PhaseExecutor | None = None
    ) -> tuple[SessionManager, SessionContext]:
        """Return a manager that leads a session, and the session.

        Raises:
            SessionNotFound: There is no session of this id.
            SessionNotAdopted: The session is not this person's: nothing of it goes to an agent.
        """
        manager = self.manager(executor)
        session = manager.load(session_id)
        if session is None:
            raise SessionNotFound(session_id, path=self.store.where)
        require_own(self.store, session_id)
        return manager, session

    def briefing(
        self, session_id: str, max_tokens: int = DEFAULT_MAX_TOKENS
    ) -> tuple[SessionContext, str]:
        """Return a session and its briefing, with what may go to any program.

        Raises:
            SessionNotFound: There is no session of this id.
            SessionNotAdopted: The session is not this person's: nothing of it goes to an agent.
        """
        from ....agents.hooks.messages import known_work

        manager, session = self.lead(session_id)
        may_show = read_privacy(None)
        work = known_work(self.store, session, may_show)
        return session, manager.briefing(max_tokens, may_show=may_show, **work)

    async def change(
        self, call: Call, session_id: str, act: Callable[[SessionManager], _Result]
    ) -> tuple[SessionContext, _Result]:
        """Change a session when it is this call's turn; repeat if another process was faster.

        Args:
            call: The call, which reports that it waits.
            session_id: The session; no other one is touched.
            act: Makes the change with a manager that leads the session.

        Raises:
            SessionNotFound: There is no session of this id.
            SessionConflict: Other processes were faster each time; nothing was written.
        """

        def once() -> tuple[SessionContext, _Result]:
            manager, session = self.lead(session_id)
            return session, act(manager)

        def work() -> tuple[SessionContext, _Result]:
            return despite_conflicts(once, again=self._pauses().__next__, attempts=_REPEATS + 1)

        return await self.in_turn(call, session_id, work)

    async def in_turn(self, call: Call, session_id: str, work: Callable[[], _Result]) -> _Result:
        """Do short blocking work on a session when it is this call's turn."""
        async with self.workers.turn(call, session_id):
            return await self.workers.quick(work)

    def _pauses(self) -> Iterator[bool]:
        """Pause at each step, with a growing upper limit."""
        longest_s = _FIRST_PAUSE_S
        while True:
            self.sleep(longest_s * self.chance())
            longest_s = min(2 * longest_s, _LONGEST_PAUSE_S)
            yield True

    async def state_after(
        self, call: Call, session_id: str, act: Callable[[SessionManager], object]
    ) -> SessionStateResult:
        """Change a session as `change` does, and return its state."""
        session, _ = await self.change(call, session_id, act)
        return self.state(session)

    def state(self, session: SessionContext) -> SessionStateResult:
        """Describe a session; create its workspace if it has not ended."""
        workspace = self.store.workspace_path(session.session_id)
        if not session.state.is_terminal:
            with suppress(OSError):  # clients look for it; running code creates it too
                workspace.mkdir(0o700, exist_ok=True)
        shown = SessionStateResult.model_validate(session)
        return shown.model_copy(update={"workspace": str(workspace)})


@frozen(kw_only=True)
class ProjectFolder:
    """Folder of a project, and how its sessions begin from a repository.

    Attributes:
        path: The folder, absolute.
        repository: The project's configuration of the repository.
    """

    path: Path
    repository: RepositoryConfiguration = field(factory=RepositoryConfiguration)

    def base_of(
        self, repo: str | None, base: str | None, *, with_uncommitted: bool
    ) -> RepositoryConfiguration:
        """Return how a session that a client requested begins from a repository.

        Raises:
            OutsideProject: The client named a repository elsewhere.
            InvalidArguments: The client named a base, but there is no repository.
        """
        named = None if repo is None else Path(repo)
        if repo is not None and named != NO_REPOSITORY:
            named = self.inside(repo)
        found = self.repository.asked_for(named, base, with_uncommitted=with_uncommitted)
        if not found.use and (base is not None or with_uncommitted):
            raise InvalidArguments(
                "session_create", ["base and with_uncommitted: are of a repository; name one"]
            )
        return found

    def inside(self, given: str) -> Path:
        """Return the path of a folder that a client named.

        Raises:
            OutsideProject: The folder is not in the project, or leads out of it.
        """
        path = Path(given)
        if path.is_absolute() or ".." in path.parts or "\0" in given:
            raise OutsideProject(given, "write it relative to the project, without ..")
        found = self.path / path
        if not Path(os.path.realpath(found)).is_relative_to(os.path.realpath(self.path)):
            raise OutsideProject(given, "a link on its way leads out of the project")
        return found

    def new_folder(self, given: str) -> Path:
        """Return the path of a new folder that a client named; never one that a program may act on.

        Raises:
            OutsideProject: The folder is not in the project, or is hidden.
        """
        found = self.inside(given)
        parts = Path(given).parts
        if not parts or any(part.startswith(".") for part in parts):
            raise OutsideProject(given, "name a new folder, of which no part begins with a dot")
        return found
