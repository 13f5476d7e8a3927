"""A run's claim: who takes a session last is who saves it; a late worker's saves are refused."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.sessions.session_lock import PostgresRunLock
from agentforge_sessions.fleet.postgres.store import PostgresStore
from agentforge_sessions.harness import SessionContext, SessionFenced, SessionManager
from agentforge_sessions.harness.domain.history_events import PhaseSucceeded
from agentforge_sessions.harness.ports import PhaseResult
from agentforge_sessions.harness.session_layout import WORKFLOW_FILE


class Executor:
    """A phase executor that does something of the test's own while a phase runs."""

    def __init__(self, act: object = None) -> None:
        self.act = act

    def execute(self, code: str, **_given: object) -> PhaseResult:
        if callable(self.act):
            self.act()
        return PhaseResult(success=True, exit_code=0)


@pytest.fixture
def session(database: Database, tmp_path: Path) -> SessionContext:
    """A session that a runner leads."""
    session = SessionContext.create("run", "one")
    PostgresStore(database, tmp_path).save(session, attachments={WORKFLOW_FILE: b"steps"})
    return session


def taken(store: PostgresStore, session: SessionContext) -> PostgresRunLock:
    return store.run_lock(session.session_id, WORKFLOW_FILE, timeout_s=0.0).acquire()


def end_holder(database: Database, store: PostgresStore, session: SessionContext) -> object:
    """End the connection that holds a session, as recovery does."""
    with database.connection() as connection:
        return connection.execute(
            "select agentforge.end_holder(%s, %s)", (session.session_id, store.job_id)
        ).fetchone()


def worker(database: Database, tmp_path: Path, name: str) -> PostgresStore:
    store = PostgresStore(database, tmp_path / name)
    store.job_id = sum(name.encode())
    return store


def test_each_claim_raises_the_revision(
    database: Database, session: SessionContext, tmp_path: Path
) -> None:
    store = PostgresStore(database, tmp_path)
    for _ in range(2):
        taken(store, session).release()
    found = store.load(session.session_id)
    assert found is not None
    assert found.revision == session.revision + 2
    found.add_history("noted")
    store.save(found)


def test_one_that_has_ended_is_claimed_no_more(
    database: Database, session: SessionContext, tmp_path: Path
) -> None:
    store = PostgresStore(database, tmp_path)
    manager = SessionManager(store)
    manager.open(session.session_id)
    manager.abort()
    revision = store.load(session.session_id).revision  # type: ignore[union-attr]
    taken(store, session).release()
    assert store.load(session.session_id).revision == revision  # type: ignore[union-attr]


def test_who_holds_a_session_only_against_its_runs_claims_nothing(
    database: Database, session: SessionContext, tmp_path: Path
) -> None:
    store = PostgresStore(database, tmp_path)
    with store.idle(session.session_id, [WORKFLOW_FILE]):
        session.add_history("noted")
        store.save(session)


def test_a_lock_whose_connection_was_ended_is_free_for_the_next_worker(
    database: Database, session: SessionContext, tmp_path: Path
) -> None:
    late, new = worker(database, tmp_path, "late"), worker(database, tmp_path, "new")
    lock = taken(late, session)
    assert end_holder(database, new, session) == (0,)  # that is not its job
    assert end_holder(database, late, session) == (1,)
    other = new.run_lock(session.session_id, WORKFLOW_FILE, timeout_s=30.0).acquire()
    other.release()
    lock.release()


def test_a_late_workers_save_is_refused(
    database: Database, session: SessionContext, tmp_path: Path
) -> None:
    late, new = worker(database, tmp_path, "late"), worker(database, tmp_path, "new")
    lock = taken(late, session)
    mine = late.load(session.session_id)
    assert mine is not None
    end_holder(database, late, session)
    other = new.run_lock(session.session_id, WORKFLOW_FILE, timeout_s=30.0).acquire()
    theirs = new.load(session.session_id)

    mine.add_history("late")
    with pytest.raises(SessionFenced):
        late.save(mine)
    with pytest.raises(SessionFenced):
        late.keep_step(session.session_id, "0001.json", b"late")
    # What it reads anew is not its own either.
    again = late.load(session.session_id)
    assert again is not None
    again.add_history("late")
    with pytest.raises(SessionFenced):
        late.save(again)

    assert theirs is not None
    theirs.add_history("new")
    new.save(theirs)
    new.keep_step(session.session_id, "0001.json", b"new")
    other.release()
    lock.release()
    assert new.read_step(session.session_id, "0001.json") == b"new"
    stored = new.load(session.session_id)
    assert stored is not None
    assert [one.action for one in stored.history][1:] == ["new"]


