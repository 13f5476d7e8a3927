"""Jobs that the queue takes for running, and that their own worker runs no more.

A connection can be lost in the moment in which procrastinate writes that a job has ended. It does
not try again; the worker lives, so that nobody recovers the job, and its session would wait for
ever.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from ...base.event_log import get_logger

_log = get_logger("agentforge.fleet")


class TakenJobs(Protocol):
    """What the queue knows of a worker's jobs; `FleetQueue`."""

    async def taken(self, worker: int) -> set[int]:
        """Return the jobs that a worker runs, as the queue has it."""
        ...

    async def release(self, job: int, worker: int) -> bool:
        """End a job, and enqueue its session; False where it was ended meanwhile."""
        ...


class LostJobs:
    """Finds and ends such jobs of one worker.

    Args:
        queue: What the queue knows.
        limit_s: For how long a job has to be lost before it is ended, in seconds: its end may be
            about to be written.
    """

    def __init__(self, queue: TakenJobs, limit_s: float) -> None:
        self._queue = queue
        self._limit_s = limit_s
        self._since: dict[int, float] = {}

    async def release(self, worker: int, running: Collection[int], now: float) -> None:
        """End those that are lost for the limit.

        Args:
            worker: The worker.
            running: What it runs.
            now: The time, in seconds, on any clock that goes on.
        """
        lost = await self._queue.taken(worker) - set(running)
        self._since = {job: self._since.get(job, now) for job in lost}
        for job, since in list(self._since.items()):
            if now - since >= self._limit_s and await self._queue.release(job, worker):
                _log.warning("fleet.job.released", job=job)
