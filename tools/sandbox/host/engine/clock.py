"""When a turn has to end: deadline, cancellation, waits, and the timer behind them."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable
from typing import Final

from .held_signals import SIGNALS

LOOK_SECONDS: Final = 0.05
"""Interval at which a computing turn is interrupted to check for cancellation, in seconds."""

DEADLINE: Final = "deadline"
CANCELLED: Final = "cancelled"


class TurnEnded(BaseException):
    """The guest must stop; raised in a host function, it becomes a trap.

    Attributes:
        reason: Why.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


NEVER: Final = threading.Event()
"""A cancellation event that is never set."""


class TurnClock:
    """The time limit of one turn.

    Args:
        seconds: How long the turn may take; None for no limit.
        cancel: Ends the turn early once set.
        monotonic: Returns the time in seconds.
        sleep: Waits a number of seconds.
    """

    def __init__(
        self,
        seconds: float | None,
        cancel: threading.Event = NEVER,
        *,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], object] = time.sleep,
    ) -> None:
        self._monotonic = monotonic
        self._sleep = sleep
        self._cancelled = cancel.is_set
        self._seconds = seconds
        self.stop_at = float("inf")
        self.begin_again()
        self.over = False

    def begin_again(self) -> None:
        """Allow the turn all of its time from now on."""
        if self._seconds is not None:
            self.stop_at = self._monotonic() + self._seconds

    def due(self) -> str | None:
        """Return why the turn has to end now, or None.

        Raises:
            BaseException: What a signal's handler raised.
        """
        if SIGNALS.pending:
            SIGNALS.deliver()
        if self._cancelled():
            return CANCELLED
        return DEADLINE if self._monotonic() >= self.stop_at else None

    def check(self) -> None:
        """Return if the turn may go on, else raise.

        Raises:
            TurnEnded: The turn has to end.
            BaseException: What a signal's handler raised.
        """
        if SIGNALS.pending:
            SIGNALS.deliver()
        if self._cancelled():
            raise TurnEnded(CANCELLED)
        if self._monotonic() >= self.stop_at:
            raise TurnEnded(DEADLINE)

    def wait(self, seconds: float) -> None:
        """Wait in slices, so that the wait ends at the deadline or on cancellation.

        Raises:
            TurnEnded: The turn has to end.
        """
        until = self._monotonic() + seconds
        while True:
            self.check()
            left = min(until, self.stop_at) - self._monotonic()
            if left <= 0:
                self.check()
                return
            self._sleep(min(left, LOOK_SECONDS))


class Ticker:
    """Interrupts computing guests when their turns are due, from one mostly idle thread.

    Args:
        interrupt: Makes every instance check its clock.
        monotonic: Returns the time in seconds.
        look_s: Interval at which a turn checks for cancellation, in seconds.
    """

    def __init__(
        self,
        interrupt: Callable[[], object],
        *,
        monotonic: Callable[[], float] = time.monotonic,
        look_s: float = LOOK_SECONDS,
    ) -> None:
        self._interrupt = interrupt
        self._monotonic = monotonic
        self._look_s = look_s
        self._lock = threading.RLock()  # `watch` enters the lock, not the condition
        self._condition = threading.Condition(self._lock)
        self._due: list[tuple[float, int, TurnClock]] = []
        self._numbers = itertools.count()
        self._wakes_at = float("inf")
        self._thread: threading.Thread | None = None

    def watch(self, clock: TurnClock) -> None:
        """Interrupt a turn whenever it is due, until its clock is over.

        An exception from a signal handler leaves nothing locked. A condition's `__enter__` is
        Python code, so a handler can raise between the acquisition and the block; a lock's is not.
        """
        with self._lock:
            at = self._push(clock)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="sandbox-ticker", daemon=True
                )
                self._thread.start()
            elif at < self._wakes_at:
                self._condition.notify_all()  # all: an interrupted wait leaves a stale waiter

    def _push(self, clock: TurnClock) -> float:
        now = self._monotonic()
        look = now + self._look_s
        at = clock.stop_at if now < clock.stop_at < look else look
        heapq.heappush(self._due, (at, next(self._numbers), clock))
        return at

    def _work(self) -> None:
        with self._condition:
            while True:
                if self._come_due():
                    self._interrupt()
                self._wakes_at = self._due[0][0] if self._due else float("inf")
                rest = None if not self._due else max(0.0, self._wakes_at - self._monotonic())
                self._condition.wait(rest)

    def _come_due(self) -> bool:
        """Remove due entries, put back turns that go on; return whether there were any."""
        now = self._monotonic()
        found = False
        while self._due and self._due[0][0] <= now:
            clock = heapq.heappop(self._due)[2]
            if not clock.over:
                found = True
                self._push(clock)
        return found
