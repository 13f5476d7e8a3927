"""Run one call of a tool: its turn at a session, its progress, and its worker threads.

Everything that may block runs on a worker thread, so that the server can answer other calls. A call
whose client cancelled, disconnected or died is cancelled at once.
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
"""Interval between progress reports of a waiting call, in seconds.

Clients give up on a silent call; the SDKs' usual limit is 60 seconds, and progress resets it in
clients that support that.
"""
QUICK_THREADS: Final = 16
CODE_THREADS: Final = 4
"""The most pieces of code that run at once; further ones wait."""

_AT_ONCE: Final = nullcontext()

Call = Context[Any, Any]
"""One call of a tool, which the SDK passes to functions with this parameter type."""


@define
class SessionTurns:
    """Queue for each session, first come first served, within one process and event loop.

    A call that is cancelled while it waits leaves its queue, and an empty queue is removed. Calls
    of other processes are not in the queue: the session's revision detects their changes.
    """

    _queues: dict[str, deque[anyio.Event]] = field(factory=dict, init=False)

    def waiting(self, session_id: str) -> int:
        """Return the number of a session's running and waiting calls."""
        return len(self._queues.get(session_id, ()))

    @asynccontextmanager
    async def turn(
        self, session_id: str, *, meanwhile: AbstractAsyncContextManager[None] = _AT_ONCE
    ) -> AsyncIterator[None]:
        """Wait until all earlier calls on the session have ended, then run the block.

        Args:
            session_id: The session that the block changes.
            meanwhile: Entered while the call waits; not entered if it need not wait.
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
    """Cancel scopes of running work, so that all of it can be ended.

    Attributes:
        stopped: Whether running work, and work that starts later, is cancelled.
    """

    stopped: bool = False
    _open: set[anyio.CancelScope] = field(factory=set, init=False)

    @property
    def count(self) -> int:
        """The number of open scopes."""
        return len(self._open)

    def stop(self) -> None:
        """Cancel all running work, and all that starts later."""
        self.stopped = True
        for scope in self._open:
            scope.cancel()

    @contextmanager
    def scope(self) -> Iterator[anyio.CancelScope]:
        """Run the block in a scope; code after the block runs even if the scope is cancelled."""
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
    """Threads for blocking work: many for short work, few for code.

    The tools of one server share one instance, and with it the turns at each session.

    Attributes:
        interval_s: The interval between progress reports of a waiting call, in seconds.
        sleep: Waits for a number of seconds.
        turns: The queue of each session.
    """

    interval_s: float = PROGRESS_INTERVAL_S
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    turns: SessionTurns = field(factory=SessionTurns)
    _quick: anyio.CapacityLimiter = field(factory=lambda: anyio.CapacityLimiter(QUICK_THREADS))
    _code: anyio.CapacityLimiter = field(factory=lambda: anyio.CapacityLimiter(CODE_THREADS))

    async def quick(self, work: Callable[[], _Result]) -> _Result:
        """Run short blocking work. Once started, it runs to its end."""
        return await anyio.to_thread.run_sync(work, limiter=self._quick)

    async def at_once(self, work: Callable[[], _Result]) -> _Result:
        """Run short blocking work on a separate thread, without waiting for other work."""
        return await anyio.to_thread.run_sync(work, limiter=anyio.CapacityLimiter(1))

    async def code(self, work: Callable[[], _Result], *, stop: Callable[[], None]) -> _Result:
        """Run work that may take long; call `stop` at once if the call is cancelled.

        Waits for the work in any case, so that its result is recorded.

        Args:
            work: The work.
            stop: Makes the work end soon; called on the event loop's thread.
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
        """Return a context whose block runs after all earlier calls that change the session.

        The call reports progress while it waits. If it is cancelled before its turn, the block does
        not run.
        """
        waiting = self.reporting(call, f"waiting for earlier calls on session {session_id}")
        return self.turns.turn(session_id, meanwhile=waiting)

    @asynccontextmanager
    async def reporting(self, call: Call, what: str) -> AsyncIterator[None]:
        """Report at once and every few seconds that the block still runs.

        Args:
            call: The call that reports.
            what: The reason for waiting, as in "waiting for the answers".
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
    """Run work while the block runs, and cancel it at the block's end.

    The block's exception reaches the caller unchanged, not in a group.
    """
    failure: Exception | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(work)
        try:
            yield
        except Exception as error:  # noqa: BLE001 (raised below, outside the group)
            failure = error
        finally:
            group.cancel_scope.cancel()
    if failure is not None:
        raise failure
