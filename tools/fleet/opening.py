"""Opens PostgreSQL stores: for work, for their migration, and for their status."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..base.errors import ExtraMissing
from .postgres.address import require_address, without_password

if TYPE_CHECKING:
    from .postgres.database import Database
    from .postgres.schema import Migration, StoreStatus
    from .postgres.store import PostgresStore

DIRECT_VARIABLE: Final = "AGENTFORGE_STORE_DIRECT"
"""The environment variable of the server's own address, where the store's is a pooler."""
_PACKAGES: Final = frozenset({"psycopg", "psycopg_pool", "procrastinate"})


def open_store(address: str, base_path: Path | None, *, direct: str | None = None) -> PostgresStore:
    """Open the sessions of a database, with their places in a directory of this machine.

    Raises:
        ExtraMissing: The packages for it are not installed.
        InvalidStoreAddress: It is not such an address.
    """
    database = open_database(address, direct=direct)
    from .postgres.store import PostgresStore

    return PostgresStore(database, base_path)


def for_command_line(address: str) -> str:
    """Return an address of the same database without its password, which libpq looks up itself."""
    from .postgres.address import for_command_line as shown

    return shown(address)


def open_database(store: str, *, direct: str | None = None, migrated: bool = True) -> Database:
    """Open a PostgreSQL store; no connection yet.

    Args:
        store: Its address.
        direct: The address of the server itself, where `store` is a pooler: locks and notifications
            use it. If None, AGENTFORGE_STORE_DIRECT, else `store`.
        migrated: Whether to check its tables before the first statement.

    Raises:
        ExtraMissing: The packages for it are not installed.
        InvalidStoreAddress: It is not such an address.
    """
    require_address(store)
    try:
        from .postgres.database import Database
        from .postgres.schema import require_migrated
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _PACKAGES:
            raise
        raise ExtraMissing(without_password(store), "psycopg", "postgres") from error
    return Database(
        store,
        direct=direct or os.environ.get(DIRECT_VARIABLE) or None,
        ready=require_migrated if migrated else None,
    )


def migrate_store(
    store: str, *, role: str | None = None, dry_run: bool = False
) -> tuple[Migration, ...]:
    """Migrate a store's tables to this program's version; return the migrations run, or to run.

    Args:
        store: Its address.
        role: A role that gets the rights that programs need, or None.
        dry_run: Whether to change nothing.

    Raises:
        StoreError: It can't be migrated; nothing was changed.
    """
    with _unmigrated(store) as database:
        from .postgres.schema import migrate, pending

        return pending(database) if dry_run else migrate(database, role=role)


def store_status(store: str) -> StoreStatus:
    """Return the status of a PostgreSQL store, migrated by any program version.

    Raises:
        StoreError: It does not answer, or refuses.
    """
    with _unmigrated(store) as database:
        from .postgres.schema import status_of

        return status_of(database)


@contextmanager
def _unmigrated(store: str) -> Iterator[Database]:
    with open_database(store, migrated=False) as database:
        yield database
