"""The role that programs work with: what it may do, and what no program with its password can."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege

from agentforge_sessions.entrypoints.cli.main import run
from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.errors import RoleUnbounded, StoreForbidden, StoreRefused
from agentforge_sessions.fleet.postgres.schema import Migration, migrate, migrations
from agentforge_sessions.fleet.postgres.sessions.session_prune import PostgresPrune
from agentforge_sessions.fleet.postgres.store import PostgresStore, SubmittingStore
from agentforge_sessions.harness import SessionManager
from agentforge_sessions.harness.submission import Submission
from tests.support.fleet import capturing
from tests.support.postgres import PostgresServer

RECORDS = ("removals", "migrations", "queue_migrations")


@pytest.fixture
def role(server: PostgresServer, fresh: Database) -> Iterator[str]:
    """A role of this test's own, without any right yet."""
    name = f"programs_{os.getpid()}"
    server.run(f"create role {name} login")
    yield name
    fresh.close()
    with psycopg.connect(fresh.url, autocommit=True) as connection:
        connection.execute(f"drop owned by {name}".encode())
    server.run(f"drop role {name}")


def as_role(database: Database, role: str) -> str:
    parts = urlsplit(database.url)
    return urlunsplit(parts._replace(netloc=parts.netloc.replace("postgres", role)))


def refused(connection: psycopg.Connection[object], statement: str) -> bool:
    try:
        with connection.transaction():
            connection.execute(statement.encode())
    except InsufficientPrivilege:
        return True
    return False


def test_records_are_read_and_added_and_never_changed(fresh: Database, role: str) -> None:
    migrate(fresh, role=role)
    with psycopg.connect(as_role(fresh, role), autocommit=True) as connection:
        connection.execute("insert into agentforge.removals (session_id, line) values ('s', '{}')")
        connection.execute("insert into agentforge.migrations (number, name) values (999, 'x')")
        connection.execute("insert into agentforge.queue_migrations (name) values ('x')")
        for table in RECORDS:
            found = connection.execute(f"select * from agentforge.{table}".encode()).fetchall()
            assert found
            column = "name" if table != "removals" else "session_id"
            for statement in (
                f"update agentforge.{table} set {column} = 'changed'",
                f"delete from agentforge.{table}",
                f"truncate agentforge.{table}",
                f"drop table agentforge.{table}",
                f"alter table agentforge.{table} disable trigger all",
                f"create trigger t after insert on agentforge.{table} "
                "execute function agentforge.tell_of_released_lock()",
                f"grant all on agentforge.{table} to {role}",
            ):
                assert refused(connection, statement) or statement.startswith("grant"), statement
            assert connection.execute(f"select * from agentforge.{table}".encode()).fetchall() == (
                found
            )
            assert refused(connection, f"delete from agentforge.{table}")
        assert refused(connection, "create table agentforge.mine (x int)")


def test_it_leads_submits_removes_and_is_pruned_by(
    fresh: Database, role: str, tmp_path: Path
) -> None:
    """All that programs do they do with these rights."""
    migrate(fresh, role=role)
    with Database(as_role(fresh, role)) as database:
        store = SubmittingStore(database, tmp_path, Submission())
        manager = SessionManager(store)
        session = manager.create("run", "one", attachments={"workflow.json": b"{}"})
        manager.add_artifact("a", "created")
        manager.abort("no more")
        plain = PostgresStore(database, tmp_path)
        assert isinstance(plain.prunable(), PostgresPrune)
        assert plain.delete(session.session_id)
        with database.connection() as connection:
            rows = connection.execute("select session_id from agentforge.removals").fetchall()
    assert rows == [(session.session_id,)]


