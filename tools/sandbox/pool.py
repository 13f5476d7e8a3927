"""Interpreters opened ahead of their executions.

Opening an interpreter takes several times as long as running a line in it. A thread keeps a few
open and prepared; an execution takes one, runs in it once, and closes it: none is ever used again.
A pooled interpreter has seen no workspace and no code of anybody. Only interpreters of the class
last asked for are opened ahead, those of others are given up as room is needed.
"""

from __future__ import annotations

import atexit
import os
import threading
from typing import Final

import structlog
from attrs import frozen

from tools.sandbox.errors import SandboxError
from tools.sandbox.interpreter import Interpreter, InterpreterClass, open_interpreter
from tools.sandbox.policy import shown

POOL_VARIABLE: Final = "AGENTFORGE_SANDBOX_POOL"
"""The environment variable that sets the pool's size before anything else does."""

DEFAULT_POOL_SIZE: Final = 2
MAX_POOL_SIZE: Final = 64

_JOIN_SECONDS: Final = 10.0
_FAILURES_BEFORE_REST: Final = 3

_log = structlog.get_logger(__name__)


@frozen(kw_only=True)
class PoolStats:
    """What the pool of this process did so far.

    Attributes:
        size: How many interpreters it keeps ready; 0 when it is off.
        ready: How many are ready now.
        opened: Interpreters opened ahead.
        used: Interpreters handed to an execution.
        missed: Executions that found none ready and opened their own.
        discarded: Interpreters closed without being used.
        failures: Openings that failed; after three in a row none is tried until it is needed.
    """

    size: int
    ready: int
    opened: int
    used: int
    missed: int
    discarded: int
    failures: int


class InterpreterPool:
    """A bounded number of interpreters of one class, opened by one thread."""

    def __init__(self, size: int) -> None:
        self._condition = threading.Condition()
        self._size = size
        self._ready: list[Interpreter] = []
        self._wanted: InterpreterClass | None = None
        self._resting = 0
        self._spent: list[Interpreter] = []
        self._busy = False
        self._thread: threading.Thread | None = None
        self._closed = False
        self._counts = dict.fromkeys(("opened", "used", "missed", "discarded", "failures"), 0)

    def take(self, kind: InterpreterClass) -> Interpreter | None:
        """An interpreter of this class that nobody used, or None if none is ready."""
        stale: list[Interpreter] = []
        with self._condition:
            if self._closed or self._size == 0:
                return None
            if self._wanted != kind:
                self._wanted = kind
                stale, self._ready = self._ready, []
                self._counts["discarded"] += len(stale)
            taken = self._next()
            self._counts["missed" if taken is None else "used"] += 1
            self._resting = 0
        for interpreter in stale:
            interpreter.close()
        return taken

    def _next(self) -> Interpreter | None:
        while self._ready:
            taken = self._ready.pop(0)
            if taken.ended is None:
                return taken
            self._counts["discarded"] += 1
        return None

    def done(self, used: Interpreter | None) -> None:
        """An execution that asked for an interpreter has ended; open the next one.

        Args:
            used: What it was given; closed by the pool's thread. None if it was given none.
        """
        with self._condition:
            idle = self._closed or self._size == 0 or self._wanted is None
            if not idle:
                if used is not None:
                    self._spent.append(used)
                if self._thread is None:
                    self._thread = threading.Thread(
                        target=self._work, name="sandbox-pool", daemon=True
                    )
                    self._thread.start()
                    # The runner's own hooks for the end of the process take away what an opening
                    # needs; the last registered is called first.
                    atexit.unregister(_at_exit)
                    atexit.register(_at_exit)
                self._condition.notify_all()
        if idle and used is not None:
            used.close()

    def resize(self, size: int) -> None:
        """Keep this many ready from now on."""
        with self._condition:
            self._size = size
            surplus = self._ready[size:]
            del self._ready[size:]
            self._counts["discarded"] += len(surplus)
            self._condition.notify_all()
        for interpreter in surplus:
            interpreter.close()

    def wait_ready(self, timeout_s: float) -> bool:
        """Wait until all that was used is closed and the pool is as full as it gets.

        Args:
            timeout_s: The longest wait, in seconds; False is returned if it was too short.
        """
        with self._condition:
            return self._condition.wait_for(
                lambda: self._settled() and not self._busy and not self._spent, timeout_s
            )

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
            left += self._spent
            self._spent = []
        for interpreter in left:
            interpreter.close()

    def stats(self) -> PoolStats:
        """The counts so far."""
        with self._condition:
            return PoolStats(size=self._size, ready=len(self._ready), **self._counts)

    def _settled(self) -> bool:
        return (
            self._closed
            or self._wanted is None
            or len(self._ready) >= self._size
            or self._resting >= _FAILURES_BEFORE_REST
        )

    def _work(self) -> None:
        while True:
            with self._condition:
                self._busy = False
                self._condition.notify_all()
                self._condition.wait_for(
                    lambda: self._closed or bool(self._spent) or not self._settled()
                )
                if self._closed:
                    return
                self._busy = True
                # An empty pool is filled first; what is left of the used ones can wait.
                fill = not self._settled() and (
                    not self._spent or (not self._ready and len(self._spent) <= self._size)
                )
                kind = self._wanted
                spent = [] if fill else self._spent
                if not fill:
                    self._spent = []
            for interpreter in spent:
                interpreter.close()
            if fill and kind is not None:
                self._open_one(kind)

    def _open_one(self, kind: InterpreterClass) -> None:
        try:
            opened = open_interpreter(kind)
        except (SandboxError, ValueError) as error:
            _log.warning("pool.opening_failed", error=type(error).__name__, reason=str(error))
            with self._condition:
                self._counts["failures"] += 1
                self._resting += 1
                self._condition.notify_all()
            return
        with self._condition:
            self._counts["opened"] += 1
            keep = not self._closed and self._wanted == kind and len(self._ready) < self._size
            if keep:
                self._ready.append(opened)
            else:
                self._counts["discarded"] += 1
            self._condition.notify_all()
        if not keep:
            opened.close()


