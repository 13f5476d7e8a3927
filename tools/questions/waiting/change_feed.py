"""Following all sessions of a store: which of them appeared, changed or disappeared.

The store reports changes where it can; a full look at intervals finds the rest.
"""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncGenerator, Callable, Hashable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from threading import Lock
from typing import Final, Self

from ..repository import OnChange, QuestionRepository
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


MOST_COST: Final = 0.01
"""The share of one core that full looks may cost."""

Report = Callable[[Callable[[str | None], None]], AbstractContextManager[None]]
"""Returns a block in which the given function is called with the id of each session that changed,
and with None if any may have.
"""


class Reports:
    """The reported changes since the last `take`, from any thread."""

    def __init__(self, on_change: OnChange) -> None:
        """Call `on_change` after each report."""
        self._on_change = on_change
        self._lock = Lock()
        self._sessions: set[str] = set()
        self._any = False

    def note(self, session_id: str | None = None) -> None:
        """Record a report that a session changed, or that any may have."""
        with self._lock:
            if session_id is None:
                self._any = True
            else:
                self._sessions.add(session_id)
        self._on_change()

    def take(self) -> tuple[set[str], bool]:
        """Return the sessions, and whether any may have changed."""
        with self._lock:
            taken = self._sessions, self._any
            self._sessions, self._any = set(), False
        return taken


class SessionFollower:
    """Follows the changes of all sessions by their signatures. A `repository.Follower`.

    Args:
        signatures: Returns the signatures of some sessions, or of all if it is given None.
        report: Reports changes.
        on_change: Called after each report.
        look_s: The interval of full looks, in seconds.
    """

    def __init__(
        self,
        signatures: Callable[[frozenset[str] | None], Mapping[str, Hashable]],
        report: Report,
        on_change: OnChange,
        look_s: float,
    ) -> None:
        self._signatures = signatures
        self._report = report
        self._reports = Reports(on_change)
        self._look_s = look_s
        self._seen: dict[str, Hashable] = {}
        self._due = 0.0
        self._open = ExitStack()

    def __enter__(self) -> Self:
        self._open.enter_context(self._report(self._reports.note))
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def look_at_all(self) -> frozenset[str]:
        """See `Follower`."""
        self._reports.take()
        began = time.monotonic()
        found = dict(self._signatures(None))
        now = time.monotonic()
        self._due = now + max(self._look_s, (now - began) / MOST_COST)
        changed = {name for name, one in found.items() if self._seen.get(name) != one}
        changed |= self._seen.keys() - found.keys()
        self._seen = found
        return frozenset(changed)

    def look_again(self, *, reported: bool) -> frozenset[str]:
        """See `Follower`."""
        names, any_reported = self._reports.take() if reported else (set(), False)
        if any_reported or time.monotonic() >= self._due:
            return self.look_at_all()
        if not names:
            return frozenset()
        found = self._signatures(frozenset(names))
        changed = {name for name in names if self._seen.get(name) != found.get(name)}
        for name in changed:
            if name in found:
                self._seen[name] = found[name]
            else:
                self._seen.pop(name, None)
        return frozenset(changed)
