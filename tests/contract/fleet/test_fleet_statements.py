"""What the fleet's functions in the database promise, each in its caller's transaction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.errors import NotSubmitted
from agentforge_sessions.fleet.postgres.fleet_view import FleetView
from agentforge_sessions.fleet.postgres.store import PostgresStore, SubmittingStore
from agentforge_sessions.harness import SessionConflict, SessionContext, SessionManager
from agentforge_sessions.harness.session_layout import WORKFLOW_FILE
from agentforge_sessions.harness.submission import Submission

LATER = datetime(2100, 1, 1, tzinfo=UTC)


def submitting(database: Database, tmp_path: Path, **given: Any) -> SubmittingStore:
    return SubmittingStore(database, tmp_path, Submission(**given))


def submitted(database: Database, tmp_path: Path, **given: Any) -> SessionContext:
    session = SessionContext.create("run", "one")
    submitting(database, tmp_path, **given).save(session, attachments={WORKFLOW_FILE: b"steps"})
    return session


def ask(database: Database, function: str, *values: object) -> Any:
    marks = ", ".join(["%s"] * len(values))
    row = database.one(f"select agentforge.{function}({marks})", values)  # type: ignore[arg-type]
    assert row is not None
    return row[0]


def all_jobs(database: Database) -> list[tuple[Any, ...]]:
    with database.connection() as connection:
        return connection.execute(
            "select lock, queue_name, priority, status::text, scheduled_at from "
            "agentforge.procrastinate_jobs order by id"
        ).fetchall()


@contextmanager
def queue(database: Database) -> Iterator[Any]:
    """Give a transaction that finds procrastinate's tables, as its own connections do."""
    with database.transaction() as connection:
        connection.execute("set local search_path to agentforge")
        yield connection


def take(database: Database, silent: timedelta = timedelta(0)) -> int:
    """Have a worker take the next job, and be silent since; return the job."""
    with queue(database) as connection:
        (worker,) = connection.execute(
            "select * from procrastinate_register_worker_v1()"
        ).fetchone()
        (job,) = connection.execute(
            "select id from procrastinate_fetch_job_v2(null, %s)", (worker,)
        ).fetchone()
        connection.execute(
            "update procrastinate_workers set last_heartbeat = now() - %s::interval where id = %s",
            (silent, worker),
        )
    return int(job)


def recovered(database: Database, limit: timedelta = timedelta(seconds=5)) -> list[Any]:
    with database.connection() as connection:
        return connection.execute("select * from agentforge.recover(%s)", (limit,)).fetchall()


def test_a_session_and_its_job_are_written_at_once(database: Database, tmp_path: Path) -> None:
    session = submitted(database, tmp_path, queue="night", priority=3, at=LATER)
    assert all_jobs(database) == [(session.session_id, "night", 3, "todo", LATER)]
    assert PostgresStore(database, tmp_path).load(session.session_id) == session


def test_a_save_that_is_refused_submits_nothing(database: Database, tmp_path: Path) -> None:
    session = SessionContext.create("run", "one")
    PostgresStore(database, tmp_path).save(session)
    PostgresStore(database, tmp_path).save(session)
    session.revision -= 1
    session.add_history("late")
    with pytest.raises(SessionConflict):
        submitting(database, tmp_path).save(session)
    assert all_jobs(database) == []
    with pytest.raises(NotSubmitted):
        FleetView(database).withdraw(session.session_id)


def test_lists_that_were_written_anew_are_submitted_too(database: Database, tmp_path: Path) -> None:
    session = SessionContext.create("run", "one")
    session.add_artifact("a", "created")
    session.add_artifact("b", "created")
    PostgresStore(database, tmp_path).save(session)
    del session.artifacts[0]
    submitting(database, tmp_path).save(session)
    assert len(all_jobs(database)) == 1


def test_a_session_that_is_there_is_submitted_by_the_save_that_resumes_it(
    database: Database, tmp_path: Path
) -> None:
    first = SessionManager(PostgresStore(database, tmp_path))
    session = first.create("run", "one")
    first.pause()
    manager = SessionManager(submitting(database, tmp_path))
    manager.open(session.session_id)
    manager.resume()
    assert [row[0] for row in all_jobs(database)] == [session.session_id]


def test_what_is_submitted_again_waits_once_as_was_said_last(
    database: Database, tmp_path: Path
) -> None:
    session = submitted(database, tmp_path, queue="night", at=LATER)
    submitting(database, tmp_path, queue="day", priority=1).submit(session)
    assert all_jobs(database) == [(session.session_id, "day", 1, "todo", None)]


