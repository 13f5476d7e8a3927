"""Admission of executions to this process's interpreters, limited by its processors."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

PATIENCE_SECONDS: Final = 0.02
"""The longest an execution waits for others, and the longest one counts as quick."""


class Admission:
    """Makes quick executions wait for each other rather than compete.

    More of them than processors would only compete for Python's lock and need more interpreters,
    whose memory is cold. They are admitted in order of arrival. An execution is no longer counted
    after `patience_s`, and none waits longer than that: a long computation or sleep delays no
    other.

    Attributes:
        most: How many are admitted at once.

    Args:
        most: How many are admitted at once; by default, as many as usable processors.
        patience_s: As `PATIENCE_SECONDS`.
        clock: Returns the time, in seconds.
    """

    def __init__(
        self,
        most: int | None = None,
        *,
        patience_s: float = PATIENCE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.most: Final = len(os.sched_getaffinity(0)) if most is None else most
        self._patience_s = patience_s
        self._clock = clock
        self._lock = threading.Lock()
        self._since: dict[threading.Lock, float] = {}
        self._waiting: deque[threading.Lock] = deque()

    @contextmanager
    def admitted(self) -> Iterator[None]:
        """Wait for admission, which lasts for the block; the wait is limited."""
        ticket = threading.Lock()
        try:
            self._enter(ticket)
            yield
        finally:
            self._leave(ticket)

    @property
    def inside(self) -> int:
        """How many are admitted now, long ones included."""
        return len(self._since)

    @property
    def waiting(self) -> int:
        """How many are waiting now."""
        return len(self._waiting)

    def _enter(self, ticket: threading.Lock) -> None:
        with self._lock:
            if not self._waiting and self._has_room():
                self._since[ticket] = self._clock()
                return
            ticket.acquire()  # released by the thread that admits it
            self._waiting.append(ticket)
        if not ticket.acquire(timeout=self._patience_s):
            with self._lock:
                if ticket in self._waiting:
                    self._waiting.remove(ticket)
                    self._since[ticket] = self._clock()

    def _leave(self, ticket: threading.Lock) -> None:
        with self._lock:
            self._since.pop(ticket, None)
            if ticket in self._waiting:  # interrupted while waiting
                self._waiting.remove(ticket)
            while self._waiting and self._has_room():
                following = self._waiting.popleft()
                self._since[following] = self._clock()
                following.release()

    def _has_room(self) -> bool:
        """Return whether another quick one may start; the caller holds the lock."""
        long_ago = self._clock() - self._patience_s
        return sum(since > long_ago for since in self._since.values()) < self.most
