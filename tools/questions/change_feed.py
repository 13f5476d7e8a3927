"""Following all sessions of a directory: which of them appeared, changed or went.

The watcher that wakes waits (`directory_watcher`) watches the base and each session in it.
What it reports is looked at by itself; everything is looked at every 200 ms anyway.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Final, Self

from .directory_watcher import OnChange, Watcher
from .store import QuestionStore, Signature
from .waiting import LoopBell, ThreadBell

_GATHER_S: Final = 0.01
"""How long changes that come together are collected, in seconds."""
_STOP_S: Final = 0.04
"""How often a caller's event to stop is asked, in seconds."""
LOOK_S: Final = 0.2
"""How often everything is looked at, reported or not, in seconds."""
_MOST_COST: Final = 0.01
"""What looking may cost of one core, where the file system does not report changes."""


class _Watched:
    """The directories that are watched: the base, and each session by its id."""

    def __init__(self, store: QuestionStore, watcher: Watcher, ring: OnChange) -> None:
        self._store = store
        self._watcher = watcher
        self._ring = ring
        self._lock = threading.Lock()
        self._reported: set[str] = set()
        self._base_reported = False
        self._base: tuple[int, AbstractContextManager[None]] | None = None
        self._sessions: dict[str, tuple[int, AbstractContextManager[None]]] = {}

    def watch_base(self) -> None:
        """Watch the base; anew, if it is another directory by now."""
        try:
            inode = self._store.fs.stat(os.path.realpath(self._store.base_dir)).st_ino
        except OSError:
            return
        if self._base is not None:
            if self._base[0] == inode:
                return
            self._base[1].__exit__(None, None, None)
        block = self._watcher.watching(self._store.base_dir, self._report_base)
        block.__enter__()
        self._base = (inode, block)

    def watch(self, name: str, inode: int) -> bool:
        """Watch a session; return False if that is so already."""
        known = self._sessions.get(name)
        if known is not None:
            if known[0] == inode:
                return False
            self.forget(name)
        block = self._watcher.watching(self._store.base_dir / name, partial(self._report, name))
        block.__enter__()
        self._sessions[name] = (inode, block)
        return True

    def forget(self, name: str) -> None:
        """Watch a session no more."""
        known = self._sessions.pop(name, None)
        if known is not None:
            known[1].__exit__(None, None, None)

    def _report(self, name: str) -> None:
        with self._lock:
            self._reported.add(name)
        self._ring()

    def _report_base(self) -> None:
        with self._lock:
            self._base_reported = True
        self._ring()

    def take(self) -> tuple[set[str], bool]:
        """Return the sessions that changed, and whether the base did, since the last time."""
        with self._lock:
            reported, self._reported = self._reported, set()
            base, self._base_reported = self._base_reported, False
        return reported, base

    def close(self) -> None:
        """Watch nothing any more."""
        for name in list(self._sessions):
            self.forget(name)
        if self._base is not None:
            self._base[1].__exit__(None, None, None)
            self._base = None


class _Follower:
    """Looks at sessions and knows what was seen of them last. Not for several threads at once."""

    def __init__(
        self, store: QuestionStore, watcher: Watcher, ring: OnChange, look_s: float
    ) -> None:
        self._store = store
        self._watched = _Watched(store, watcher, ring)
        self._look_s = look_s
        self._seen: dict[str, Signature] = {}
        self._unsettled: set[str] = set()
        self._due = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._watched.close()

    def look_at_all(self) -> frozenset[str]:
        """Return the sessions that are not as they were, and those reported as changed."""
        began = time.monotonic()
        self._watched.watch_base()
        reported, _ = self._watched.take()
        names = set(self._store.names())
        changed = self._look(names | self._seen.keys(), reported | self._unsettled)
        now = time.monotonic()
        self._due = now + max(self._look_s, (now - began) / _MOST_COST)
        return changed

    def look_again(self, *, reported: bool) -> frozenset[str]:
        """Return what changed: of all sessions, if it is time for that, or of those reported.

        Args:
            reported: Whether something was; else what changed a moment ago is looked at again,
                since the clock of file times is slower than a change.
        """
        if time.monotonic() >= self._due:
            return self.look_at_all()
        names, base = self._watched.take()
        if not reported:
            names |= self._unsettled
        if not base:
            return self._look(names, names)
        self._watched.watch_base()
        return self._look(names | (self._seen.keys() ^ set(self._store.names())), names)

    def _look(self, names: set[str], anyway: set[str]) -> frozenset[str]:
        changed = set()
        for name in names:
            signature = self._signature(name)
            if signature != self._seen.get(name) or (signature is not None and name in anyway):
                changed.add(name)
            if signature is None:
                self._seen.pop(name, None)
                self._watched.forget(name)
            else:
                self._seen[name] = signature
        self._unsettled -= names
        self._unsettled |= {
            name for name in changed & self._seen.keys() if not self._is_settled(name)
        }
        return frozenset(changed)

    def _signature(self, name: str) -> Signature | None:
        """Return by what a session's next change is seen; it is watched from before that."""
        signature = self._store.signature(name)
        if signature is not None and self._watched.watch(name, signature.inode):
            return self._store.signature(name)
        return signature

    def _is_settled(self, name: str) -> bool:
        return self._store.is_settled(self._seen[name])


def follow_changes(
    store: QuestionStore,
    watcher: Watcher,
    *,
    stop: threading.Event | None = None,
    look_s: float = LOOK_S,
) -> Iterator[frozenset[str]]:
    """See `QuestionSessions.changes`; it looks by itself every `look_s` seconds."""
    store.ensure_base()
    bell = ThreadBell()
    with _Follower(store, watcher, bell.ring, look_s) as follower:
        yield follower.look_at_all()
        while stop is None or not stop.is_set():
            reported = _wait(bell, stop, look_s)
            bell.clear()
            changed = follower.look_again(reported=reported)
            if changed and not (stop is not None and stop.is_set()):
                yield changed


def _wait(bell: ThreadBell, stop: threading.Event | None, look_s: float) -> bool:
    """Wait for a report, until it is time to look, or to stop; return whether there is a report."""
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
    store: QuestionStore,
    watcher: Watcher,
    *,
    at_least_every_s: float | None = None,
    look_s: float = LOOK_S,
) -> AsyncGenerator[frozenset[str], None]:
    """See `QuestionSessions.changes_async`; it looks by itself every `look_s` seconds."""
    import anyio
    import anyio.to_thread

    in_thread = partial(anyio.to_thread.run_sync, limiter=anyio.CapacityLimiter(1))
    await in_thread(store.ensure_base)
    bell = LoopBell()
    with _Follower(store, watcher, bell.ring, look_s) as follower:
        yield await in_thread(follower.look_at_all)
        yielded = time.monotonic()
        rest_s = look_s if at_least_every_s is None else min(look_s, at_least_every_s)
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
