"""Interpreters ready before their executions: the pool of a process.

It has no thread. An execution takes the most recently used interpreter, whose memory is still in
the processor's caches, or opens one. The execution that used it restores it, after freeing its
workspace. Quick executions wait for each other if there are more of them than processors.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from .interpreter import open_interpreter
from .interpreter_class import InterpreterClass

if TYPE_CHECKING:
    from ..compiled.status import PoolStats
    from .guest_interpreter import GuestInterpreter

PATIENCE_SECONDS: Final = 0.02
"""The longest an execution waits for others, and the longest one counts as quick."""


def _usable_processors() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


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
        self.most: Final = _usable_processors() if most is None else most
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


class ReadyInterpreters:
    """Interpreters of the last requested class, each in its opened state.

    It keeps `size` interpreters ready, or as many as are in use at once, if that is more.

    Attributes:
        admission: Makes executions wait for each other; to be entered before `take` and left after
            `done`.
        size: How many are kept ready.
        restores: Whether used interpreters are restored, if possible.
        wanted: Their class; None before the first request.
        closed: Whether the pool was closed.

    Args:
        size: How many it keeps ready; 0 turns it off.
        restore: Whether used interpreters are restored and reused.
    """

    def __init__(self, size: int, *, restore: bool = True) -> None:
        self.admission: Final = Admission()
        self._lock = threading.Lock()
        self.size = size
        self.restores = restore
        self._ready: list[GuestInterpreter] = []
        self.wanted: InterpreterClass | None = None
        self._out = 0
        self.closed = False
        self._counts = dict.fromkeys(("opened", "used", "restored", "missed", "discarded"), 0)

    def take(self, kind: InterpreterClass, source: str = "") -> GuestInterpreter | None:
        """Return an interpreter of this class in its opened state, or None if none is ready.

        It is the most recently used of those that suit the script best. Each call must be followed
        by one of `done`.
        """
        with self._lock:
            self._out += 1
            if self.closed or self.size == 0:
                return None
            stale = self._change_class(kind)
            taken = self._pop_for(source)
            self._counts["missed" if taken is None else "used"] += 1
        for interpreter in stale:
            interpreter.close()
        return taken

    def _pop_for(self, source: str) -> GuestInterpreter | None:
        fitness = [each.fitness(source) for each in self._ready]
        best = max(fitness, default=0)
        if best == 0:
            return None
        return self._ready.pop(len(fitness) - 1 - fitness[::-1].index(best))

    def done(self, used: GuestInterpreter | None) -> None:
        """End the use of an interpreter: restore it for the pool, or close it."""
        restored = used is not None and self._is_wanted(used) and used.restore()
        with self._lock:
            self._out -= 1
            self._counts["restored"] += restored
            surplus = [] if used is None else [used]
            if used is not None and restored and not self.closed and used.kind == self.wanted:
                self._ready.append(used)
                kept = max(self.size, self._out) if self.size else 0
                surplus = self._ready[: max(0, len(self._ready) - kept)]
                del self._ready[: len(surplus)]
                self._counts["discarded"] += len(surplus)
        for interpreter in surplus:
            interpreter.close()

    def _is_wanted(self, used: GuestInterpreter) -> bool:
        with self._lock:
            return (
                self.restores
                and not self.closed
                and self.size > 0
                and used.ended is None
                and used.kind == self.wanted
                and len(self._ready) < max(self.size, self._out)
            )

    def fill(self, kind: InterpreterClass) -> None:
        """Open interpreters of this class, now the pool's class, until the pool is full.

        Raises:
            SandboxUnavailable: None can be opened.
        """
        with self._lock:
            stale = self._change_class(kind)
        for interpreter in stale:
            interpreter.close()
        while True:
            with self._lock:
                if not self._has_room_for(kind):
                    return
            opened = open_interpreter(kind)
            with self._lock:
                fits = self._has_room_for(kind)
                self._counts["opened"] += 1
                self._counts["discarded"] += not fits
                if fits:
                    self._ready.append(opened)
            if not fits:
                opened.close()

    def _change_class(self, kind: InterpreterClass) -> list[GuestInterpreter]:
        """Change the pool's class; return the interpreters to be closed."""
        if self.wanted == kind:
            return []
        self.wanted = kind
        stale, self._ready = self._ready, []
        self._counts["discarded"] += len(stale)
        return stale

    def _has_room_for(self, kind: InterpreterClass) -> bool:
        """Return whether a ready interpreter is to be kept; the caller holds the lock."""
        return not self.closed and self.wanted == kind and len(self._ready) < self.size

    def resize(self, size: int, *, restore: bool) -> None:
        """Change how many are kept ready, and whether they are restored or single-use."""
        with self._lock:
            self.size = size
            self.restores = restore
            surplus = self._ready[size:]
            del self._ready[size:]
            self._counts["discarded"] += len(surplus)
        for interpreter in surplus:
            interpreter.close()

    def close(self) -> None:
        """Close every ready interpreter; `take` returns None afterwards."""
        with self._lock:
            self.closed = True
            left, self._ready = self._ready, []
            self._counts["discarded"] += len(left)
        for interpreter in left:
            interpreter.close()

    def stats(self) -> PoolStats:
        """Return the counts so far."""
        from ..compiled.status import PoolStats

        with self._lock:
            return PoolStats(size=self.size, ready=len(self._ready), **self._counts)
