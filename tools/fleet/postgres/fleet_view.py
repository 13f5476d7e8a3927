"""What a fleet does at this moment, for people: its workers, its jobs, and how to cancel one."""

from __future__ import annotations

from datetime import datetime
from typing import Final, Literal, Self

from attrs import frozen

from ...harness.submission import Submission
from .database import Database
from .errors import NotSubmitted
from .sessions.session_repository import checked_id

JobState = Literal["running", "waiting", "scheduled", "failed"]

_WORKERS: Final = """
select about.host, about.pid, about.queues, about.concurrency, about.version, about.started_at,
    about.problem, now() - known.last_heartbeat, (
        select count(*) from agentforge.procrastinate_jobs jobs
        where jobs.worker_id = known.id and jobs.status = 'doing')
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
select page.session, page.state, page.queue_name, page.priority, page.scheduled_at, (
        select max(at) from agentforge.procrastinate_events
        where job_id = page.id and type <> 'scheduled'), -- whose time is the one it waits for
    coalesce(submissions.failures, 0), submissions.failed_for, sessions.state,
    sessions.current_phase, workers.host, workers.pid, now(), (select count(*) from jobs)
from page left join agentforge.sessions on sessions.id = page.session
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


@frozen(kw_only=True)
class WorkerView:
    """A worker.

    Attributes:
        host: Its machine.
        pid: Its process there.
        queues: What it takes jobs of.
        concurrency: How many sessions it runs at once.
        running: How many it runs now.
        version: Its release.
        started_at: Since when.
        silent_s: How long ago it said that it is alive, in seconds.
        problem: Why it takes no sessions, or None.
    """

    host: str
    pid: int
    queues: tuple[str, ...]
    concurrency: int
    running: int
    version: str
    started_at: datetime
    silent_s: float
    problem: str | None


@frozen(kw_only=True)
class JobView:
    """A job: what is about to happen with a session, or has failed.

    Attributes:
        session_id: The session.
        state: Where the job stands.
        queue: Its queue.
        priority: Before those of a lower one.
        scheduled_at: Not before this time, or None.
        since: Since when it stands there.
        age_s: How long that is, in seconds.
        attempts: How many looks in a row did not get the session's phase passed.
        reason: Why the last of them did not, or None.
        session_state: The session's, or None: it is not there any more.
        phase: The session's phase, or None.
        worker: Whose it is, as `host:pid`, or None.
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


class FleetView:
    """A fleet as it stands, seen by a connection of its own; close it, as by a `with` statement.

    Args:
        database: The store.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._database.close()

    @property
    def where(self) -> str:
        """The store, for messages."""
        return self._database.name

    def workers(self) -> list[WorkerView]:
        """Return the workers that the fleet takes for alive, by machine."""
        with self._database.connection() as connection:
            rows = connection.execute(_WORKERS).fetchall()
        return [
            WorkerView(
                host=row[0],
                pid=row[1],
                queues=tuple(row[2]),
                concurrency=row[3],
                version=row[4],
                started_at=row[5],
                problem=row[6],
                silent_s=max(0.0, row[7].total_seconds()),
                running=row[8],
            )
            for row in rows
        ]

    def jobs(
        self, *, failed: bool = False, session_id: str | None = None, limit: int = 50
    ) -> tuple[list[JobView], int]:
        """Return the first jobs: running, waiting, scheduled, failed; and how many there are.

        A failed job counts while it is the last of a session that is submitted and has not ended.

        Args:
            failed: Whether only those that failed are wanted.
            session_id: Whose, or None for all.
            limit: The most that are returned.
        """
        values = {
            "statuses": ["failed"] if failed else ["doing", "todo", "failed"],
            "session": None if session_id is None else checked_id(session_id),
            "limit": limit,
        }
        with self._database.connection() as connection:
            rows = connection.execute(_JOBS, values).fetchall()
        found = [
            JobView(
                session_id=row[0],
                state=row[1],
                queue=row[2],
                priority=row[3],
                scheduled_at=row[4],
                since=row[5],
                age_s=max(0.0, (row[12] - row[5]).total_seconds()),
                attempts=row[6],
                reason=row[7],
                session_state=row[8],
                phase=row[9],
                worker=None if row[10] is None else f"{row[10]}:{row[11]}",
            )
            for row in rows
        ]
        return found, rows[0][13] if rows else 0

    def failed(self) -> list[tuple[str, Submission]]:
        """Return the sessions that the fleet has given up, oldest first, each as it was submitted.

        It works on them still as soon as they are submitted again: they have not ended.
        """
        with self._database.connection() as connection:
            rows = connection.execute(_FAILED).fetchall()
        return [(one, Submission(queue=queue, priority=priority)) for one, queue, priority in rows]

    def withdraw(self, session_id: str) -> bool:
        """Have the fleet work on a session no more; return whether a worker runs it, which stops.

        Raises:
            NotSubmitted: The fleet does not work on it.
        """
        row = self._database.one("select agentforge.withdraw(%s)", (checked_id(session_id),))
        if row is None or row[0] is None:
            raise NotSubmitted(session_id, store=self.where)
        return bool(row[0])
