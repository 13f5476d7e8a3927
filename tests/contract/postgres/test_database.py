"""The connections to a PostgreSQL store: behind a pooler, in a forked process, in any time zone."""

from __future__ import annotations

import multiprocessing
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC
from urllib.parse import parse_qs, urlsplit

import pytest

from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.errors import (
    InvalidStoreAddress,
    StoreForbidden,
    StorePooled,
    StoreUnavailable,
)
from agentforge_sessions.fleet.postgres.sessions.session_lock import PostgresRunLock
from agentforge_sessions.fleet.postgres.sessions.session_repository import PostgresSessions
from agentforge_sessions.harness import SessionContext
from agentforge_sessions.harness.session_layout import WORKFLOW_FILE
from tests.support.pooler import transaction_pooler
from tests.support.postgres import PostgresServer

BEYOND_PREPARING = 12
"""So often a statement is run that it would be prepared."""


@contextmanager
def pooled(url: str) -> Iterator[str]:
    """The address of a pooler before a database."""
    parts = urlsplit(url)
    socket = f"{parse_qs(parts.query)['host'][0]}/.s.PGSQL.5432"
    with transaction_pooler(socket) as pooler:
        yield f"postgresql://{parts.username}@127.0.0.1:{pooler.port}{parts.path}"


def lead(database: Database) -> SessionContext:
    """Lead a session through a store, as often as statements need to be prepared."""
    store = PostgresSessions(database)
    session = SessionContext.create(goal="a goal")
    store.save(session, attachments={WORKFLOW_FILE: b"steps"})
    for number in range(BEYOND_PREPARING):
        session.add_history("noted", details=str(number))
        store.save(session)
        assert PostgresSessions(database).load(session.session_id) == session
        assert store.list_sessions() == [session.session_id]
    return session


def test_sessions_are_led_behind_a_pooler_of_transactions(database: Database) -> None:
    with pooled(database.url) as url, Database(url) as behind:
        session = lead(behind)
    assert PostgresSessions(database).load(session.session_id) == session


def fail_in_a_transaction(database: Database) -> None:
    with database.transaction() as connection:
        connection.execute("update agentforge.sessions set revision = revision + 1")
        raise ZeroDivisionError


def test_a_transaction_behind_a_pooler_is_whole(database: Database) -> None:
    with pooled(database.url) as url, Database(url) as behind:
        session = lead(behind)
        with pytest.raises(ZeroDivisionError):
            fail_in_a_transaction(behind)
        assert PostgresSessions(behind).load(session.session_id) == session


def run_lock(database: Database, session: SessionContext) -> PostgresRunLock:
    return PostgresRunLock(
        database, session.session_id, WORKFLOW_FILE, where=session.session_id, timeout_s=0.0
    )


def test_a_lock_behind_a_pooler_is_refused_with_what_to_do(database: Database) -> None:
    session = lead(database)
    with pooled(database.url) as url:
        for looked_before in (False, True):
            with Database(url) as behind:
                if looked_before:
                    behind.one("select 1")
                with pytest.raises(StorePooled, match="AGENTFORGE_STORE_DIRECT"):
                    run_lock(behind, session).acquire()


def test_a_lock_goes_to_the_server_itself(database: Database) -> None:
    session = lead(database)
    store = PostgresSessions(database)
    with pooled(database.url) as url, Database(url, direct=database.url) as behind:
        lock = run_lock(behind, session)
        lock.acquire()
        assert store.is_led(session.session_id)
        lock.release()
        assert not store.is_led(session.session_id)


def test_times_are_utc_whatever_the_server_says(fresh: Database) -> None:
    with fresh.connection() as connection:
        name = connection.info.dbname
        connection.execute(f"alter database \"{name}\" set timezone to 'Asia/Kolkata'".encode())
    with Database(fresh.url) as anew:
        assert anew.one("show timezone") == ("Asia/Kolkata",)
        session = lead(anew)
        found = anew.one("select created_at, null::timestamptz from agentforge.sessions")
        assert found == (session.created_at, None)
        assert found[0].tzinfo is UTC


def test_a_forked_process_opens_connections_of_its_own(database: Database) -> None:
    session = lead(database)
    mine = database.one("select pg_backend_pid()")
    here, there = multiprocessing.Pipe()

    def child() -> None:
        store = PostgresSessions(database)
        found = store.load(session.session_id)
        there.send((found == session, database.one("select pg_backend_pid()")))
        database.close()
        database.close()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of later Pythons, about threads
        process = multiprocessing.get_context("fork").Process(target=child)
        process.start()
    assert here.poll(60)
    same, theirs = here.recv()
    process.join()
    assert process.exitcode == 0
    assert same
    assert theirs != mine
    assert database.one("select pg_backend_pid()") == mine


def test_a_closed_one_opens_again(database: Database) -> None:
    assert database.one("select 1") == (1,)
    database.close()
    database.close()
    assert database.one("select 1") == (1,)


def test_a_server_that_is_not_there_is_said_at_once() -> None:
    with Database("postgresql://me:secret@127.0.0.1:1/sessions", connect_s=3_600) as nowhere:
        begun = time.monotonic()
        with pytest.raises(StoreUnavailable, match="refused") as refused:
            nowhere.one("select 1")
        assert time.monotonic() - begun < 60
    assert "secret" not in str(refused.value)


def test_a_database_that_there_is_not_is_no_reason_to_try_again(server: PostgresServer) -> None:
    missing = 'database "nosuch" does not exist'
    nowhere = Database(server.url_of("nosuch"))
    with nowhere, pytest.raises(StoreForbidden, match=missing) as refused:
        nowhere.one("select 1")
    assert not refused.value.retryable


@pytest.mark.parametrize("given", ["postgresql://[::1/x", "postgresql://h/x?nonsense=secret"])
def test_an_address_that_cant_be_read_is_refused_without_its_secrets(given: str) -> None:
    for url, direct in ((given, None), ("postgresql://h/x", given)):
        with pytest.raises(InvalidStoreAddress) as refused:
            Database(url, direct=direct)
        assert "secret" not in str(refused.value)
