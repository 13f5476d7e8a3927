"""The role of programs: it reads and writes sessions, and changes no records.

Removals and migrations are records: the role can add to them but never delete from them, whatever a
program with its password does. The owner of the tables can; it is used to migrate.
"""

from __future__ import annotations

from typing import Final

from psycopg import sql

from .database import Connection, Database
from .errors import RoleUnbounded, StoreForbidden

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
