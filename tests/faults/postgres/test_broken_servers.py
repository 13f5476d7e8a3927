"""A server that is killed, full, overrun, slow or closed to a role is told by its type."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import psycopg
import pytest

from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.errors import (
    StoreError,
    StoreForbidden,
    StoreFull,
    StoreRefused,
    StoreUnavailable,
)
from agentforge_sessions.fleet.postgres.schema import migrate, require_migrated
from agentforge_sessions.fleet.postgres.sessions.session_repository import PostgresSessions
from agentforge_sessions.harness import SessionConflict, SessionContext
from tests.support.mounts import mounted_tmpfs
from tests.support.own_postgres import OwnPostgres, own_postgres
from tests.support.postgres import PostgresServer
from tests.support.postgres_sessions import stored
from tests.support.promptness import wait_until
from tests.support.soak import SOAKING

SMALL: Final = (
    *("shared_buffers=8MB", "max_wal_size=32MB", "min_wal_size=32MB", "max_connections=20"),
    *("autovacuum=off", "restart_after_crash=on"),
)
KILLS: Final = 20 if SOAKING else 1
WRITERS: Final = 3


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder whose path is short enough for a socket, and which everyone may enter."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="module")
def _running(server: PostgresServer) -> Iterator[OwnPostgres]:
    """A server that waits for the disk, with the tables. (Its programs can be run by then.)"""
    del server
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        with own_postgres(Path(name) / "own", SMALL) as running:
            with Database(running.url) as database:
                migrate(database)
            yield running


@pytest.fixture
def own(_running: OwnPostgres) -> OwnPostgres:
    """The server, without a session."""
    _running.run("truncate agentforge.sessions cascade")
    return _running


class Writer:
    """Adds numbered entries to a session of its own, as a worker would: on, whatever happens."""

    def __init__(self, url: str, number: int) -> None:
        self.number = number
        self.acknowledged = 0
        self.errors: list[type[BaseException]] = []
        self._database = Database(url, connect_s=2.0)
        self._stop = threading.Event()
        self._store = PostgresSessions(self._database)
        self.session = SessionContext.create(goal=f"writer {number}")
        self._store.save(self.session)
        self._thread = threading.Thread(target=self._write, name=f"writer {number}")
        self._thread.start()

    def _write(self) -> None:
        with self._database:
            while not self._stop.is_set():
                if not self._is_stored(self.acknowledged):
                    self.session.add_history("noted", details=str(self.acknowledged))
                try:
                    self._store.save(self.session)
                    self.acknowledged += 1
                except StoreUnavailable as error:
                    self.errors.append(type(error))
                except SessionConflict as error:  # what was told as lost had been done
                    self.errors.append(type(error))
                    self._load()
                    if self._is_stored(self.acknowledged):
                        self.acknowledged += 1

    def _is_stored(self, number: int) -> bool:
        return self.session.history[-1].details == str(number)

    def _load(self) -> None:
        while True:
            try:
                found = self._store.load(self.session.session_id)
            except StoreUnavailable:
                continue
            assert found is not None
            self.session = found
            return

    def end(self) -> None:
        self._stop.set()
        self._thread.join()


def test_a_server_that_is_killed_in_the_middle_of_saves_loses_none_and_doubles_none(
    own: OwnPostgres,
) -> None:
    writers = [Writer(own.url, number) for number in range(WRITERS)]
    try:
        for _ in range(KILLS):
            before = [one.acknowledged for one in writers]
            wait_until(
                lambda before=before: all(  # type: ignore[misc]
                    one.acknowledged > was + 5 for one, was in zip(writers, before, strict=True)
                )
            )
            own.kill()
            own.start()
        before = [one.acknowledged for one in writers]
        wait_until(
            lambda: all(
                one.acknowledged > was + 5 for one, was in zip(writers, before, strict=True)
            )
        )
    finally:
        for one in writers:
            one.end()
    with Database(own.url) as database, psycopg.connect(own.url) as direct:
        assert len(stored(direct)) == WRITERS
        for one in writers:
            found = PostgresSessions(database).load(one.session.session_id)
            assert found is not None
            said = [entry.details for entry in found.history[1:]]
            assert said == [str(number) for number in range(len(said))]
            # The last one may be told as lost and be there.
            assert len(said) - one.acknowledged in {0, 1}
            assert found.revision == 1 + len(said)
    errors = {kind.__name__ for one in writers for kind in one.errors}
    assert "StoreUnavailable" in errors
    print(
        f"{KILLS} kills of the server over {sum(one.acknowledged for one in writers)} saves: "
        f"{sum(len(one.errors) for one in writers)} refusals ({', '.join(sorted(errors))})"
    )


def fill(disk: Path, *, room: int) -> Path:
    """Leave so many bytes free on a disk; return what is to be removed to make room."""
    there = os.statvfs(disk)
    ballast = disk / "ballast"
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, there.f_bavail * there.f_frsize - room)
    return ballast


def save_until_refused(store: PostgresSessions, session: SessionContext) -> StoreError:
    """Add long entries until the store says no; return what it said."""
    for _ in range(2_000):
        session.add_history("noted", details=os.urandom(12_000).hex())
        revision = session.revision
        try:
            store.save(session)
        except StoreError as error:
            assert session.revision == revision
            return error
    pytest.fail("the disk is not full")


def test_a_full_disk_is_told_and_what_was_saved_stands_until_there_is_room(
    server: PostgresServer, short: Path
) -> None:
    del server
    with (
        mounted_tmpfs(short / "disk", options="size=96m,mode=755") as disk,
        own_postgres(short / "own", SMALL, data=disk / "data") as own,
        Database(own.url) as database,
    ):
        migrate(database)
        store = PostgresSessions(database)
        session = SessionContext.create(goal="one that fills the disk")
        store.save(session)
        ballast = fill(disk, room=2 << 20)

        told = save_until_refused(store, session)

        assert isinstance(told, StoreFull)
        assert told.sqlstate == "53100"
        assert "othing" in told.user_message
        found = store.load(session.session_id)
        assert found is not None
        assert found.revision == len(found.history) == session.revision
        ballast.unlink()
        store.save(session)
        assert store.load(session.session_id) == session


@pytest.mark.skipif(not SOAKING, reason="a server of its own; `make soak` runs it")
def test_a_server_that_can_t_write_ahead_ends_and_has_all_that_was_saved_once_there_is_room(
    server: PostgresServer, short: Path
) -> None:
    del server
    with (
        mounted_tmpfs(short / "disk", options="size=96m,mode=755") as disk,
        own_postgres(short / "own", SMALL, log_of_writes=disk / "wal") as own,
        Database(own.url, connect_s=2.0) as database,
    ):
        migrate(database)
        store = PostgresSessions(database)
        session = SessionContext.create(goal="one that fills the disk")
        store.save(session)
        ballast = fill(disk, room=2 << 20)

        told = save_until_refused(store, session)

        assert isinstance(told, (StoreFull, StoreUnavailable))
        wait_until(lambda: own.has_ended)
        ballast.unlink()
        own.kill()
        own.start()
        found = store.load(session.session_id)
        assert found is not None
        assert found.revision == len(found.history)
        assert found.revision in {session.revision, session.revision + 1}
        found.add_history("there is room")
        store.save(found)
        assert store.load(session.session_id) == found


def is_answering(store: PostgresSessions) -> bool:
    try:
        store.list_sessions()
    except StoreUnavailable:
        return False
    return True


def test_a_server_with_too_many_connections_is_told_and_serves_again_once_one_is_free(
    own: OwnPostgres,
) -> None:
    with Database(own.url, connect_s=2.0) as database, ExitStack() as others:
        store = PostgresSessions(database)
        held = [others.enter_context(psycopg.connect(own.url)) for _ in range(20)]
        with pytest.raises(StoreUnavailable, match="too many clients") as told:
            store.list_sessions()
        assert told.value.retryable
        with pytest.raises(StoreUnavailable, match="too many clients"):
            database.connect()
        held[0].close()
        wait_until(lambda: is_answering(store))


def as_role(url: str, role: str) -> str:
    """Return a database's address for another role."""
    return url.replace("postgres@", f"{role}@", 1)


