"""Limits in wall-clock time, judged so that a busy machine does not fail them."""

from __future__ import annotations

from collections.abc import Callable

TRIES = 3


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