def test_a_session_is_woken_once_and_only_where_it_was_submitted(
    database: Database, tmp_path: Path
) -> None:
    session = submitted(database, tmp_path)
    other = SessionContext.create("run", "one")
    PostgresStore(database, tmp_path).save(other)
    assert ask(database, "wake", session.session_id) is None  # one waits
    take(database)
    assert ask(database, "wake", session.session_id) is not None
    assert ask(database, "wake", session.session_id) is None
    assert ask(database, "wake", other.session_id) is None
    assert [row[3] for row in all_jobs(database)] == ["doing", "todo"]


def test_one_that_has_ended_is_woken_no_more(database: Database, tmp_path: Path) -> None:
    session = submitted(database, tmp_path)
    take(database)
    manager = SessionManager(PostgresStore(database, tmp_path))
    manager.open(session.session_id)
    manager.abort()
    assert ask(database, "wake", session.session_id) is None


def test_an_answer_wakes_a_session_that_sleeps_and_no_later_moment_puts_it_off(
    database: Database, tmp_path: Path
) -> None:
    session = submitted(database, tmp_path, queue="night", at=LATER)
    sooner = LATER - timedelta(days=1)
    assert ask(database, "wake", session.session_id, sooner) is not None
    assert [row[4] for row in all_jobs(database)] == [sooner]
    with database.connection() as listener:
        listener.execute('listen "procrastinate_queue_v1#night"')
        listener.commit()
        assert ask(database, "wake", session.session_id, None) is not None
        assert len(list(listener.notifies(timeout=30, stop_after=1))) == 1
    assert [row[4] for row in all_jobs(database)] == [None]
    assert ask(database, "wake", session.session_id, LATER) is None
    assert [row[4] for row in all_jobs(database)] == [None]


def test_a_wake_that_is_undone_enqueues_nothing(database: Database, tmp_path: Path) -> None:
    session = submitted(database, tmp_path)
    take(database)
    with database.connection() as connection:
        connection.execute("begin")
        connection.execute("select agentforge.wake(%s)", (session.session_id,))
        connection.execute("rollback")
    assert len(all_jobs(database)) == 1


def test_a_silent_workers_job_is_ended_and_its_session_enqueued(
    database: Database, tmp_path: Path
) -> None:
    session = submitted(database, tmp_path, queue="night", priority=2)
    job = take(database, silent=timedelta(seconds=9))
    assert recovered(database, timedelta(seconds=10)) == []
    (found,) = recovered(database)
    assert (found[0], found[1], found[3]) == (job, session.session_id, job + 1)
    assert [row[1:4] for row in all_jobs(database)] == [
        ("night", 2, "aborted"),
        ("night", 2, "todo"),
    ]
    assert recovered(database) == []


def test_a_job_whose_worker_is_not_known_any_more_is_recovered(
    database: Database, tmp_path: Path
) -> None:
    submitted(database, tmp_path)
    take(database)
    with database.connection() as connection:
        connection.execute("delete from agentforge.procrastinate_workers")
    assert len(recovered(database)) == 1


def test_what_was_cancelled_is_not_enqueued_by_recovery(database: Database, tmp_path: Path) -> None:
    session = submitted(database, tmp_path)
    take(database, silent=timedelta(seconds=9))
    assert FleetView(database).withdraw(session.session_id) is True
    (found,) = recovered(database)
    assert found[3] is None
    assert [row[3] for row in all_jobs(database)] == ["aborted"]


def test_recovery_while_a_look_waits_already_adds_none(database: Database, tmp_path: Path) -> None:
    session = submitted(database, tmp_path)
    take(database, silent=timedelta(seconds=9))
    ask(database, "wake", session.session_id)
    (found,) = recovered(database)
    assert found[3] is None
    assert [row[3] for row in all_jobs(database)] == ["aborted", "todo"]


def test_recovery_ends_the_connection_that_holds_the_session(
    database: Database, tmp_path: Path
) -> None:
    session = submitted(database, tmp_path)
    late = PostgresStore(database, tmp_path)
    late.job_id = take(database, silent=timedelta(seconds=9))
    lock = late.run_lock(session.session_id, WORKFLOW_FILE, timeout_s=0.0).acquire()
    recovered(database)
    new = PostgresStore(database, tmp_path)
    new.run_lock(session.session_id, WORKFLOW_FILE, timeout_s=30.0).acquire().release()
    lock.release()


