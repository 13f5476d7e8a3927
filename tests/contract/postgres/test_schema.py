"""The tables of a PostgreSQL store."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.errors import StoreNotMigrated, StoreTooNew
from agentforge_sessions.fleet.postgres.schema import (
    Migration,
    migrate,
    migrations,
    require_migrated,
)

LATER = Migration(
    len(migrations()) + 1, "later", "create table agentforge.later (mine integer primary key)"
)


def ran(database: Database) -> list[tuple[int, str]]:
    with database.connection() as connection:
        rows = connection.execute("select number, name from agentforge.migrations order by number")
        return [tuple(row) for row in rows]


def test_migrations_are_numbered_from_one_without_a_gap() -> None:
    assert [one.number for one in migrations()] == list(range(1, len(migrations()) + 1))


def test_an_empty_database_is_refused_with_what_to_do(empty: Database) -> None:
    with pytest.raises(
        StoreNotMigrated, match=r"agentforge --store .* fleet store migrate"
    ) as refused:
        require_migrated(empty)
    assert (refused.value.found, refused.value.needed) == (0, len(migrations()))


def test_a_migration_is_run_once(empty: Database) -> None:
    assert migrate(empty) == migrations()
    require_migrated(empty)
    assert migrate(empty) == ()
    assert ran(empty) == [(one.number, one.name) for one in migrations()]


def test_a_later_migration_runs_alone_on_the_tables_of_those_before(fresh: Database) -> None:
    assert migrate(fresh, known=(*migrations(), LATER)) == (LATER,)
    assert ran(fresh)[-1] == (LATER.number, "later")
    with pytest.raises(StoreTooNew):
        require_migrated(fresh)
    assert migrate(fresh, known=(*migrations(), LATER)) == ()


def test_programs_that_migrate_at_once_wait_for_each_other(empty: Database) -> None:
    with ThreadPoolExecutor(4) as threads:
        done = [one.result() for one in [threads.submit(migrate, empty) for _ in range(4)]]
    assert max(done, key=len) == migrations()
    assert sum(map(len, done)) == len(migrations())


def test_a_migration_that_fails_leaves_nothing_behind(empty: Database) -> None:
    with empty.connection() as connection:
        connection.execute("create schema agentforge")
        connection.execute("create table agentforge.session_history (mine integer)")
    with pytest.raises(Exception, match="already exists"):
        migrate(empty)
    with pytest.raises(StoreNotMigrated):
        require_migrated(empty)
    with empty.connection() as connection:
        assert connection.execute("select to_regclass('agentforge.sessions')").fetchone() == (None,)


def test_what_a_newer_program_migrated_is_refused_and_not_touched(fresh: Database) -> None:
    with fresh.connection() as connection:
        connection.execute("insert into agentforge.migrations (number, name) values (999, 'new')")
    for attempt in (require_migrated, migrate):
        with pytest.raises(StoreTooNew) as refused:
            attempt(fresh)
        assert (refused.value.found, refused.value.known) == (999, len(migrations()))
    assert ran(fresh)[-1] == (999, "new")
