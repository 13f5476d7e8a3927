"""Jobs that are running according to the queue, but no longer run by their worker.

The connection can be lost just when procrastinate writes that a job has ended. It does not retry;
since the worker lives, the job is not recovered, and its session would wait for ever.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from ...base.event_log import get_logger

_log = get_logger("agentforge.fleet")


class TakenJobs(Protocol):
    """The queue's record of a worker's jobs; `FleetQueue`."""

    async def taken(self, worker: int) -> set[int]:
        """Return the jobs that a worker runs according to the queue."""
        ...

    async def release(self, job: int, worker: int) -> bool:
        """End a job, and enqueue its session; return False if it had ended already."""
        ...


class LostJobs:
    """Finds and ends the lost jobs of one worker.

    Args:
        queue: The queue's record.
        limit_s: How long a job must be lost before it is ended, in seconds: its end may be about to
            be written.
    """

    def __init__(self, queue: TakenJobs, limit_s: float) -> None:
        self._queue = queue
        self._limit_s = limit_s
        self._since: dict[int, float] = {}

    async def release(self, worker: int, running: Collection[int], now: float) -> None:
        """End the jobs that have been lost for the limit.

        Args:
            worker: The worker.
            running: The jobs it runs.
            now: The time, in seconds, on any monotonic clock.
        """
        lost = await self._queue.taken(worker) - set(running)
        self._since = {job: self._since.get(job, now) for job in lost}
        for job, since in list(self._since.items()):
            if now - since >= self._limit_s and await self._queue.release(job, worker):
                _log.warning("fleet.job.released", job=job)
