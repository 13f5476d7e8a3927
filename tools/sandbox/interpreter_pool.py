"""Interpreters opened ahead of their executions.

Opening an interpreter takes several times as long as running a line in it. A thread keeps a few
open and prepared; an execution takes one and runs in it. A used one is made again what it was
when it was opened (`interpreter_restore`), or else closed and another opened, so none keeps
anything of a workspace or of code. Only interpreters of the class last asked for are kept, those
of others are given up as room is needed. One lock guards all of it, so it is one module.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

from ..event_log import get_logger
from .errors import SandboxError
from .interpreter import Interpreter, InterpreterClass, open_interpreter
from .ready_interpreters import ReadyInterpreters

_JOIN_SECONDS: Final = 10.0
RESTORE_SECONDS: Final = 0.1
"""How long an execution waits for an interpreter that is in use or being restored."""

RETURN_SECONDS: Final = 0.05
"""How long an interpreter in use is expected back before another is opened in its place."""

_FAILURES_BEFORE_REST: Final = 3

_log = get_logger("agentforge.sandbox")


class InterpreterPool(ReadyInterpreters):
    """A bounded number of interpreters of one class, opened by one thread.

    Args:
        size: How many it keeps ready; 0 switches it off.
        restore: Whether used interpreters are made what they were and used again.
        restoring_s: As `RESTORE_SECONDS`.
        return_s: As `RETURN_SECONDS`.
        clock: Gives the time, in seconds.
        opener: Opens an interpreter.
        on_start: Called when the thread is started.
    """

    def __init__(
        self,
        size: int,
        *,
        restore: bool = True,
        restoring_s: float = RESTORE_SECONDS,
        return_s: float = RETURN_SECONDS,
        clock: Callable[[], float] = time.monotonic,
        opener: Callable[..., Interpreter] = open_interpreter,
        on_start: Callable[[], None] | None = None,
    ) -> None:
        self._restoring_s = restoring_s
        self._return_s = return_s
        self._condition = threading.Condition()
        super().__init__(size, restore=restore, lock=self._condition)
        self._resting = 0
        self._spent: list[Interpreter] = []
        self._left: list[Interpreter] = []
        self._coming = 0
        self._running = 0
        self._clock = clock
        self._opener = opener
        self._opening = False
        self._on_start = on_start
        self._moved = float("-inf")
        self._busy = False
        self._thread: threading.Thread | None = None

    def take(self, kind: InterpreterClass, source: str = "") -> Interpreter | None:
        """See `ReadyInterpreters`; one that is expected soon is waited for."""
        del source
        stale: list[Interpreter] = []
        with self._condition:
            self._out += 1
            if self._closed or self._size == 0:
                self._running += 1
                return None
            if self._wanted != kind:
                stale = self._change_class(kind)
            # One that is in use or being restored is ready sooner than another is opened: with
            # several threads at it, each opening holds all of them up.
            self._wait_for_one()
            taken = self._next()
            self._running += 1
            self._moved = self._clock()
            self._counts["missed" if taken is None else "used"] += 1
            self._resting = 0
            if not self._ready:
                self._condition.notify_all()
        for interpreter in stale:
            interpreter.close()
        return taken

    def _change_class(self, kind: InterpreterClass) -> list[Interpreter]:
        self._moved = float("-inf")  # those in use are of another class
        return super()._change_class(kind)

    def _wait_for_one(self) -> None:
        """Wait as long as one is expected soon, and none is ready."""
        until = self._clock() + self._restoring_s
        while not self._ready and (self._spent or self._coming or self._is_one_expected()):
            left = until - self._clock()
            if left <= 0:
                return
            if self._opening and self._spent:
                self._restore_here()
                continue
            self._condition.wait(min(left, self._return_s))

    def _restore_here(self) -> None:
        """Restore a used one in the thread that asks: the pool's is busy opening another."""
        used = self._spent.pop(0)
        self._coming += 1
        self._condition.release()
        try:
            restored = self._restore_one(used)
        finally:
            self._condition.acquire()
            self._coming -= 1
        if not restored:
            self._left.append(used)

    def _is_one_expected(self) -> bool:
        """Whether one that is in use will soon be back: those that come and go are quick."""
        moving = self._clock() - self._moved < self._return_s
        return self._restore and self._running > 0 and moving

    def _next(self) -> Interpreter | None:
        while self._ready:
            taken = self._ready.pop(0)
            if taken.ended is None:
                return taken
            self._counts["discarded"] += 1
        return None

    def done(self, used: Interpreter | None) -> None:
        """An execution that asked for an interpreter has ended; make the next one ready.

        What it ran in, the pool's or its own, is restored or closed by the pool's thread.
        """
        with self._condition:
            self._out -= 1
            self._running -= 1
            self._moved = self._clock()
            idle = self._closed or self._size == 0 or self._wanted is None
            if not idle:
                if used is not None:
                    self._spent.append(used)
                self._start()
                self._condition.notify_all()
        if idle and used is not None:
            used.close()

    def want(self, kind: InterpreterClass | None = None) -> bool:
        """Begin to fill the pool, though no execution asked for an interpreter yet.

        With interpreters of this class from now on; None leaves the one last asked for. Returns
        whether it is known of which class they are to be.
        """
        known = super().want(kind)
        with self._condition:
            if known and not self._closed and self._size > 0:
                self._start()
                self._condition.notify_all()
        return known

    def _start(self) -> None:
        """Start the thread, unless it runs; the lock is held."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="sandbox-pool", daemon=True)
            self._thread.start()
            if self._on_start is not None:
                self._on_start()

    def resize(self, size: int, *, restore: bool) -> None:
        """See `ReadyInterpreters`."""
        super().resize(size, restore=restore)
        with self._condition:
            self._condition.notify_all()

    def wait_ready(self, timeout_s: float) -> bool:
        """Wait until all that was used is restored or closed and the pool is as full as it gets.

        Interpreters in use count as ready, but for the last one, if they are to be restored.
        False if the time was too short, or if interpreters can't be opened.
        """
        with self._condition:
            settled = self._condition.wait_for(
                lambda: self._settled() and not (self._busy or self._spent or self._left),
                timeout_s,
            )
            return settled and self._resting < _FAILURES_BEFORE_REST

    def close(self) -> None:
        """Close every interpreter that is ready and end the thread; `take` gives None then."""
        with self._condition:
            self._closed = True
            left, self._ready = self._ready, []
            self._counts["discarded"] += len(left)
            self._condition.notify_all()
            thread, self._thread = self._thread, None
        if thread is not None and thread is not threading.current_thread():
            thread.join(_JOIN_SECONDS)
        with self._condition:
            left += self._spent + self._left
            self._spent, self._left = [], []
        for interpreter in left:
            interpreter.close()

    def _settled(self) -> bool:
        return (
            self._closed
            or self._wanted is None
            or len(self._ready) >= self._size
            or (bool(self._ready) and self._expecting())
            or self._resting >= _FAILURES_BEFORE_REST
        )

    def _expecting(self) -> bool:
        """Whether the pool will be full once those in use are back and all are restored."""
        coming = self._out + len(self._spent)
        return self._restore and len(self._ready) + coming >= self._size

    def _work(self) -> None:
        while True:
            with self._condition:
                self._busy = self._opening = False
                self._condition.notify_all()
                overdue = self._wait_for_work()
                if self._closed:
                    return
                self._busy = True
                spent, self._spent = self._spent, []
                self._coming += len(spent)
            # A used one is ready again in a fraction of the time that opening another takes.
            left = [used for used in spent if not self._restore_one(used)]
            with self._condition:
                self._coming -= len(spent)
                self._left += left
                kind = self._wanted
                # An empty pool is filled first; what is left of the used ones can wait.
                hurry = not self._ready and len(self._left) <= self._size
                lacking = not self._settled() and (overdue or not self._expecting())
                fill = lacking and (hurry or not self._left)
                left = []
                if not fill:
                    left, self._left = self._left, []
                self._opening = fill and kind is not None
                self._condition.notify_all()
            for used in left:
                used.close()
            if fill and kind is not None:
                self._open_one(kind)

    def _wait_for_work(self) -> bool:
        """Wait for something to do; True if interpreters were expected back, and did not come."""

        def work() -> bool:
            return self._closed or bool(self._spent or self._left)

        while not work():
            if self._settled():
                self._condition.wait()
            elif not self._expecting():
                break
            elif not self._condition.wait_for(work, self._return_s):
                return True
        return False

    def _restore_one(self, used: Interpreter) -> bool:
        with self._condition:
            wanted = self._restore and not self._closed and used.kind == self._wanted
            if not wanted or len(self._ready) >= self._size or used.ended is not None:
                return False
        if not used.restore():
            return False
        return self._keep(used, "restored")

    def _keep(self, interpreter: Interpreter, count: str) -> bool:
        """Have one that is ready wait for an execution, if there still is room for it."""
        with self._condition:
            self._counts[count] += 1
            keep = self._has_room_for(interpreter.kind)
            if keep:
                self._ready.append(interpreter)
            else:
                self._counts["discarded"] += 1
            self._condition.notify_all()
        return keep

    def _open_one(self, kind: InterpreterClass) -> None:
        try:
            opened = self._opener(kind, restorable=self._restore)
        except (SandboxError, ValueError) as error:
            _log.warning("pool.opening_failed", error=type(error).__name__, reason=str(error))
            with self._condition:
                self._counts["failures"] += 1
                self._resting += 1
                self._condition.notify_all()
            return
        if not self._keep(opened, "opened"):
            opened.close()
