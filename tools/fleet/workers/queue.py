"""The queue of a fleet: procrastinate on the store's own database, and our additions to it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterable
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, LiteralString, Protocol

import procrastinate
import psycopg
from procrastinate import PsycopgConnector
from procrastinate.jobs import Job
from procrastinate.manager import JobManager
from psycopg_pool import AsyncConnectionPool

from ...base.errors import AgentForgeError, ErrorKind
from ...base.event_log import get_logger
from .settings import FleetSettings

if TYPE_CHECKING:
    from collections.abc import Mapping

RUN_SESSION: Final = "agentforge.run_session"
_OPEN_S: Final = 10.0
_CLOSE_S: Final = 2.0
_log = get_logger("agentforge.fleet")

_WAKE: Final = "select agentforge.wake(%(session)s, now() + %(after)s::interval) job"
_WAKE_NOW: Final = "select agentforge.wake(%(session)s) job"
_COUNT: Final = "select agentforge.count_failure(%(session)s, %(reason)s) failures"
_PASS_ON: Final = "select agentforge.pass_on(%(session)s, %(needs)s, %(reason)s) refusals"  # noqa: S105 (no password)
_NOTE: Final = "select agentforge.note_reason(%(session)s, %(reason)s) noted"
_PROBLEM: Final = """
update agentforge.workers set problem = %(problem)s where worker_id = %(worker)s returning worker_id
"""
_RECOVER: Final = "select job, session, worker, successor from agentforge.recover(%(limit)s)"
_TAKEN: Final = """
select id from agentforge.procrastinate_jobs
where worker_id = %(worker)s and status = 'doing' and task_name = 'agentforge.run_session'
"""
_RELEASE: Final = "select agentforge.release(%(job)s, %(worker)s) released"
_SWEEP: Final = "select session from agentforge.sweep()"
_HEARTBEAT: Final = """
update agentforge.procrastinate_workers set last_heartbeat = now()
where id = any(%(workers)s) returning id
"""
_ALIVE: Final = """
select id from agentforge.procrastinate_workers
where id = any(%(workers)s) and last_heartbeat > now() - %(limit)s
"""
_DESCRIBE: Final = """
insert into agentforge.workers (worker_id, host, pid, concurrency, queues, version)
values (%(worker)s, %(host)s, %(pid)s, %(concurrency)s, %(queues)s, %(version)s)
on conflict (worker_id) do nothing returning worker_id
"""
_WAITING: Final = """
select count(*) waiting, extract(epoch from coalesce(max(now() - coalesce(scheduled_at,
    (select min(at) from agentforge.procrastinate_events where job_id = jobs.id))), '0')) age
from agentforge.procrastinate_jobs jobs
where status = 'todo' and queue_name = any(%(queues)s)
    and (scheduled_at is null or scheduled_at <= now())