_pool_lock = threading.Lock()
_pool: InterpreterPool | None = None
_abandoned: list[InterpreterPool] = []


def _size_from_environment() -> int:
    text = os.environ.get(POOL_VARIABLE, "").strip()
    if not text:
        return DEFAULT_POOL_SIZE
    try:
        return _checked_size(int(text))
    except ValueError:
        _log.warning(
            "pool.size_ignored", variable=POOL_VARIABLE, value=shown(text), used=DEFAULT_POOL_SIZE
        )
        return DEFAULT_POOL_SIZE


def _checked_size(size: object) -> int:
    if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size <= MAX_POOL_SIZE:
        raise ValueError(
            f"the size of the interpreter pool must be an integer from 0 to {MAX_POOL_SIZE}, not "
            f"{shown(size)}; the pool is as it was"
        )
    return size


def the_pool() -> InterpreterPool:
    """The pool of this process."""
    global _pool  # noqa: PLW0603 (one for the process)
    with _pool_lock:
        if _pool is None:
            _pool = InterpreterPool(_size_from_environment())
        return _pool


def configure_pool(size: int = DEFAULT_POOL_SIZE) -> None:
    """Keep this many interpreters ready; also after `close_pool`.

    Args:
        size: 0 to 64; 0 switches the pool off, and each execution opens its own interpreter.

    Raises:
        ValueError: The size is refused; the pool is as it was.
    """
    global _pool  # noqa: PLW0603
    checked = _checked_size(size)
    with _pool_lock:
        if _pool is not None and not _pool._closed:
            pool = _pool
        else:
            pool = _pool = InterpreterPool(checked)
    pool.resize(checked)


def pool_stats() -> PoolStats:
    """What the pool of this process did so far."""
    return the_pool().stats()


def close_pool() -> None:
    """Close the interpreters opened ahead and stop opening more; executions open their own.

    Done by itself when the process ends. `configure_pool` starts again.
    """
    the_pool().close()


def warm_pool(timeout_s: float = 10.0) -> bool:
    """Wait until the pool is full again; False if the time was too short for that."""
    return the_pool().wait_ready(timeout_s)


def _at_exit() -> None:
    if _pool is not None:
        _pool.close()


def _after_fork() -> None:
    """A forked child has no pool thread and may touch no interpreter of its parent."""
    global _pool, _pool_lock  # noqa: PLW0603
    _pool_lock = threading.Lock()
    if _pool is not None:
        _abandoned.append(_pool)  # kept, so that nothing of the parent's is closed here
        _pool = InterpreterPool(0)


os.register_at_fork(after_in_child=_after_fork)
