"""Following all sessions of a directory: which of them appeared, changed or went."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Final

from ..event_log import get_logger
from .domain import is_session_id
from .store import QuestionStore, Signature

_STEP_MS: Final = 25
"""How often the file system is asked, in ms: what a person watches may be 50 ms late."""
_LOOK_S: Final = 0.2
_MOST_COST: Final = 0.01
"""What looking may cost of one core, where the file system does not tell."""

_log = get_logger("agentforge.questions")


class _Book:
    """What was seen of the sessions last."""

    def __init__(self, store: QuestionStore) -> None:
        self._store = store
        self._seen: dict[str, Signature] = {}
        self._unsettled: set[str] = set()
        self._due = 0.0

    def look(self, hinted: set[str] | None = None) -> frozenset[str]:
        """Return the sessions that are not as they were, and those that were told of."""
        began = time.monotonic()
        names = self._store.names()
        seen: dict[str, Signature] = {}
        for name in names:
            signature = self._store.signature(name)
            if signature is not None:
                seen[name] = signature
        changed = {name for name, one in seen.items() if self._seen.get(name) != one}
        changed |= self._seen.keys() - seen.keys()
        changed |= self._unsettled & seen.keys()
        if hinted:
            changed |= hinted & seen.keys()
        self._unsettled = {
            name for name in changed & seen.keys() if not self._store.is_settled(seen[name])
        }
        self._seen = seen
        now = time.monotonic()
        self._due = now + max(_LOOK_S, (now - began) / _MOST_COST)
        return frozenset(changed)

    def is_due(self) -> bool:
        return bool(self._unsettled) or time.monotonic() >= self._due


def _hints(paths: set[str]) -> set[str]:
    """Name the sessions that these paths belong to."""
    found = set()
    for path in paths:
        parent, name = os.path.split(path)
        found |= {one for one in (name, os.path.basename(parent)) if is_session_id(one)}
    return found


def follow_changes(
    store: QuestionStore, *, stop: threading.Event | None = None
) -> Iterator[frozenset[str]]:
    """See `QuestionSessions.changes`."""
    store.ensure_base()
    looks = _looks(store, stop if stop is not None else threading.Event())
    yield next(looks)
    yield from (changed for changed in looks if changed)


def _looks(store: QuestionStore, stop: threading.Event) -> Iterator[frozenset[str]]:
    """Yield what changed, at least every 200 ms, also if it is nothing."""
    book = _Book(store)
    yield book.look()
    for paths in _told(store, stop):
        yield book.look(_hints(paths)) if paths or book.is_due() else frozenset()


def _told(store: QuestionStore, stop: threading.Event) -> Iterator[set[str]]:
    """Yield what the file system tells, and at least every 200 ms; without it, the latter."""
    from watchfiles import watch

    complained = False
    while not stop.is_set():
        try:
            for changes in watch(
                os.path.realpath(store.base_dir),
                watch_filter=None,
                debounce=2 * _STEP_MS,
                step=_STEP_MS,
                rust_timeout=int(_LOOK_S * 1000),
                yield_on_timeout=True,
                stop_event=stop,
                recursive=True,
                raise_interrupt=True,
            ):
                yield {path for _, path in changes}
        except KeyboardInterrupt:
            raise
        except Exception as error:  # noqa: BLE001 (whatever the library raises, looking goes on)
            if not complained:
                _log.warning("questions.not_watched", error=str(error))
                complained = True
        for _ in range(10):
            if stop.wait(_LOOK_S):
                return
            yield set()


async def follow_changes_async(store: QuestionStore) -> AsyncIterator[frozenset[str]]:
    """See `QuestionSessions.changes_async`."""
    import anyio
    import anyio.to_thread

    stop = threading.Event()
    in_thread = partial(anyio.to_thread.run_sync, limiter=anyio.CapacityLimiter(1))
    await in_thread(store.ensure_base)
    looks = _looks(store, stop)
    first = True
    try:
        while (changed := await in_thread(next, looks, None)) is not None:
            if changed or first:
                yield changed
            first = False
    finally:
        stop.set()
