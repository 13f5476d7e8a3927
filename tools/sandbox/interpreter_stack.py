"""Interpreters that are ready again, where opening one takes no time: the pool of the own host.

No thread works for it. An execution takes the interpreter that was used last, whose memory the
processor still knows, or opens one; a used one is restored by the execution that used it, once its
workspace is free. Quick ones wait for each other where there are more than processors.
"""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager
from typing import Final

from .admission import Admission
from .interpreter import Interpreter, InterpreterClass, open_interpreter
from .ready_interpreters import ReadyInterpreters


class InterpreterStack(ReadyInterpreters):
    """Interpreters of one class, the one last asked for.

    While several are in use at once, as many are kept besides as are in use; afterwards `size`.

    Attributes:
        admission: Has executions wait for each other.

    Args:
        size: How many it keeps; 0 switches it off.
        restore: Whether used interpreters are made what they were and used again.
    """

    def __init__(self, size: int, *, restore: bool = True) -> None:
        super().__init__(size, restore=restore, lock=threading.Lock())
        self.admission: Final = Admission()

    def admitted(self) -> AbstractContextManager[None]:
        """See `ReadyInterpreters`."""
        return self.admission.admitted()

    def take(self, kind: InterpreterClass, source: str = "") -> Interpreter | None:
        """See `ReadyInterpreters`; of those that suit best the one that was used last."""
        with self._lock:
            self._out += 1
            if self._closed or self._size == 0:
                return None
            stale = [] if self._wanted == kind else self._change_class(kind)
            taken = self._pop_for(source)
            self._counts["missed" if taken is None else "used"] += 1
        for interpreter in stale:
            interpreter.close()
        return taken

    def _pop_for(self, source: str) -> Interpreter | None:
        fitness = [each.fitness(source) for each in self._ready]
        best = max(fitness, default=0)
        if best == 0:
            return None
        return self._ready.pop(len(fitness) - 1 - fitness[::-1].index(best))

    def done(self, used: Interpreter | None) -> None:
        """An execution that asked for an interpreter has ended: restore what it ran in."""
        restored = used is not None and self._is_wanted(used) and used.restore()
        with self._lock:
            self._out -= 1
            self._counts["restored"] += restored
            surplus = [] if used is None else [used]
            if used is not None and restored and not self._closed and used.kind == self._wanted:
                self._ready.append(used)
                kept = max(self._size, self._out) if self._size else 0
                surplus = self._ready[: max(0, len(self._ready) - kept)]
                del self._ready[: len(surplus)]
                self._counts["discarded"] += len(surplus)
        for interpreter in surplus:
            interpreter.close()

    def _is_wanted(self, used: Interpreter) -> bool:
        with self._lock:
            return (
                self._restore
                and not self._closed
                and self._size > 0
                and used.ended is None
                and used.kind == self._wanted
                and len(self._ready) < max(self._size, self._out)
            )

    def wait_ready(self, timeout_s: float) -> bool:
        """Open as many as it keeps, at once.

        Raises:
            SandboxUnavailable: None can be opened.
        """
        del timeout_s
        while True:
            with self._lock:
                kind, restore = self._wanted, self._restore
                if kind is None or not self._has_room_for(kind):
                    return True
            opened = open_interpreter(kind, restorable=restore)
            with self._lock:
                fits = self._has_room_for(kind)
                self._counts["opened"] += 1
                self._counts["discarded"] += not fits
                if fits:
                    self._ready.append(opened)
            if not fits:
                opened.close()
