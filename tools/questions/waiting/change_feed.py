"""Following all sessions of a store: which of them appeared, changed or disappeared.

The store reports changes where it can; a full look at intervals finds the rest.
"""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncGenerator, Iterator
from functools import partial
from typing import Final

from ..repository import QuestionRepository
from .waiting import LoopBell, ThreadBell

_GATHER_S: Final = 0.01
"""How long changes that come together are collected, in seconds."""
_STOP_S: Final = 0.04
"""How often a caller's stop event is checked, in seconds."""


def follow_changes(
    store: QuestionRepository,
    *,
    stop: threading.Event | None = None,
    look_s: float | None = None,
) -> Iterator[frozenset[str]]:
    """See `QuestionSessions.changes`; it looks by itself every `look_s` seconds."""
    every_s = store.look_s if look_s is None else look_s
    bell = ThreadBell()
    with store.following(bell.ring, look_s=every_s) as follower:
        yield follower.look_at_all()
        while stop is None or not stop.is_set():
            reported = _wait(bell, stop, every_s)
            bell.clear()
            changed = follower.look_again(reported=reported)
            if changed and not (stop is not None and stop.is_set()):
                yield changed


def _wait(bell: ThreadBell, stop: threading.Event | None, look_s: float) -> bool:
    """Wait for a report, the next look or the stop event; return whether a report came."""
    until = time.monotonic() + look_s
    while stop is None or not stop.is_set():
        left = max(until - time.monotonic(), 0.0)
        if bell.wait(left if stop is None else min(left, _STOP_S)):
            time.sleep(_GATHER_S)
            return True
        if left <= _STOP_S:
            break
    return False


async def follow_changes_async(
    store: QuestionRepository,
    *,
    at_least_every_s: float | None = None,
    look_s: float | None = None,
) -> AsyncGenerator[frozenset[str], None]:
    """See `QuestionSessions.changes_async`; it looks by itself every `look_s` seconds."""
    import anyio
    import anyio.to_thread

    every_s = store.look_s if look_s is None else look_s
    in_thread = partial(anyio.to_thread.run_sync, limiter=anyio.CapacityLimiter(1))
    bell = LoopBell()
    with store.following(bell.ring, look_s=every_s) as follower:
        yield await in_thread(follower.look_at_all)
        yielded = time.monotonic()
        rest_s = every_s if at_least_every_s is None else min(every_s, at_least_every_s)
        while True:
            reported = await bell.wait(rest_s)
            if reported:
                await anyio.sleep(_GATHER_S)
            bell.clear()
            changed = await in_thread(partial(follower.look_again, reported=reported))
            silent_s = time.monotonic() - yielded
            if changed or (at_least_every_s is not None and silent_s >= at_least_every_s):
                yield changed
                yielded = time.monotonic()
