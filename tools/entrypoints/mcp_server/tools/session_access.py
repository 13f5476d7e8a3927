"""How calls reach the sessions of one store: read them, or change one in turn."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from typing import Final, TypeVar

from attrs import field, frozen

from ....base.clock import Clock, utc_now
from ....base.settings.choices import DEFAULT_PARTS
from ....harness import (
    PhaseExecutor,
    SessionContext,
    SessionManager,
    SessionNotFound,
    SessionObserver,
)
from ....harness.lazy import Lazy
from ....harness.services.session_recording import despite_conflicts
from ....harness.session_ports import LocalSessions, require_own
from ....harness.snapshot_port import WorkspaceSnapshots
from ..calls import Call, Workers
from ..results import SessionStateResult

_Result = TypeVar("_Result")

_REPEATS: Final = 12
"""How often a change is repeated after another process changed the session.

Agents call tools in parallel, and several servers may lead one session: of 1,290 changes, made 10
to 16 at once, 3 were overtaken four times in a row."""
_FIRST_PAUSE_S: Final = 0.002
_LONGEST_PAUSE_S: Final = 0.1
"""The longest pause before a change is repeated, at first and at the most, in seconds."""


@frozen(kw_only=True)
class SessionAccess:
    """The sessions of one store, as the tools of one server use them.

    Each call leads its session with a manager of its own, so that calls and clients never share
    one. Calls that change one session run one after the other; what a call says explicitly holds
    for the session as it is then, so it is repeated when another process was faster.

    Attributes:
        store: The sessions.
        workers: Run what blocks, and hold the turns at each session.
        snapshots: Keeps workspaces at checkpoints; none is kept without it.
        clock: The time.
        observers: Observe what happens to the sessions.
        briefing_shows: As of `SessionManager`.
        sleep: Pauses a worker thread for so many seconds.
        chance: Gives numbers from 0 to 1, so that those who met once don't meet again.
    """

    store: LocalSessions
    workers: Workers = field(factory=Workers)
    snapshots: Lazy[WorkspaceSnapshots] | None = None
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
            clock=self.clock,
            observers=self.observers,
            briefing_shows=self.briefing_shows,
        )

    def lead(
        self, session_id: str, executor: PhaseExecutor | None = None
    ) -> tuple[SessionManager, SessionContext]:
        """Return a manager that leads a session, and the session.

        Raises:
            SessionNotFound: There is none of this id.
            SessionNotAdopted: It is not this person's: nothing of it goes to an agent.
        """
        manager = self.manager(executor)
        session = manager.load(session_id)
        if session is None:
            raise SessionNotFound(session_id, path=self.store.where)
        require_own(self.store, session_id)
        return manager, session

    async def change(
        self, call: Call, session_id: str, act: Callable[[SessionManager], _Result]
    ) -> tuple[SessionContext, _Result]:
        """Change a session when it is this call's turn; again if another process was faster.

        Args:
            call: The call, which reports that it waits.
            session_id: The session; no other one is touched.
            act: Makes the change with a manager that leads the session.

        Raises:
            SessionNotFound: There is none of this id.
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
        """Pause at each step, each time longer at the most."""
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
        """Describe a session; the workspace of one that goes on is there from then on."""
        workspace = self.store.workspace_path(session.session_id)
        if not session.state.is_terminal:
            with suppress(OSError):  # a client looks for it; code makes it, too
                workspace.mkdir(0o700, exist_ok=True)
        shown = SessionStateResult.model_validate(session)
        return shown.model_copy(update={"workspace": str(workspace)})
