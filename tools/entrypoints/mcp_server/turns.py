"""Turns at a session: the calls that change one session run one after the other."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Final

import anyio
from attrs import define, field

_AT_ONCE: Final = nullcontext()


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
