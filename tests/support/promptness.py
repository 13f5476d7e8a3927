"""Limits in wall-clock time, judged so that a busy machine does not fail them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

TRIES = 10
PATIENCE_S = 60.0

_Result = TypeVar("_Result")


def soonest(measure: Callable[[], float], limit_s: float) -> float:
    """The least of some times, measured until one is within a limit.

    A machine that is busy with other things may hold up one try; what is not held to its limit is
    late each time.

    Args:
        measure: Does it once, checks what else there is to check, and returns how long it took.
        limit_s: When no more tries are needed, in seconds.
    """
    times: list[float] = []
    while len(times) < TRIES and not (times and times[-1] <= limit_s):
        times.append(measure())
    return min(times)


def given_time(
    attempt: Callable[[float], _Result], first_s: float, reached: Callable[[_Result], object]
) -> _Result:
    """What comes of an attempt whose limit was long enough for what must happen before it.

    A limit in seconds that ends something is short where nothing holds it up, and four times as
    long at each next try; what never happens is tried for a minute, and told by the caller.

    Args:
        attempt: Does it once with a limit in seconds.
        first_s: The first limit, in seconds.
        reached: Whether what must happen before the limit did.
    """
    limit_s = first_s
    while not reached(result := attempt(limit_s)) and limit_s < PATIENCE_S:
        limit_s *= 4
    return result


def wait_until(holds: Callable[[], object], *, patience_s: float = PATIENCE_S) -> None:
    """Wait until something holds, or for a minute; what did not happen by then fails.

    A program that is not ours, and starts slowly, may be given more patience.
    """
    until = time.monotonic() + patience_s
    while not holds():
        assert time.monotonic() < until, f"it did not happen within {patience_s:.0f} s"
        time.sleep(0.005)


def when(holds: Callable[[], object], act: Callable[[], object]) -> threading.Thread:
    """Do something in a thread of its own once something holds, or after a minute.

    What a timer would do at a moment that is too early or too late on a busy machine.

    Returns:
        The thread, started; to be joined.
    """

    def wait_and_act() -> None:
        until = time.monotonic() + PATIENCE_S
        while not holds() and time.monotonic() < until:
            time.sleep(0.005)
        act()

    thread = threading.Thread(target=wait_and_act, name="when")
    thread.start()
    return thread
