"""How many executions run in the interpreters of this process at once: as many as can."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

PATIENCE_SECONDS: Final = 0.02
"""How long an execution waits for those before it, and how long one counts as quick."""


class Admission:
    """Has quick executions wait for each other rather than get in each other's way.

    More of them than there are processors only take Python's lock from each other and need more
    interpreters, whose memory is cold. They are admitted in the order in which they came. One that
    takes longer than `patience_s` is not counted any more, and none waits longer than that: what
    computes, or sleeps, for a while holds no other up.

    Attributes:
        most: How many are admitted at once.

    Args:
        most: How many are admitted at once; the processors that this process may use by default.
        patience_s: As `PATIENCE_SECONDS`.
        clock: Gives the time, in seconds.
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
        """Wait for admission, as long as that may take; it ends with the block."""
        ticket = threading.Lock()
        try:
            self._enter(ticket)
            yield
        finally:
            self._leave(ticket)

    @property
    def inside(self) -> int:
        """How many are admitted now, those that take long too."""
        return len(self._since)

    @property
    def waiting(self) -> int:
        """How many wait now."""
        return len(self._waiting)

    def _enter(self, ticket: threading.Lock) -> None:
        with self._lock:
            if not self._waiting and self._has_room():
                self._since[ticket] = self._clock()
                return
            ticket.acquire()  # released by whom it is admitted by
            self._waiting.append(ticket)
        if not ticket.acquire(timeout=self._patience_s):
            with self._lock:
                if ticket in self._waiting:
                    self._waiting.remove(ticket)
                    self._since[ticket] = self._clock()

    def _leave(self, ticket: threading.Lock) -> None:
        with self._lock:
            self._since.pop(ticket, None)
            if ticket in self._waiting:  # interrupted as it waited
                self._waiting.remove(ticket)
            while self._waiting and self._has_room():
                following = self._waiting.popleft()
                self._since[following] = self._clock()
                following.release()

    def _has_room(self) -> bool:
        """Whether fewer quick ones are under way than may be; the lock is held."""
        long_ago = self._clock() - self._patience_s
        return sum(since > long_ago for since in self._since.values()) < self.most
