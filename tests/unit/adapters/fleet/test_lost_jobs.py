"""Jobs whose end could not be written, while their worker lives."""

from __future__ import annotations

import asyncio

from agentforge_sessions.fleet.workers.queue import LostJobs


class Queue:
    def __init__(self) -> None:
        self.jobs: set[int] = set()
        self.released: list[int] = []

    async def taken(self, worker: int) -> set[int]:
        return set(self.jobs)

    async def release(self, job: int, worker: int) -> bool:
        self.jobs.discard(job)
        self.released.append(job)
        return True


def test_a_job_that_is_not_run_for_the_limit_is_ended() -> None:
    async def scenario() -> None:
        queue = Queue()
        lost = LostJobs(queue, limit_s=10.0)
        queue.jobs = {1, 2}
        await lost.release(7, {1, 2}, 0.0)
        await lost.release(7, {1}, 1.0)
        await lost.release(7, {1}, 10.9)
        assert queue.released == []
        await lost.release(7, {1}, 11.0)
        await lost.release(7, {1}, 99.0)
        assert queue.released == [2]

    asyncio.run(scenario())


def test_a_job_that_was_only_about_to_begin_or_end_is_left() -> None:
    async def scenario() -> None:
        queue = Queue()
        lost = LostJobs(queue, limit_s=10.0)
        queue.jobs = {1}
        await lost.release(7, set(), 0.0)  # taken, and not begun yet
        await lost.release(7, {1}, 5.0)
        await lost.release(7, set(), 12.0)  # about to be ended
        queue.jobs = set()
        await lost.release(7, set(), 30.0)
        assert queue.released == []

    asyncio.run(scenario())
