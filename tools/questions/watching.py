"""Being told by the file system that a directory changed.

One thread of the process watches all directories that somebody waits for, so that a thousand waits
cost one inotify instance. Whoever waits is told at once where the file system tells; where it does
not (a network file system, no inotify instances left), nobody is told, and each wait looks for
itself at its own interval.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Final, Protocol

from tools.event_log import get_logger

STEP_MS: Final = 3
"""How often the watching thread asks what was told, in ms. An event is passed on after one to two
steps (`watchfiles` groups what comes together)."""
_TIMEOUT_MS: Final = 20
_FIRST_REST_S: Final = 0.05
_LONGEST_REST_S: Final = 1.0
"""How long the thread rests after the file system refused to be watched, in seconds: as when this
user's inotify instances (128 by default) are taken, which others may give back soon."""

_log = get_logger("agentforge.questions")


class Watcher(Protocol):
    """Tells that something in a directory changed."""

    def telling(self, path: Path, tell: Callable[[], None]) -> AbstractContextManager[None]:
        """Return a block; while it runs, `tell` is called after each change in `path`.

        `tell` comes from another thread, may come for nothing, and comes once at the start, when
        the directory is watched. A change may be missed.
        """
        ...


class NoWatcher:
    """Tells nothing: each wait looks for itself."""

    @contextmanager
    def telling(self, path: Path, tell: Callable[[], None]) -> Iterator[None]:  # noqa: ARG002
        """See `Watcher`."""
        yield


class FileWatcher:
    """Watches directories with `watchfiles`, all of them from one thread.

    The thread lives while somebody is to be told. May be used from any thread; after a fork the
    child starts with nobody to tell.
    """

    def __init__(self, *, step_ms: int = STEP_MS) -> None:
        """Make a watcher; nothing is watched yet.

        Args:
            step_ms: How often to ask what was told, in milliseconds.
        """
        self._step_ms = step_ms
        self.forget()

    def forget(self) -> None:
        """Begin anew, with nobody to tell: what a forked child does, which has no such thread."""
        self._lock = threading.Lock()
        self._told: dict[str, list[Callable[[], None]]] = {}
        self._changed = threading.Event()
        self._thread: threading.Thread | None = None

    @contextmanager
    def telling(self, path: Path, tell: Callable[[], None]) -> Iterator[None]:
        """See `Watcher`."""
        name = os.path.realpath(path)
        with self._lock:
            self._told.setdefault(name, []).append(tell)
            self._changed.set()
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="agentforge-questions-watcher", daemon=True
                )
                self._thread.start()
        try:
            yield
        finally:
            with self._lock:
                tells = self._told.get(name, [])
                if tell in tells:
                    tells.remove(tell)
                if not tells:
                    self._told.pop(name, None)
                self._changed.set()

    def _run(self) -> None:
        complained = False
        rest = _FIRST_REST_S
        while True:
            with self._lock:
                if not self._told:
                    self._thread = None
                    return
                self._changed.clear()
                names = [name for name in self._told if os.path.isdir(name)]
            if not names:  # they are gone; each wait finds that out by itself
                self._changed.wait(_LONGEST_REST_S)
                continue
            try:
                self._watch(names)
                rest = _FIRST_REST_S
            except Exception as error:  # noqa: BLE001 (whatever the library raises, waits go on)
                if not complained:
                    _log.warning("questions.not_watched", error=str(error))
                    complained = True
                self._changed.wait(rest)
                rest = min(rest * 2, _LONGEST_REST_S)

    def _watch(self, names: list[str]) -> None:
        """Tell of changes in these directories until the set of directories changes."""
        from watchfiles import watch

        unseen = True  # what happened before they were watched was told to nobody
        for changes in watch(
            *names,
            watch_filter=None,
            debounce=self._step_ms,
            step=self._step_ms,
            rust_timeout=_TIMEOUT_MS,
            yield_on_timeout=True,
            stop_event=self._changed,
            recursive=False,
            raise_interrupt=False,
        ):
            if unseen:
                unseen = False
                self._tell(names)
                continue
            touched = {os.path.dirname(path) for _, path in changes}
            touched.update(path for _, path in changes)  # the directory itself went away
            self._tell(touched.intersection(names))

    def _tell(self, names: Iterable[str]) -> None:
        with self._lock:
            tells = [tell for name in names for tell in self._told.get(name, ())]
        for tell in tells:
            tell()


_watcher = FileWatcher()
os.register_at_fork(after_in_child=_watcher.forget)


def process_watcher() -> FileWatcher:
    """Return the watcher that all waits of this process share."""
    return _watcher
