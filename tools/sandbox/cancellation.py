"""Stopping a running execution from outside."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


class CancelToken:
    """Stops every execution it was given to, from any thread; once set it stays set.

    A guest that computes or sleeps stops within a tenth of a second and its result says
    `trapped == "cancelled"`. One token may stop several executions.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancelled = False
        self._watching: list[threading.Event] = []

    def cancel(self) -> None:
        """Stop what runs under this token, and what is started under it later."""
        with self._lock:
            self._cancelled = True
            for event in self._watching:
                event.set()

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._cancelled

    @contextlib.contextmanager
    def watching(self, event: threading.Event) -> Iterator[None]:
        """Have an event set as long as the block runs, should this token be cancelled.

        Args:
            event: Set at once if it already is.
        """
        with self._lock:
            self._watching.append(event)
            if self._cancelled:
                event.set()
        try:
            yield
        finally:
            with self._lock:
                self._watching.remove(event)

    def __repr__(self) -> str:
        return f"CancelToken(cancelled={self.cancelled})"
