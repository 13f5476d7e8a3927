"""The status of a PostgreSQL store: its server, its tables, and its number of sessions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from attrs import frozen

from .database import Database, is_pooled
from .schema import last_migration, migrations

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