def test_a_role_without_rights_is_told_what_it_may_not_do_and_changes_nothing(
    own: OwnPostgres,
) -> None:
    own.run("create role reader login")
    own.run("grant usage on schema agentforge to reader")
    own.run("grant select on all tables in schema agentforge to reader")
    with Database(own.url) as database, Database(as_role(own.url, "reader")) as reading:
        session = SessionContext.create()
        PostgresSessions(database).save(session)
        store = PostgresSessions(reading)
        assert store.load(session.session_id) == session
        session.add_history("noted")
        refusals: list[Callable[[], object]] = [
            lambda: store.save(session),
            lambda: store.save(SessionContext.create()),
            lambda: store.delete(session.session_id),
            lambda: store.keep_step(session.session_id, "step.json", b"{}"),
        ]
        for refusal in refusals:
            with pytest.raises(StoreRefused, match="permission denied") as told:
                refusal()
            assert told.value.sqlstate == "42501"
            assert not told.value.retryable
        assert session.revision == 1
        assert len(PostgresSessions(database).list_sessions()) == 1


def test_a_role_that_may_not_even_look_is_told_so(own: OwnPostgres) -> None:
    own.run("create role stranger login")
    with (
        Database(as_role(own.url, "stranger"), ready=require_migrated) as database,
        pytest.raises(StoreRefused, match="permission denied") as told,
    ):
        PostgresSessions(database).list_sessions()
    assert told.value.sqlstate == "42501"


def test_a_role_that_does_not_exist_is_told_so_and_not_only_that_time_is_up(
    own: OwnPostgres,
) -> None:
    with (
        Database(as_role(own.url, "nobody_of_this_name"), connect_s=2.0) as database,
        pytest.raises(StoreForbidden, match="does not exist"),
    ):
        PostgresSessions(database).list_sessions()


def test_a_statement_that_takes_longer_than_the_server_allows_is_told_and_changes_nothing(
    own: OwnPostgres,
) -> None:
    own.run("create role hurried login superuser")
    own.run("alter role hurried set statement_timeout = '200ms'")
    with (
        Database(own.url) as database,
        Database(as_role(own.url, "hurried")) as hurried,
        psycopg.connect(own.url) as other,
    ):
        session = SessionContext.create()
        PostgresSessions(database).save(session)
        other.execute("select 1 from agentforge.sessions for update")  # and keeps it
        store = PostgresSessions(hurried)
        session.add_history("noted")
        with pytest.raises(StoreRefused) as told:
            store.save(session)
        assert told.value.sqlstate == "57014"
        assert session.revision == 1
        other.rollback()
        store.save(session)
        assert PostgresSessions(database).load(session.session_id) == session


def test_nothing_is_printed_about_a_server_that_is_not_there() -> None:
    code = (
        "from agentforge_sessions.fleet.postgres.database import Database\n"
        "from agentforge_sessions.fleet.postgres.errors import StoreUnavailable\n"
        "database = Database('postgresql://me@127.0.0.1:1/sessions', connect_s=0.5)\n"
        "try:\n"
        "    database.one('select 1')\n"
        "except StoreUnavailable:\n"
        "    print('told')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert (done.stdout, done.stderr) == ("told\n", "")