def test_active_sessions_without_a_job_are_swept_up(database: Database, tmp_path: Path) -> None:
    lost, kept = submitted(database, tmp_path), submitted(database, tmp_path)
    paused = submitted(database, tmp_path)
    manager = SessionManager(PostgresStore(database, tmp_path))
    manager.open(paused.session_id)
    manager.pause()
    with queue(database) as connection:
        connection.execute("delete from procrastinate_jobs where lock <> %s", (kept.session_id,))
        found = connection.execute("select * from agentforge.sweep()").fetchall()
    assert found == [(lost.session_id,)]
    assert sorted(row[0] for row in all_jobs(database)) == sorted(
        [kept.session_id, lost.session_id]
    )


def test_failures_are_counted_in_a_row_and_by_phase(database: Database, tmp_path: Path) -> None:
    session = submitted(database, tmp_path)
    counts = [ask(database, "count_failure", session.session_id, "why") for _ in range(3)]
    manager = SessionManager(PostgresStore(database, tmp_path))
    manager.open(session.session_id)
    manager.advance_phase("two")
    counts.append(ask(database, "count_failure", session.session_id, "again"))
    assert counts == [1, 2, 3, 1]
    (shown,), _ = FleetView(database).jobs()
    assert (shown.attempts, shown.reason, shown.phase) == (1, "again", "two")
    submitting(database, tmp_path).submit(session)
    assert FleetView(database).jobs()[0][0].attempts == 0


def test_a_deleted_sessions_submission_and_its_job_go_with_it(
    database: Database, tmp_path: Path
) -> None:
    session = submitted(database, tmp_path)
    PostgresStore(database, tmp_path).delete(session.session_id)
    assert ask(database, "wake", session.session_id) is None
    with pytest.raises(NotSubmitted):
        FleetView(database).withdraw(session.session_id)
    assert FleetView(database).jobs() == ([], 0)


def test_who_waits_for_a_lock_is_told_when_it_is_released(
    database: Database, tmp_path: Path
) -> None:
    """On the channel that workers of the queue listen to."""
    session = submitted(database, tmp_path, queue="night")
    job = take(database)
    waiting = ask(database, "wake", session.session_id)
    listening = database.connect()
    try:
        listening.execute('listen "procrastinate_queue_v1#night"')
        with queue(database) as connection:
            connection.execute("select procrastinate_finish_job_v1(%s, 'succeeded', false)", (job,))
        (told,) = listening.notifies(timeout=60.0, stop_after=1)
    finally:
        listening.close()
    assert f'"job_id" : {waiting}' in told.payload


def test_jobs_are_listed_in_the_order_in_which_they_matter(
    database: Database, tmp_path: Path
) -> None:
    running = submitted(database, tmp_path)
    take(database)
    later = submitted(database, tmp_path, at=LATER)
    low, high = submitted(database, tmp_path), submitted(database, tmp_path, priority=9)
    found, total = FleetView(database).jobs()
    assert [(one.session_id, one.state) for one in found] == [
        (running.session_id, "running"),
        (high.session_id, "waiting"),
        (low.session_id, "waiting"),
        (later.session_id, "scheduled"),
    ]
    assert (total, FleetView(database).jobs(limit=1)[1]) == (4, 4)
    assert FleetView(database).jobs(failed=True) == ([], 0)
    (one,), _ = FleetView(database).jobs(session_id=low.session_id)
    assert one.session_id == low.session_id


def test_a_job_that_its_worker_runs_no_more_is_released_once(
    database: Database, tmp_path: Path
) -> None:
    session = submitted(database, tmp_path)
    job = take(database)
    row = database.one("select worker_id from agentforge.procrastinate_jobs")
    assert row is not None
    assert ask(database, "release", job, row[0] + 1) is False  # another worker's
    assert ask(database, "release", job, row[0]) is True
    assert ask(database, "release", job, row[0]) is False
    assert [(row[0], row[3]) for row in all_jobs(database)] == [
        (session.session_id, "aborted"),
        (session.session_id, "todo"),
    ]


def test_a_session_that_waits_for_a_worker_was_not_cut_off(
    database: Database, tmp_path: Path
) -> None:
    session = submitted(database, tmp_path)
    store = PostgresStore(database, tmp_path)
    assert store.is_interrupted(session.session_id, session.state) is False
    with queue(database) as connection:
        connection.execute("delete from procrastinate_jobs")
    assert store.is_interrupted(session.session_id, session.state) is True
