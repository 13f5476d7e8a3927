"""A process that is killed at a statement, whatever it does to the store, leaves all or nothing.

Run as a module, this file is the process.
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from attrs import frozen

from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.schema import migrate, migrations
from agentforge_sessions.fleet.postgres.store import PostgresStore
from agentforge_sessions.harness import SessionContext
from agentforge_sessions.harness.session_layout import WORKFLOW_FILE
from tests.crash._forked_workers import KILLED, Workers, serve
from tests.support.postgres_proxy import Moment, PostgresProxy, Statement
from tests.support.postgres_sessions import Stored, advisory_locks, is_left_alone, stored
from tests.support.promptness import wait_until
from tests.support.soak import SOAKING

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

STRIDE: Final = 1 if SOAKING else 7
ATTACHMENTS: Final = {WORKFLOW_FILE: b"name: killed\n", "other.txt": b"o" * 3000}


# ----------------------------------------------------------------------------------- the process


def _only(store: PostgresStore) -> SessionContext:
    (session_id,) = store.list_sessions()
    session = store.load(session_id)
    assert session is not None
    return session


def _is_noted(session: SessionContext) -> bool:
    return any(one.action == "noted" for one in session.history)


def create(store: PostgresStore) -> None:
    """Create the session, if nobody has."""
    if not store.list_sessions():
        session = SessionContext.create("tdflow", "red", goal="a goal")
        session.add_artifact("one.py", "created")
        store.save(session, attachments=ATTACHMENTS)


def save(store: PostgresStore) -> None:
    """Add an artifact and an entry, if nobody has."""
    session = _only(store)
    if not _is_noted(session):
        session.add_artifact("two.py", "created")
        session.add_history("noted")
        session.goal = "another goal"
        store.save(session)


def save_anew(store: PostgresStore) -> None:
    """Save what must be written as a whole, in several statements, if nobody has."""
    session = _only(store)
    if not _is_noted(session):
        session.artifacts.clear()
        session.add_artifact("three.py", "created")
        session.add_history("noted")
        store.save(session)


def work_under_the_lock(store: PostgresStore) -> None:
    """Do what a run does: take the lock, look, save, let go."""
    (session_id,) = store.list_sessions()
    lock = store.run_lock(session_id, WORKFLOW_FILE, timeout_s=10)
    lock.acquire()
    try:
        save(store)
        store.keep_step(session_id, "step.json", b"{}")
    finally:
        lock.release()


def delete(store: PostgresStore) -> None:
    """Delete all there is."""
    for session_id in store.list_sessions():
        store.delete(session_id)


TASKS: Final[dict[str, Callable[[PostgresStore], None]]] = {
    "create": create,
    "save": save,
    "save anew": save_anew,
    "work under the lock": work_under_the_lock,
    "delete": delete,
}


def work(base: Path, log: Path) -> None:
    """Do the task that a file names."""
    del log
    told = json.loads(base.read_text())
    with Database(told["url"]) as database:
        if told["task"] == "migrate":
            migrate(database)
        else:
            TASKS[told["task"]](PostgresStore(database, base.parent / "places"))


# -------------------------------------------------------------------------------------- the test


@pytest.fixture(scope="module")
def workers() -> Iterator[Workers]:
    with Workers("tests.crash.fleet.test_killed_at_each_statement") as one:
        yield one


@frozen
class Place:
    """A database, the door to it, and the processes that use it."""

    workers: Workers
    proxy: PostgresProxy
    direct: psycopg.Connection[Any]
    told: Path

    def run(self, task: str) -> int:
        self.told.write_text(json.dumps({"url": self.proxy.url, "task": task}))
        return self.workers.run(self.told, self.told)

    def settle(self) -> None:
        """Wait until the server has noticed that the process is not there any more."""
        wait_until(lambda: is_left_alone(self.direct))

    def states(self, task: str) -> list[Stored]:
        """Do the task undisturbed; return what is stored before it and after each statement."""
        states = [stored(self.direct)]

        def look(statement: Statement, moment: Moment) -> bool:
            del statement
            if moment is Moment.DONE:
                states.append(stored(self.direct))
            return False

        with self.proxy.losing(look):
            assert self.run(task) == 0
        self.settle()
        return states

    def killed(self, task: str, number: int, moment: Moment) -> None:
        """Do the task in a process that is killed at this statement."""
        last = self.proxy.statements + number

        def kill(statement: Statement, now: Moment) -> bool:
            if (statement.number, now) != (last, moment):
                return False
            assert statement.pid != os.getpid()
            os.kill(statement.pid, signal.SIGKILL)
            return True

        with self.proxy.losing(kill):
            assert self.run(task) == KILLED
        self.settle()


@pytest.fixture
def place(workers: Workers, database: Database, tmp_path: Path) -> Iterator[Place]:
    with (
        tempfile.TemporaryDirectory() as short,
        PostgresProxy(database.url, Path(short)) as proxy,
        psycopg.connect(database.url, autocommit=True) as direct,
    ):
        yield Place(workers, proxy, direct, tmp_path / "task.json")


def begin(place: Place, task: str) -> None:
    """Make the database what the task begins with."""
    place.direct.execute("truncate agentforge.sessions cascade")
    if task != "create":
        assert place.run("create") == 0
        place.settle()


def moments(statements: int) -> list[tuple[int, Moment]]:
    """Return where to kill: each moment of each statement, or some of them."""
    return [(number, moment) for number in range(1, statements + 1) for moment in Moment][::STRIDE]


@pytest.mark.parametrize("task", TASKS)
def test_a_process_that_is_killed_at_a_statement_leaves_all_or_nothing_of_it(
    place: Place, task: str
) -> None:
    begin(place, task)
    states = place.states(task)
    assert states[0] != states[-1]
    where = moments(len(states) - 1)
    for number, moment in where:
        begin(place, task)
        place.killed(task, number, moment)
        now = stored(place.direct)
        if moment is Moment.BEFORE:
            assert now == states[number - 1]
        elif moment is Moment.DONE:
            assert now == states[number]
        else:
            assert now in states[number - 1 : number + 1]
        assert advisory_locks(place.direct) == []
        assert place.run(task) == 0  # the next one goes on
        place.settle()
        assert without_revision(stored(place.direct)) == without_revision(states[-1])
    print(f"{task}: {len(states) - 1} statements, {len(where)} kills")


def without_revision(sessions: Stored) -> Stored:
    """Drop the revisions: each worker that takes the lock may raise it."""
    return [one[1:] for one in sessions]


def test_a_migration_that_is_killed_at_a_statement_leaves_nothing_and_is_repeated(
    workers: Workers, empty: Database, tmp_path: Path
) -> None:
    with (
        tempfile.TemporaryDirectory() as short,
        PostgresProxy(empty.url, Path(short)) as proxy,
        psycopg.connect(empty.url, autocommit=True) as direct,
    ):
        place = Place(workers, proxy, direct, tmp_path / "task.json")
        assert place.run("migrate") == 0
        statements = proxy.statements
        where = moments(statements)[:: 1 if SOAKING else 4]
        for number, moment in where:
            direct.execute("drop schema if exists agentforge cascade")
            place.settle()
            place.killed("migrate", number, moment)
            ran = numbers(direct)
            if (number, moment) == (statements, Moment.DONE):
                assert ran == len(migrations())
            elif (number, moment) == (statements, Moment.SENT):
                assert ran in {0, len(migrations())}
            else:
                assert ran == 0
            assert advisory_locks(direct) == []
            assert place.run("migrate") == 0
            place.settle()
            assert numbers(direct) == len(migrations())
        print(f"migrate: {statements} statements, {len(where)} kills")


def numbers(connection: psycopg.Connection[Any]) -> int:
    """Return how many migrations ran; 0 where there is no schema of ours at all."""
    there = connection.execute("select 1 from pg_namespace where nspname = 'agentforge'")
    if there.fetchone() is None:
        return 0
    found = connection.execute("select count(*) from agentforge.migrations").fetchone()
    assert found is not None
    return int(found[0])


if __name__ == "__main__":
    serve(work)