def test_rights_that_were_given_by_hand_before_are_taken_back(fresh: Database, role: str) -> None:
    with fresh.connection() as connection:
        connection.execute(f"grant usage on schema agentforge to {role}".encode())
        connection.execute(f"grant all on all tables in schema agentforge to {role}".encode())
    migrate(fresh, role=role)
    with psycopg.connect(as_role(fresh, role), autocommit=True) as connection:
        for table in RECORDS:
            assert refused(connection, f"delete from agentforge.{table}")
            assert refused(connection, f"truncate agentforge.{table}")


def test_a_migration_gives_new_tables_to_the_roles_that_have_the_others(
    fresh: Database, server: PostgresServer, role: str
) -> None:
    migrate(fresh, role=role)
    later = Migration(len(migrations()) + 1, "later", "create table agentforge.later (n integer)")
    assert migrate(fresh, known=(*migrations(), later)) == (later,)
    with psycopg.connect(as_role(fresh, role), autocommit=True) as connection:
        connection.execute("insert into agentforge.later values (1)")
        assert refused(connection, "delete from agentforge.removals")
    with fresh.connection() as connection:
        connection.execute(f"drop owned by {role}".encode())


@pytest.mark.parametrize("inherits", ["true", "false"])
@pytest.mark.parametrize("right", ["delete", "truncate", "trigger", "update (line)"])
def test_a_role_that_has_more_by_another_role_is_refused(
    server: PostgresServer, fresh: Database, role: str, right: str, inherits: str
) -> None:
    """Where it does not inherit the other role's rights, it may take that role on."""
    server.run(f"create role {role}_more")
    try:
        with fresh.connection() as connection:
            connection.execute(f"grant {right} on agentforge.removals to {role}_more".encode())
        server.run(f"grant {role}_more to {role} with inherit {inherits}")
        with pytest.raises(RoleUnbounded, match=role):
            migrate(fresh, role=role)
    finally:
        with fresh.connection() as connection:
            connection.execute(f"drop owned by {role}_more".encode())
        server.run(f"drop role {role}_more")


def test_a_role_that_owns_the_tables_or_is_a_superuser_is_refused(
    server: PostgresServer, fresh: Database, role: str
) -> None:
    with pytest.raises(RoleUnbounded):
        migrate(fresh, role="postgres")
    server.run(f"grant postgres to {role}")
    with pytest.raises(RoleUnbounded, match=role):
        migrate(fresh, role=role)


def test_a_role_that_there_is_not_is_said_and_nothing_is_migrated(empty: Database) -> None:
    with pytest.raises(StoreRefused, match="nobody_of_this_name"):
        migrate(empty, role="nobody_of_this_name")
    row = empty.one("select to_regclass('agentforge.sessions')")
    assert row == (None,)


def test_a_role_with_an_odd_name_is_quoted(server: PostgresServer, fresh: Database) -> None:
    name = 'odd"; drop table agentforge.pins; --'
    quoted = '"' + name.replace('"', '""') + '"'
    server.run(f"create role {quoted}")
    try:
        migrate(fresh, role=name)
        assert fresh.one("select to_regclass('agentforge.pins')") == ("agentforge.pins",)
    finally:
        with fresh.connection() as connection:
            connection.execute(f"drop owned by {quoted}".encode())
        server.run(f"drop role {quoted}")


def test_programs_may_not_give_themselves_more(fresh: Database, role: str) -> None:
    migrate(fresh, role=role)
    with Database(as_role(fresh, role)) as database, pytest.raises(StoreForbidden, match="owner"):
        migrate(database, role=role)
    with psycopg.connect(as_role(fresh, role), autocommit=True) as connection:
        assert refused(connection, "delete from agentforge.removals")


def test_the_command_gives_the_rights_and_says_so(fresh: Database, role: str) -> None:
    with capturing() as written:
        assert run(["--store", fresh.url, "fleet", "store", "migrate", "--role", role]) == 0
    assert f"gave {role} the rights of programs" in written.getvalue()
    with capturing() as written:
        assert run(["--store", as_role(fresh, role), "fleet", "store", "status", "--json"]) == 0
    assert json.loads(written.getvalue())["usable"]