"""


@asynccontextmanager
async def connected(url: str, settings: FleetSettings) -> AsyncIterator[PsycopgConnector]:
    """Yield a connector with a few connections while the context lasts.

    They find procrastinate's tables beside ours, and notice within the fleet's limit that the
    server is unreachable.

    Args:
        url: The store.
        settings: The worker's.

    Raises:
        psycopg.Error: The server does not answer now.
    """
    limit_s = max(2, round(settings.limit_s))
    pool = AsyncConnectionPool(
        url,
        min_size=1,
        max_size=4,
        timeout=settings.limit_s,
        open=False,
        check=AsyncConnectionPool.check_connection,
        name="agentforge fleet worker",
        kwargs={
            "options": "-c search_path=agentforge -c timezone=UTC",
            "application_name": "agentforge fleet worker",
            "connect_timeout": limit_s,
            "keepalives_idle": limit_s,
            "keepalives_interval": 2,
            "keepalives_count": 3,
            "tcp_user_timeout": limit_s * 1000,
        },
    )
    # A pool retries by itself, with ever longer waits: the first attempt is made without it.
    await (await psycopg.AsyncConnection.connect(url, connect_timeout=limit_s)).close()
    connector = PsycopgConnector()
    try:
        await pool.open(wait=True, timeout=_OPEN_S)
        await connector.open_async(pool)
        yield connector
    finally:
        await pool.close(timeout=_CLOSE_S)


class FleetQueue:
    """A worker's requests to the queue besides taking jobs.

    Args:
        connector: The open connector.
        settings: The worker's.
    """

    def __init__(self, connector: PsycopgConnector, settings: FleetSettings) -> None:
        self._connector = connector
        self._limit = timedelta(seconds=settings.limit_s)
        self._queues = list(settings.served)

    async def wake(self, session_id: str, after_s: float = 0.0) -> int | None:
        """Enqueue a look at a session, unless one waits; see `agentforge.wake`."""
        if after_s <= 0:
            row = await self._one(_WAKE_NOW, session=session_id)
        else:
            row = await self._one(_WAKE, session=session_id, after=timedelta(seconds=after_s))
        return None if row["job"] is None else int(row["job"])

    async def count_failure(self, session_id: str, reason: str) -> int:
        """Record a look that did not get the phase passed; return how many in a row did not."""
        row = await self._one(_COUNT, session=session_id, reason=reason)
        return int(row["failures"] or 1)

    async def pass_on(self, session_id: str, needs: str, reason: str) -> int | None:
        """Enqueue a session's next look for the workers that are allowed what it needs.

        Returns:
            How many of those refused it, too; None if the fleet no longer works on it.
        """
        row = await self._one(_PASS_ON, session=session_id, needs=needs, reason=reason)
        return None if row["refusals"] is None else int(row["refusals"])

    async def note_reason(self, session_id: str, reason: str) -> None:
        """Record why a look had no result, where the reason does not concern the session."""
        await self._one(_NOTE, session=session_id, reason=reason)

    async def recover(self) -> list[Mapping[str, Any]]:
        """Hand the sessions of silent workers to others; return what was done."""
        return await self._all(_RECOVER, limit=self._limit)

    async def taken(self, worker: int) -> set[int]:
        """Return the jobs that a worker runs according to the queue."""
        return {int(row["id"]) for row in await self._all(_TAKEN, worker=worker)}

    async def release(self, job: int, worker: int) -> bool:
        """End a job that its worker lost, and enqueue its session; return False if it had ended."""
        row = await self._one(_RELEASE, job=job, worker=worker)
        return bool(row["released"])

    async def sweep(self) -> list[str]:
        """Enqueue the sessions that lost their job; return them."""
        return [row["session"] for row in await self._all(_SWEEP)]

    async def heartbeat(self, workers: list[int], *, write: bool) -> bool:
        """Check whether the fleet considers this worker alive, or write its heartbeat.

        Args:
            workers: Its ids in the queue.
            write: Whether to write it; procrastinate does, while it takes jobs.
        """
        values: dict[str, Any] = {"workers": workers}
        if write:
            found = await self._all(_HEARTBEAT, **values)
        else:
            found = await self._all(_ALIVE, **values, limit=self._limit)
        return len(found) == len(workers)

    async def describe(self, worker: int, about: Mapping[str, Any]) -> None:
        """Record a worker's identity, for people."""
        await self._all(_DESCRIBE, worker=worker, **about)

    async def say(self, worker: int, problem: str | None) -> None:
        """Record why a worker takes no sessions, for people; None if it does."""
        await self._all(_PROBLEM, worker=worker, problem=problem)

    async def waiting(self) -> tuple[int, float]:
        """Return the number of runnable jobs, and the waiting time of the oldest, in seconds."""
        row = await self._one(_WAITING, queues=self._queues)
        return int(row["waiting"]), max(0.0, float(row["age"]))

    async def _one(self, statement: LiteralString, **values: Any) -> Mapping[str, Any]:
        found: Mapping[str, Any] = await self._connector.execute_query_one_async(
            statement, **values
        )
        return found

    async def _all(self, statement: LiteralString, **values: Any) -> list[Mapping[str, Any]]:
        return [*await self._connector.execute_query_all_async(statement, **values)]


class _Jobs(JobManager):
    """An application's jobs, which are only taken if `may_take` allows it."""

    def __init__(
        self, connector: PsycopgConnector, may_take: Callable[[], Awaitable[bool]]
    ) -> None:
        super().__init__(connector)
        self._may_take = may_take

    async def fetch_job(self, queues: Iterable[str] | None, worker_id: int) -> Job | None:
        """Take a job, or none: the worker asks again after its poll interval."""
        return await super().fetch_job(queues, worker_id) if await self._may_take() else None


def new_app(
    connector: PsycopgConnector, *, may_take: Callable[[], Awaitable[bool]] | None = None
) -> procrastinate.App:
    """Return an application of procrastinate without tasks.

    Args:
        connector: The open connector.
        may_take: Returns whether a job may be taken now; always if None.
    """
    app = procrastinate.App(connector=connector)
    if may_take is not None:
        app.job_manager = _Jobs(connector, may_take)
    return app


def words_of(error: BaseException) -> str:
    """Return an error and its cause on one line: the queue's own messages are too terse."""
    cause = error.__cause__
    texts = [" ".join(str(one or "").split()) for one in (error, cause)]
    return ": ".join(text for text in texts if text) or type(error).__name__


class FleetStopped(AgentForgeError, kind=ErrorKind.STORAGE):
    """A worker ended without a request to stop."""

    message = """the worker ended: {reason}. Its sessions go on with other workers, or with this one
    once it is started again; nothing that was saved is lost."""
    reason: str


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