def test_a_late_workers_result_is_not_recorded_on_top(
    database: Database, session: SessionContext, tmp_path: Path
) -> None:
    """A result outlives a pause that somebody made meanwhile, and not another worker's claim."""
    late, new = worker(database, tmp_path, "late"), worker(database, tmp_path, "new")
    claimed: list[PostgresRunLock] = []

    def take_over() -> None:
        end_holder(database, late, session)
        lock = new.run_lock(session.session_id, WORKFLOW_FILE, timeout_s=30.0)
        claimed.append(lock.acquire())

    lock = taken(late, session)
    manager = SessionManager(late, executor=Executor(take_over))
    manager.open(session.session_id)
    with pytest.raises(SessionFenced):
        manager.run_phase("pass")
    successor = SessionManager(new, executor=Executor())
    successor.open(session.session_id)
    successor.run_phase("pass")
    claimed[0].release()
    lock.release()
    stored = new.load(session.session_id)
    assert stored is not None
    assert sum(one.event_type is PhaseSucceeded for one in stored.history) == 1


def test_others_that_hold_no_claim_save_as_ever(
    database: Database, session: SessionContext, tmp_path: Path
) -> None:
    """A person pauses a session that a worker runs; the worker's result is recorded on top."""
    running = worker(database, tmp_path, "running")
    person = SessionManager(PostgresStore(database, tmp_path / "person"))

    def pause() -> None:
        person.open(session.session_id)
        person.pause("for a while")

    lock = taken(running, session)
    manager = SessionManager(running, executor=Executor(pause))
    manager.open(session.session_id)
    manager.run_phase("pass")
    lock.release()
    stored = running.load(session.session_id)
    assert stored is not None
    assert any(one.event_type is PhaseSucceeded for one in stored.history)


def test_of_workers_that_race_for_a_session_one_holds_it_at_a_time(
    database: Database, session: SessionContext, tmp_path: Path
) -> None:
    begin = threading.Barrier(4)
    holders, most = 0, 0
    mutex = threading.Lock()

    def run(number: int) -> None:
        nonlocal holders, most
        store = PostgresStore(database, tmp_path / str(number))
        begin.wait()
        lock = store.run_lock(session.session_id, WORKFLOW_FILE, timeout_s=60.0).acquire()
        with mutex:
            holders += 1
            most = max(most, holders)
        mine = store.load(session.session_id)
        assert mine is not None
        mine.add_history("noted")
        store.save(mine)
        with mutex:
            holders -= 1
        lock.release()

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert most == 1
    stored = PostgresStore(database, tmp_path).load(session.session_id)
    assert stored is not None
    assert [one.action for one in stored.history][1:] == ["noted"] * 4


def holder(database: Database, lock: PostgresRunLock) -> tuple[int, str]:
    """Return the server's process that holds a lock, and what it is called."""
    assert lock.is_held
    row = database.one(
        "select pid, application_name from pg_stat_activity join pg_locks using (pid) "
        "where locktype = 'advisory' and database = "
        "(select oid from pg_database where datname = current_database())"
    )
    assert row is not None
    return row[0], row[1]


def test_the_next_run_of_a_process_has_the_connection_of_the_last_and_nothing_else_of_it(
    database: Database, session: SessionContext, tmp_path: Path
) -> None:
    """To open one costs as much as two saves."""
    store = worker(database, tmp_path, "a")
    lock = taken(store, session)
    first, named = holder(database, lock)
    assert named == f"agentforge job {store.job_id}"
    lock.release()
    store.job_id = None
    lock = taken(store, session)
    assert holder(database, lock) == (first, "agentforge")
    lock.release()


def test_a_connection_that_the_server_ended_since_is_replaced(database: Database) -> None:
    now = [0.0]
    with Database(database.url, monotonic=lambda: now[0]) as own:
        kept = own.lend()
        pid = kept.info.backend_pid
        own.give_back(kept)
        database.one("select pg_terminate_backend(%s, 60000)", [pid])
        now[0] = 60.0
        other = own.lend()
        assert other.info.backend_pid != pid
        assert kept.closed
        own.give_back(other)


def test_of_the_connections_of_locks_one_is_kept_and_closed_with_the_store(
    database: Database, session: SessionContext, tmp_path: Path
) -> None:
    one, other = database.lend(), database.lend()
    database.give_back(one)
    database.give_back(other)
    assert (one.closed, other.closed) == (False, True)
    database.close()
    assert one.closed
