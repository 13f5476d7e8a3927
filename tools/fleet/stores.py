"""The part of the composition root that opens where sessions are kept; it loads nothing besides.

What works on sessions knows the ports of `harness.session_ports` alone, and is handed what this
opens.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from ..base.data_folder import sessions_directory

if TYPE_CHECKING:
    from ..harness.session_ports import LocalSessions
    from .postgres.database import Database
    from .postgres.schema import Migration
    from .postgres.status import StoreStatus

STORE_VARIABLE: Final = "AGENTFORGE_STORE"
"""The environment variable that names the store of the sessions."""
DIRECT_VARIABLE: Final = "AGENTFORGE_STORE_DIRECT"
"""That of the server itself, where the store's address is a pooler."""

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_PACKAGES: Final = frozenset({"psycopg", "psycopg_pool", "procrastinate"})


def is_database(store: str | None) -> bool:
    """Return whether a store's address names a database, and no folder."""
    return store is not None and store.startswith(("postgresql://", "postgres://"))


def store_for_command_line(store: str) -> str:
    """Return a store's address as it may stand in a command line: without a secret."""
    if not is_database(store):
        return store
    from .postgres.address import for_command_line

    return for_command_line(store)


def open_sessions(
    base_path: Path | str | None = None, *, store: str | None = None, direct: str | None = None
) -> LocalSessions:
    """Open the sessions of a store, and their places on this machine; nothing is read or made yet.

    Args:
        base_path: The sessions' directory on this machine; if None, where the commands have those
            of the working directory's project (`base.data_folder.sessions_directory`).
        store: Where the sessions are: `postgresql://…`, a folder's path or `file://…`; the
            directory of `base_path` if None.
        direct: The server itself, where `store` is a pooler; see `open_database`.

    Raises:
        StoreExtraMissing: It is a database, and the packages for it are not installed.
        InvalidStoreAddress: It names no store.
    """
    base = sessions_directory(Path.cwd()) if base_path is None else base_path
    if store is not None and is_database(store):
        database = open_database(store, direct=direct)
        from .postgres.store import PostgresStore

        return PostgresStore(database, base)
    from ..harness.session_store import SessionStore

    return SessionStore(base if store is None else folder_of(store))


def folder_of(store: str) -> Path:
    """Return the folder that a store's address names.

    Raises:
        InvalidStoreAddress: It names none.
    """
    scheme = _SCHEME.match(store)
    if scheme is None:
        return Path(store)
    parts = urlsplit(store)
    if scheme[1] == "file" and not parts.netloc and parts.path:
        return Path(unquote(parts.path))
    from .postgres.errors import InvalidStoreAddress

    raise InvalidStoreAddress(store=f"{scheme[1]}:…", reason="no store has such an address")


def open_database(store: str, *, direct: str | None = None, migrated: bool = True) -> Database:
    """Open a PostgreSQL store; nothing is connected yet.

    Args:
        store: Its address.
        direct: The address of the server itself, where `store` is a pooler: locks and
            notifications go there. What AGENTFORGE_STORE_DIRECT says if None, else `store`.
        migrated: Whether its tables are looked at before the first statement.

    Raises:
        StoreExtraMissing: The packages for it are not installed.
        InvalidStoreAddress: It is no such address.
    """
    from .postgres.address import require_address, without_password

    require_address(store)
    try:
        from .postgres.database import Database
        from .postgres.schema import require_migrated
    except ModuleNotFoundError as error:
        from .postgres.errors import StoreExtraMissing

        if (error.name or "").partition(".")[0] not in _PACKAGES:
            raise
        raise StoreExtraMissing(store=without_password(store)) from error
    return Database(
        store,
        direct=direct or os.environ.get(DIRECT_VARIABLE) or None,
        ready=require_migrated if migrated else None,
    )


def migrate_store(
    store: str, *, role: str | None = None, dry_run: bool = False
) -> tuple[Migration, ...]:
    """Bring a store's tables to where this program is; return what was, or would be, run.

    Args:
        store: Its address.
        role: A role that is given the rights that programs need, or None.
        dry_run: Whether nothing is changed.

    Raises:
        StoreError: It can't be; nothing was changed.
    """
    with _unmigrated(store) as database:
        from .postgres.schema import migrate, pending

        return pending(database) if dry_run else migrate(database, role=role)


def store_status(store: str) -> StoreStatus:
    """Look at a PostgreSQL store, whichever program migrated it.

    Raises:
        StoreError: It does not answer, or refuses.
    """
    with _unmigrated(store) as database:
        from .postgres.status import status_of

        return status_of(database)


@contextmanager
def _unmigrated(store: str) -> Iterator[Database]:
    with open_database(store, migrated=False) as database:
        yield database
