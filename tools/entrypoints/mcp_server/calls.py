"""One call of a tool: who made it, how to reach them, and where its work runs.

Everything that may block runs on a worker thread, so that the server answers others meanwhile. A
call whose client cancelled, disconnected or died is cancelled where it stands.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, TypeVar

import anyio
import anyio.to_thread
from attrs import field, frozen
from mcp.server.mcpserver import Context

from .turns import SessionTurns

_Result = TypeVar("_Result")

PROGRESS_INTERVAL_S: Final = 3.0
"""How often a call that waits says that it still does, in seconds.

Clients give up on a call that stays silent; the SDKs' usual limit is 60 seconds, and progress
resets it in those that can.
"""
QUICK_THREADS: Final = 16
CODE_THREADS: Final = 4
"""How many pieces of code run at once; further ones wait for their turn."""

Call = Context[Any, Any]
"""One call of a tool, as the SDK gives it to those that ask for it in their signature."""


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

        async def stop_when_cancelled() -> None:
            try:
                await anyio.sleep_forever()
            finally:
                if not done:
                    stop()

        done = False
        outcome: list[_Result] = []
        failure: list[Exception] = []
        async with anyio.create_task_group() as group:
            group.start_soon(stop_when_cancelled)
            try:
                outcome.append(await anyio.to_thread.run_sync(work, limiter=self._code))
            except Exception as error:  # noqa: BLE001 (raised below, outside the task group)
                failure.append(error)
            done = True
            group.cancel_scope.cancel()
        if failure:
            raise failure[0]
        return outcome[0]

    def turn(self, call: Call, session_id: str) -> AbstractAsyncContextManager[None]:
        """Return a block that runs when all earlier calls that change the session have ended.

        The client is told that the call waits. A call that is cancelled before its turn has done
        nothing.

        Args:
            call: The call that waits.
            session_id: The session that it changes.
        """
        waiting = self.telling(call, f"waiting for earlier calls on session {session_id}")
        return self.turns.turn(session_id, meanwhile=waiting)

    @asynccontextmanager
    async def telling(self, call: Call, what: str) -> AsyncIterator[None]:
        """Tell the client every few seconds that the block still runs, from its beginning on.

        Args:
            call: Whose client is told.
            what: What it waits for, as in "waiting for the answers".
        """

        async def tell() -> None:
            waited = 0.0
            while True:
                await call.report_progress(waited, None, f"{what} ({waited:.0f} s)")
                await self.sleep(self.interval_s)
                waited += self.interval_s

        async with beside(tell):
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
