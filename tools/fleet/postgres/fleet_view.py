"""The current state of a fleet, for people: its workers, its jobs, and how to cancel one."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Final, Literal, Self

from attrs import field, frozen
from psycopg.rows import class_row, dict_row

from ...harness.submission import Submission
from .database import OnDatabase
from .errors import NotSubmitted
from .sessions.session_rows import checked_id

JobState = Literal["running", "waiting", "scheduled", "failed"]

_WORKERS: Final = """
select about.host, about.pid, about.queues, about.concurrency, about.version, about.started_at,
    about.problem,
    extract(epoch from greatest(now() - known.last_heartbeat, '0'))::float8 as silent_s, (
        select count(*) from agentforge.procrastinate_jobs jobs
        where jobs.worker_id = known.id and jobs.status = 'doing') as running
from agentforge.procrastinate_workers known
    join agentforge.workers about on about.worker_id = known.id
order by about.host, about.pid
"""
_JOBS: Final = """
with jobs as (
    select id, lock session, queue_name, priority, scheduled_at, worker_id,
        case when status = 'doing' then 'running'
            when status = 'failed' then 'failed'
            when scheduled_at > now() then 'scheduled'
            else 'waiting' end state
    from agentforge.procrastinate_jobs every
    where task_name = 'agentforge.run_session'
        and status = any(%(statuses)s::text[]::agentforge.procrastinate_job_status[])
        and (%(session)s::text is null or lock = %(session)s)
        and (status <> 'failed' or exists (
            select 1 from agentforge.submissions join agentforge.sessions
                on sessions.id = submissions.session_id
            where session_id = every.lock and sessions.state in ('active', 'paused')
                and not exists (
                    select 1 from agentforge.procrastinate_jobs later
                    where later.lock = every.lock and later.id > every.id)))),
page as (
    select * from jobs
    order by array_position(array['running', 'waiting', 'scheduled', 'failed'], state),
        case when state = 'failed' then -id end, priority desc, scheduled_at nulls first, id
    limit %(limit)s)
select page.session as session_id, page.state, page.queue_name as queue, page.priority,
    page.scheduled_at, since, extract(epoch from greatest(now() - since, '0'))::float8 as age_s,
    coalesce(submissions.failures, 0) as attempts, submissions.failed_for as reason,
    sessions.state as session_state, sessions.current_phase as phase,
    workers.host || ':' || workers.pid as worker, (select count(*) from jobs) as every
from page cross join lateral (
        select max(at) as since from agentforge.procrastinate_events
        where job_id = page.id and type <> 'scheduled') -- whose time is the one it waits for
    as stands
    left join agentforge.sessions on sessions.id = page.session
    left join agentforge.submissions on submissions.session_id = page.session
    left join agentforge.workers on workers.worker_id = page.worker_id
order by array_position(array['running', 'waiting', 'scheduled', 'failed'], page.state),
    case when page.state = 'failed' then -page.id end, priority desc, scheduled_at nulls first,
    page.id
"""
_FAILED: Final = """
select session_id, queue, priority
from agentforge.submissions join agentforge.sessions on sessions.id = session_id
where state in ('active', 'paused') and 'failed' = (
    select status from agentforge.procrastinate_jobs where lock = session_id
    order by id desc limit 1)
order by session_id
"""


def _as_tuple(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(names)


@frozen(kw_only=True)
class WorkerView:
    """A worker.

    Attributes:
        host: Its machine.
        pid: Its process there.
        queues: The queues that it takes jobs from.
        concurrency: How many sessions it runs at once.
        running: How many it runs now.
        version: Its release.
        started_at: When it started.
        silent_s: The time since its last heartbeat, in seconds.
        problem: Why it takes no sessions, or None.
    """

    host: str
    pid: int
    queues: tuple[str, ...] = field(converter=_as_tuple)
    concurrency: int
    running: int
    version: str
    started_at: datetime
    silent_s: float
    problem: str | None


@frozen(kw_only=True)
class JobView:
    """A job: a pending, running or failed look at a session.

    Attributes:
        session_id: The session.
        state: The job's state.
        queue: Its queue.
        priority: It runs before those of a lower priority.
        scheduled_at: Not before this time, or None.
        since: When it entered its state.
        age_s: The time since then, in seconds.
        attempts: How many looks in a row did not get the session's phase passed.
        reason: Why the last of them did not, or None.
        session_state: The session's state, or None if it no longer exists.
        phase: The session's phase, or None.
        worker: Its worker, as `host:pid`, or None.
    """

    session_id: str
    state: JobState
    queue: str
    priority: int
    scheduled_at: datetime | None
    since: datetime
    age_s: float
    attempts: int
    reason: str | None
    session_state: str | None
    phase: str | None
    worker: str | None


class FleetView(OnDatabase):
    """The current state of a fleet; has a connection of its own, closed by a `with` statement.

    Args:
        database: The store.
    """

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    @property
    def where(self) -> str:
        """The store, for messages."""
        return self._database.name

    def workers(self) -> list[WorkerView]:
        """Return the workers that the fleet considers alive, by machine."""
        with self._database.connection() as connection:
            cursor = connection.cursor(row_factory=class_row(WorkerView))
            return cursor.execute(_WORKERS).fetchall()

    def jobs(
        self, *, failed: bool = False, session_id: str | None = None, limit: int = 50
    ) -> tuple[list[JobView], int]:
        """Return the first jobs: running, waiting, scheduled, failed; and the number of all.

        A failed job counts only if it is the last of a session that is submitted and has not ended.

        Args:
            failed: Whether to return only failed ones.
            session_id: Only the jobs of this session, or None for all.
            limit: The maximum returned.
        """
        values = {
            "statuses": ["failed"] if failed else ["doing", "todo", "failed"],
            "session": None if session_id is None else checked_id(session_id),
            "limit": limit,
        }
        with self._database.connection() as connection:
            rows = connection.cursor(row_factory=dict_row).execute(_JOBS, values).fetchall()
        every = [row.pop("every") for row in rows]
        return [JobView(**row) for row in rows], every[0] if every else 0

    def failed(self) -> list[tuple[str, Submission]]:
        """Return the sessions that the fleet has given up, oldest first, with their submissions.

        They have not ended: the fleet works on them again once they are submitted again.
        """
        rows = self._database.all(_FAILED)
        return [(one, Submission(queue=queue, priority=priority)) for one, queue, priority in rows]

    def withdraw(self, session_id: str) -> bool:
        """Withdraw a session from the fleet; return whether a worker runs it, which will stop.

        Raises:
            NotSubmitted: The fleet does not work on it.
        """
        row = self._database.one("select agentforge.withdraw(%s)", (checked_id(session_id),))
        if row is None or row[0] is None:
            raise NotSubmitted(session_id, store=self.where)
        return bool(row[0])
