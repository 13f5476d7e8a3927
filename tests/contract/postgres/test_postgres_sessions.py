"""What only sessions in PostgreSQL promise; what every store does is in the contract's suite."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings

from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.errors import StoreRefused, StoreUnavailable
from agentforge_sessions.fleet.postgres.sessions.session_repository import PostgresSessions
from agentforge_sessions.harness import SessionConflict, SessionContext
from agentforge_sessions.harness.format.session_codec import encode_session
from tests.support.postgres import PostgresServer
from tests.support.soak import SOAKING
from tests.support.strategies import sessions

WRITERS, ROUNDS = (8, 100) if SOAKING else (4, 10)


def rows(database: Database, table: str) -> list[tuple[object, ...]]:
    """Return the rows of a table with where each version of them lies."""
    with database.connection() as connection:
        found = connection.execute(f"select xmin, ctid, * from agentforge.{table}".encode())
        return sorted(tuple(map(str, row)) for row in found)


@given(session=sessions())
@settings(
    max_examples=200 if SOAKING else 15,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_a_session_comes_back_as_its_file_would(
    database: Database, session: SessionContext
) -> None:
    store = PostgresSessions(database)
    store.delete(session.session_id)
    session.revision = 0
    store.save(session)
    assert PostgresSessions(database).load(session.session_id) == session
    assert store.read_document(session.session_id) == encode_session(session)


def test_a_save_writes_what_is_new_and_no_more(database: Database) -> None:
    store = PostgresSessions(database)
    session = SessionContext.create(goal="a goal")
    session.add_artifact("one.py", "created")
    store.save(session)
    before = {table: rows(database, table) for table in TABLES}
    session.add_history("noted", details="more")
    store.save(session)
    after = {table: rows(database, table) for table in TABLES}
    assert after["session_documents"] == before["session_documents"]
    assert after["session_artifacts"] == before["session_artifacts"]
    assert set(after["session_history"]) > set(before["session_history"])
    assert len(after["session_history"]) == len(before["session_history"]) + 1


def test_a_worker_that_knows_nothing_of_it_adds_to_a_session_all_the_same(
    database: Database,
) -> None:
    session = SessionContext.create()
    PostgresSessions(database).save(session)
    before = rows(database, "session_history")
    session.add_history("noted")
    PostgresSessions(database).save(session)
    assert set(rows(database, "session_history")) > set(before)


def test_lists_that_were_changed_by_hand_are_written_anew(database: Database) -> None:
    store = PostgresSessions(database)
    session = SessionContext.create()
    for number in range(3):
        session.add_artifact(f"{number}.py", "created")
    store.save(session)
    del session.artifacts[1]
    store.save(session)
    again = PostgresSessions(database).load(session.session_id)
    assert again == session
    assert [one.path for one in session.artifacts] == ["0.py", "2.py"]


def test_a_refused_save_is_followed_by_one_that_stands(database: Database) -> None:
    mine, other = PostgresSessions(database), PostgresSessions(database)
    session = SessionContext.create()
    mine.save(session)
    theirs = other.load(session.session_id)
    assert theirs is not None
    theirs.add_history("theirs")
    other.save(theirs)
    session.add_history("mine")
    with pytest.raises(SessionConflict):
        mine.save(session)
    again = mine.load(session.session_id)
    assert again is not None
    again.add_history("mine")
    mine.save(again)
    stored = other.load(session.session_id)
    assert stored is not None
    assert [one.action for one in stored.history[1:]] == ["theirs", "mine"]


def test_racing_writers_lose_nothing(database: Database) -> None:
    session = SessionContext.create()
    PostgresSessions(database).save(session)
    begin = threading.Barrier(WRITERS)

    def write(writer: int) -> None:
        store = PostgresSessions(database)
        begin.wait()
        for number in range(ROUNDS):
            while True:
                mine = store.load(session.session_id)
                assert mine is not None
                mine.add_history(f"writer {writer}", details=str(number))
                try:
                    store.save(mine)
                except SessionConflict:
                    continue
                break

    with ThreadPoolExecutor(WRITERS) as threads:
        for done in [threads.submit(write, number) for number in range(WRITERS)]:
            done.result()
    stored = PostgresSessions(database).load(session.session_id)
    assert stored is not None
    assert stored.revision == 1 + WRITERS * ROUNDS
    for writer in range(WRITERS):
        said = [one.details for one in stored.history if one.action == f"writer {writer}"]
        assert said == [str(number) for number in range(ROUNDS)]


def test_a_server_that_is_not_there_is_said(server: PostgresServer) -> None:
    nowhere = Database("postgresql://me:secret@127.0.0.1:1/sessions", connect_s=0.1)
    with nowhere, pytest.raises(StoreUnavailable) as refused:
        PostgresSessions(nowhere).list_sessions()
    assert refused.value.retryable
    assert "secret" not in str(refused.value)
    assert refused.value.store == "postgresql://me@127.0.0.1:1/sessions"


def test_connections_that_the_server_ended_are_replaced(
    server: PostgresServer, database: Database
) -> None:
    now = [0.0]
    session = SessionContext.create()
    with Database(database.url, monotonic=lambda: now[0]) as resting:
        store = PostgresSessions(resting)
        store.save(session)
        server.end_connections(database.url)
        now[0] += 60
        assert store.load(session.session_id) == session


def test_what_the_server_refuses_is_said_with_its_code(empty: Database) -> None:
    with pytest.raises(StoreRefused) as refused:
        PostgresSessions(empty).list_sessions()
    assert refused.value.sqlstate == "42P01"


TABLES = ("sessions", "session_documents", "session_artifacts", "session_history")
