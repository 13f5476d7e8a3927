"""The tables of a PostgreSQL store: numbered migrations, run once each, under a lock.

`agentforge.migrations` names those that ran. A program works only with a database of exactly its
own version: an older one is refused with instructions, a newer one as well, since an older program
would lose what a newer one writes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib import resources
from typing import Final

from attrs import frozen
from procrastinate.schema import SchemaManager, migrations_path
from psycopg import sql

from .database import Connection, Database, is_pooled
from .errors import RoleUnbounded, StoreForbidden, StoreNotMigrated, StoreTooNew

_RECORDS: Final = ("removals", "migrations", "queue_migrations")
"""The tables whose rows are read and added, but never changed or deleted."""
_STATEMENTS: Final = (
    "revoke all on all tables in schema agentforge from {role}",
    "grant usage on schema agentforge to {role}",
    "grant select, insert, update, delete on all tables in schema agentforge to {role}",
    "revoke update, delete on {records} from {role}",
    "grant usage on all sequences in schema agentforge to {role}",
    "grant execute on all functions in schema agentforge to {role}",
)
_OWNS: Final = """
select rolsuper or pg_has_role(pg_roles.oid, nspowner, 'member')
from pg_roles, pg_namespace where rolname = %s and nspname = 'agentforge'
"""
_MAY_GRANT: Final = """
select pg_has_role(nspowner, 'usage') from pg_namespace where nspname = 'agentforge'
"""
_MAY_CHANGE: Final = """
select exists (
    select 1 from unnest(%(records)s::text[]) record, pg_roles other
    where pg_has_role(%(role)s, other.oid, 'member') and (
        has_table_privilege(other.oid, 'agentforge.' || record, 'delete, truncate, trigger')
        or has_any_column_privilege(other.oid, 'agentforge.' || record, 'update')))
"""
"""Checked for each role that it is a member of: SET ROLE also grants rights it does not inherit."""
_GRANTED: Final = """
select distinct rolname
from pg_namespace, aclexplode(nspacl) granted join pg_roles on pg_roles.oid = granted.grantee
where nspname = 'agentforge' and granted.privilege_type = 'USAGE'
    and not rolsuper and not pg_has_role(pg_roles.oid, nspowner, 'member')
order by rolname
"""


def grant(database: Database, connection: Connection, role: str) -> None:
    """Grant a role the rights of programs on all existing tables, and no others.

    Raises:
        RoleUnbounded: It could change records all the same.
        StoreForbidden: This connection's own role does not own the tables.
        psycopg.Error: There is no such role.
    """
    if connection.execute(_MAY_GRANT).fetchone() != (True,):  # otherwise PostgreSQL only warns
        reason = "the owner of the tables alone may grant rights on them"
        raise StoreForbidden(store=database.name, sqlstate=None, reason=reason)
    owns = connection.execute(_OWNS, (role,)).fetchone()
    if owns is not None and owns[0]:
        raise RoleUnbounded(store=database.name, role=role)
    names = {
        "role": sql.Identifier(role),
        "records": sql.SQL(", ").join(sql.Identifier("agentforge", name) for name in _RECORDS),
    }
    for statement in _STATEMENTS:
        connection.execute(sql.SQL(statement).format(**names))
    about = {"role": role, "records": list(_RECORDS)}
    if connection.execute(_MAY_CHANGE, about).fetchone() != (False,):
        raise RoleUnbounded(store=database.name, role=role)


def granted(connection: Connection) -> list[str]:
    """Return the roles that have these rights already."""
    return [row[0] for row in connection.execute(_GRANTED).fetchall()]


_LOCK: Final = 0x4147454E54464F52
"""The key of the migrations' advisory lock: "AGENTFOR" in ASCII."""
_FILE: Final = re.compile(r"([0-9]{4})_([a-z_]+)\.sql")


@frozen
class Migration:
    """One step of the tables' history.

    Attributes:
        number: Its place, from 1.
        name: What it adds.
        statements: Its SQL.
    """

    number: int
    name: str
    statements: str


def migrations() -> tuple[Migration, ...]:
    """Return all migrations of this program, in order."""
    found = []
    for file in resources.files(__package__).joinpath("migrations").iterdir():
        match = _FILE.fullmatch(file.name)
        if match is not None:
            found.append(Migration(int(match[1]), match[2], file.read_text(encoding="utf-8")))
    return tuple(sorted(found, key=lambda one: one.number))


