"""One call of a tool: its turn at a session, its progress, and where its work runs.

Everything that may block runs on a worker thread, so that the server answers others meanwhile. A
call whose client cancelled, disconnected or died is cancelled where it stands.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, nullcontext
from typing import Any, Final, TypeVar

import anyio
import anyio.to_thread
from attrs import define, field, frozen
from mcp.server.mcpserver import Context

_Result = TypeVar("_Result")

PROGRESS_INTERVAL_S: Final = 3.0
"""How often a call that waits says that it still does, in seconds.

Clients give up on a call that stays silent; the SDKs' usual limit is 60 seconds, and progress
resets it in those that can.
"""
QUICK_THREADS: Final = 16
CODE_THREADS: Final = 4
"""How many pieces of code run at once; further ones wait for their turn."""

_AT_ONCE: Final = nullcontext()

Call = Context[Any, Any]
"""One call of a tool, as the SDK gives it to those that ask for it in their signature."""


@define
class SessionTurns:
    """A queue for each session, first come first served, within one process and event loop.

    A call that is cancelled while it waits leaves its queue, and a queue without calls is removed.
    Calls of other processes are not in the queue: their changes are kept apart by the session's
    revision.
    """

    _queues: dict[str, deque[anyio.Event]] = field(factory=dict, init=False)

    def waiting(self, session_id: str) -> int:
        """Return how many calls of a session run or wait."""
        return len(self._queues.get(session_id, ()))

    @asynccontextmanager
    async def turn(
        self, session_id: str, *, meanwhile: AbstractAsyncContextManager[None] = _AT_ONCE
    ) -> AsyncIterator[None]:
        """Wait until all earlier calls of the session have ended, then run the block.

        Args:
            session_id: The session that the block changes.
            meanwhile: Is entered while the call waits; not if it need not wait.
        """
        queue = self._queues.setdefault(session_id, deque())
        mine = anyio.Event()
        queue.append(mine)
        if queue[0] is mine:
            mine.set()
        try:
            if not mine.is_set():
                async with meanwhile:
                    await mine.wait()
            yield
        finally:
            queue.remove(mine)
            if queue:
                queue[0].set()
            else:
                del self._queues[session_id]


@define
class CancelScopes:
    """The scopes of what is being done, so that all of it can be ended.

    Attributes:
        stopped: Whether what is done, and what is begun from now on, is cancelled.
    """

    stopped: bool = False
    _open: set[anyio.CancelScope] = field(factory=set, init=False)

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._open)

    def stop(self) -> None:
        """Cancel everything."""
        self.stopped = True
        for scope in self._open:
            scope.cancel()

    @contextmanager
    def scope(self) -> Iterator[anyio.CancelScope]:
        """Run the block in a scope; what comes after the block runs if the scope is cancelled."""
        with anyio.CancelScope() as scope:
            self._open.add(scope)
            if self.stopped:
                scope.cancel()
            try:
                yield scope
            finally:
                self._open.discard(scope)


@frozen(kw_only=True)
class Workers:
    """Threads for what blocks: many for short work, few for code.

    The tools of one server share one of these, and with it the turns at each session.

    Attributes:
        interval_s: How often a call that waits reports it, in seconds.
        sleep: Waits for so many seconds.
        turns: The queue of each session.
    """

    interval_s: float = PROGRESS_INTERVAL_S
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    turns: SessionTurns = field(factory=SessionTurns)
    _quick: anyio.CapacityLimiter = field(factory=lambda: anyio.CapacityLimiter(QUICK_THREADS))
    _code: anyio.CapacityLimiter = field(factory=lambda: anyio.CapacityLimiter(CODE_THREADS))

    async def quick(self, work: Callable[[], _Result]) -> _Result:
        """Do short blocking work. Once it has begun, it is done to its end."""
        return await anyio.to_thread.run_sync(work, limiter=self._quick)

    async def at_once(self, work: Callable[[], _Result]) -> _Result:
        """Do short blocking work on a thread of its own, behind no other work."""
        return await anyio.to_thread.run_sync(work, limiter=anyio.CapacityLimiter(1))

    async def code(self, work: Callable[[], _Result], *, stop: Callable[[], None]) -> _Result:
        """Do work that may be long; if the call is cancelled, `stop` is called at once.

        The work is waited for in any case, so that what it did gets recorded.

        Args:
            work: What to do.
            stop: Makes it end soon; called on the event loop's thread.
        """
        done = False

        async def stop_when_cancelled() -> None:
            try:
                await anyio.sleep_forever()
            finally:
                if not done:
                    stop()

        async with beside(stop_when_cancelled):
            try:
                return await anyio.to_thread.run_sync(work, limiter=self._code)
            finally:
                done = True

    def turn(self, call: Call, session_id: str) -> AbstractAsyncContextManager[None]:
        """Return a block that runs when all earlier calls that change the session have ended.

        The call reports that it waits. If it is cancelled before its turn, it has done nothing.
        """
        waiting = self.reporting(call, f"waiting for earlier calls on session {session_id}")
        return self.turns.turn(session_id, meanwhile=waiting)

    @asynccontextmanager
    async def reporting(self, call: Call, what: str) -> AsyncIterator[None]:
        """Report every few seconds, from the beginning on, that the block still runs.

        Args:
            call: The call that reports.
            what: What it waits for, as in "waiting for the answers".
        """

        async def report() -> None:
            waited = 0.0
            while True:
                await call.report_progress(waited, None, f"{what} ({waited:.0f} s)")
                await self.sleep(self.interval_s)
                waited += self.interval_s

        async with beside(report):
            yield


@asynccontextmanager
async def beside(work: Callable[[], Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    """Do work while the block runs, and cancel it at the block's end.

    What the block raises goes to the caller as it is, in no group.
    """
    failure: Exception | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(work)
        try:
            yield
        except Exception as error:  # noqa: BLE001 (raised below, out of no group)
            failure = error
        finally:
            group.cancel_scope.cancel()
    if failure is not None:
        raise failure
