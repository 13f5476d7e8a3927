"""Interpreters that are ready before their executions: what every arrangement of them keeps."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from .interpreter import Interpreter, InterpreterClass

if TYPE_CHECKING:
    from .status import PoolStats


class ReadyInterpreters(ABC):
    """Interpreters of one class, the one last asked for, as they were when they were opened.

    Args:
        size: How many are kept; 0 switches it off.
        restore: Whether used interpreters are made what they were and used again.
        lock: Guards all of it.
    """

    def __init__(
        self, size: int, *, restore: bool, lock: threading.Lock | threading.Condition
    ) -> None:
        self._lock = lock
        self._size = size
        self._restore = restore
        self._ready: list[Interpreter] = []
        self._wanted: InterpreterClass | None = None
        self._out = 0
        self._closed = False
        self._counts = dict.fromkeys(
            ("opened", "used", "restored", "missed", "discarded", "failures"), 0
        )

    def admitted(self) -> AbstractContextManager[None]:
        """Within it an execution asks for an interpreter and is done with it; may wait a little."""
        return nullcontext()

    @abstractmethod
    def take(self, kind: InterpreterClass, source: str = "") -> Interpreter | None:
        """An interpreter of this class as it was when opened, or None if none is ready.

        Args:
            kind: The class.
            source: The script that it is to run, for which some may suit better than others.

        Each call is followed by one of `done`.
        """

    @abstractmethod
    def done(self, used: Interpreter | None) -> None:
        """An execution that asked for an interpreter has ended; it ran in this one, if any."""

    @abstractmethod
    def wait_ready(self, timeout_s: float) -> bool:
        """Have as many ready as are kept, and return whether they are, within this time."""

    def want(self, kind: InterpreterClass | None = None) -> bool:
        """Have interpreters of this class from now on; None leaves the one last asked for.

        Returns whether it is known of which class they are to be.
        """
        stale: list[Interpreter] = []
        with self._lock:
            if kind is not None and self._wanted != kind:
                stale = self._change_class(kind)
            known = self._wanted is not None
        for interpreter in stale:
            interpreter.close()
        return known

    def _change_class(self, kind: InterpreterClass) -> list[Interpreter]:
        """Keep interpreters of another class from now on; returns those to be closed."""
        self._wanted = kind
        stale, self._ready = self._ready, []
        self._counts["discarded"] += len(stale)
        return stale

    def _has_room_for(self, kind: InterpreterClass) -> bool:
        """Whether one that is ready is to be kept; the lock is held."""
        return not self._closed and self._wanted == kind and len(self._ready) < self._size

    def resize(self, size: int, *, restore: bool) -> None:
        """Keep this many ready from now on, used once only or restored."""
        with self._lock:
            self._size = size
            self._restore = restore
            surplus = self._ready[size:]
            del self._ready[size:]
            self._counts["discarded"] += len(surplus)
        for interpreter in surplus:
            interpreter.close()

    def close(self) -> None:
        """Close every interpreter that is ready; `take` gives None then."""
        with self._lock:
            self._closed = True
            left, self._ready = self._ready, []
            self._counts["discarded"] += len(left)
        for interpreter in left:
            interpreter.close()

    def stats(self) -> PoolStats:
        """The counts so far."""
        from .status import PoolStats

        with self._lock:
            return PoolStats(size=self._size, ready=len(self._ready), **self._counts)

    @property
    def size(self) -> int:
        """How many are kept."""
        return self._size

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._closed

    @property
    def restores(self) -> bool:
        """Whether used interpreters are restored, where that is possible."""
        return self._restore
