"""When a turn has to end: its deadline, its cancellation, its waits, and the timer behind them."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable
from typing import Final

from .held_signals import SIGNALS

LOOK_SECONDS: Final = 0.05
"""How often a turn that computes is interrupted to look whether it has been cancelled."""

DEADLINE: Final = "deadline"
CANCELLED: Final = "cancelled"


class TurnEnded(BaseException):
    """The guest must not go on; raised in a host function, it becomes a trap.

    Attributes:
        reason: Why.
    """

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


NEVER: Final = threading.Event()
"""Cancels nothing: nobody sets it."""


class TurnClock:
    """The time that one turn has.

    Args:
        seconds: How long it may take; None for as long as it likes.
        cancel: Ends it early once set.
        monotonic: Gives the time in seconds.
        sleep: Waits that many seconds.
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
        self.stop_at: Final = float("inf") if seconds is None else monotonic() + seconds
        self.over = False

    def due(self) -> str | None:
        """Why the turn has to end now, or None.

        Raises:
            BaseException: What a signal's handler raised.
        """
        if SIGNALS.pending:
            SIGNALS.deliver()
        if self._cancelled():
            return CANCELLED
        return DEADLINE if self._monotonic() >= self.stop_at else None

    def check(self) -> None:
        """Go on, or not.

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
        """Wait in slices, so that a wait outlives neither the deadline nor a cancellation.

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
    """Interrupts what computes when a turn is due, from one thread that otherwise rests.

    Args:
        interrupt: Has every instance look at its clock.
        monotonic: Gives the time in seconds.
        look_s: How often a turn looks whether it was cancelled.
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
        self._lock = threading.RLock()  # entered itself: see `watch`
        self._condition = threading.Condition(self._lock)
        self._due: list[tuple[float, int, TurnClock]] = []
        self._numbers = itertools.count()
        self._wakes_at = float("inf")
        self._thread: threading.Thread | None = None

    def watch(self, clock: TurnClock) -> None:
        """Interrupt a turn when it is due, until its clock says that it is over.

        What a signal's handler raises here leaves nothing locked: a condition is entered in Python,
        where a handler can raise after it was acquired and before the block, the lock is not.
        """
        with self._lock:
            at = self._push(clock)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._work, name="sandbox-ticker", daemon=True
                )
                self._thread.start()
            elif at < self._wakes_at:
                self._condition.notify_all()  # one that a handler cut short leaves a stale waiter

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
        """Take out what is due, put back what goes on; whether there was any."""
        now = self._monotonic()
        found = False
        while self._due and self._due[0][0] <= now:
            clock = heapq.heappop(self._due)[2]
            if not clock.over:
                found = True
                self._push(clock)
        return found