def migrate(
    database: Database, *, role: str | None = None, known: tuple[Migration, ...] | None = None
) -> tuple[Migration, ...]:
    """Migrate the tables to this program's version, all steps or none; return those that were run.

    Safe to call from several programs at once: the others wait, and then have nothing to do. Roles
    with the rights of programs get them on new tables, too.

    Args:
        database: The store.
        role: Another role that gets the rights of programs, or None; see `roles.grant`.
        known: The migrations to run; those of this program if None.

    Raises:
        StoreTooNew: A newer program has migrated it; nothing was changed.
        RoleUnbounded: The role owns the tables; nothing was changed.
        StoreError: As `Database.transaction`; nothing was changed.
    """
    known = migrations() if known is None else known
    with database.transaction() as connection:
        connection.execute("select pg_advisory_xact_lock(%s)", (_LOCK,))
        found = _last(connection)
        _refuse_newer(database, found, known)
        todo = tuple(one for one in known if one.number > found)
        if todo:
            connection.execute("create schema if not exists agentforge")
            connection.execute(
                "create table if not exists agentforge.migrations (number integer primary key, "
                "name text not null, ran_at timestamptz not null default now())"
            )
            _bring_queue(connection)
        for one in todo:
            connection.execute(one.statements.encode())
            connection.execute(
                "insert into agentforge.migrations (number, name) values (%s, %s)",
                (one.number, one.name),
            )
        for one in dict.fromkeys(
            [*(granted(connection) if todo else ()), *([role] if role else ())]
        ):
            grant(database, connection, one)
    return todo


def pending(database: Database) -> tuple[Migration, ...]:
    """Return the migrations that a database lacks, in order.

    Raises:
        StoreTooNew: A newer program has migrated it.
        StoreError: As `Database.transaction`.
    """
    known = migrations()
    found = last_migration(database)
    _refuse_newer(database, found, known)
    return tuple(one for one in known if one.number > found)


def last_migration(database: Database) -> int:
    """Return the number of the last migration that ran, 0 for none.

    Raises:
        StoreError: As `Database.transaction`.
    """
    with database.transaction() as connection:
        return _last(connection)


def require_migrated(database: Database) -> None:
    """Refuse a database whose tables are not those of this program.

    Raises:
        StoreNotMigrated: It lacks some.
        StoreTooNew: A newer program has migrated it.
    """
    known = migrations()
    found = last_migration(database)
    _refuse_newer(database, found, known)
    if found < known[-1].number:
        raise StoreNotMigrated(store=database.name, found=found, needed=known[-1].number)


def _bring_queue(connection: Connection) -> None:
    """Migrate the tables of procrastinate, whose package names its migrations and records none."""
    connection.execute("set local search_path to agentforge")
    names = sorted(file.name for file in migrations_path.glob("*.sql"))
    connection.execute(
        "create table if not exists agentforge.queue_migrations (name text primary key, "
        "ran_at timestamptz not null default now())"
    )
    ran = {row[0] for row in connection.execute("select name from agentforge.queue_migrations")}
    if not ran:
        connection.execute(SchemaManager.get_schema().encode())  # the result of all its migrations
    todo = [name for name in names if name not in ran]
    for name in todo if ran else ():
        connection.execute((migrations_path / name).read_bytes())
    for name in todo:
        connection.execute("insert into agentforge.queue_migrations (name) values (%s)", (name,))


def _last(connection: Connection) -> int:
    """Return the number of the last migration that ran, 0 for none."""
    there = connection.execute("select to_regclass('agentforge.migrations')").fetchone()
    if there is None or there[0] is None:
        return 0
    last = connection.execute("select max(number) from agentforge.migrations").fetchone()
    return int(last[0]) if last is not None and last[0] is not None else 0


def _refuse_newer(database: Database, found: int, known: tuple[Migration, ...]) -> None:
    if found > known[-1].number:
        raise StoreTooNew(store=database.name, found=found, known=known[-1].number)


_SIZE: Final = """
select coalesce(sum(pg_total_relation_size(oid)), 0)::bigint from pg_class
where relkind = 'r' and relnamespace = to_regnamespace('agentforge')
"""


@frozen(kw_only=True)
class StoreStatus:
    """The status of a store.

    Attributes:
        store: Its address, without its password.
        server: The version of PostgreSQL.
        pooled: Whether the address is a pooler's.
        found: The number of the last migration that ran, 0 for none.
        needed: That of this program's last one.
        sessions: The number of sessions in each state; empty if the store can't be used.
        size_bytes: The size of its tables and indexes.
    """

    store: str
    server: str
    pooled: bool
    found: int
    needed: int
    sessions: Mapping[str, int]
    size_bytes: int

    @property
    def is_usable(self) -> bool:
        """Whether this program can work with it."""
        return self.found == self.needed


def status_of(database: Database) -> StoreStatus:
    """Return a store's status, whichever program migrated it.

    Raises:
        StoreError: As `Database.transaction`.
    """
    found, needed = last_migration(database), migrations()[-1].number
    with database.transaction() as connection:
        server, size = connection.execute("show server_version"), connection.execute(_SIZE)
        (version,), (size_bytes,) = server.fetchone() or ("",), size.fetchone() or (0,)
        sessions = {}
        if found == needed:
            counted = connection.execute(
                "select state, count(*) from agentforge.sessions group by state order by state"
            )
            sessions = dict(counted.fetchall())
        return StoreStatus(
            store=database.name,
            server=version,
            pooled=is_pooled(connection),
            found=found,
            needed=needed,
            sessions=sessions,
            size_bytes=size_bytes,
        )
