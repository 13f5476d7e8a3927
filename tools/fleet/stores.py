"""Opens the store of an address, and loads no other kind of store; migrates one in PostgreSQL."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from ..base.errors import ExtraMissing
from ..base.plugins import Register
from ..harness.store.sessions_place import sessions_directory

if TYPE_CHECKING:
    from ..harness.session_ports import LocalSessions
    from .postgres.database import Database
    from .postgres.errors import InvalidStoreAddress
    from .postgres.schema import Migration, StoreStatus
    from .postgres.store import PostgresStore

STORE_VARIABLE: Final = "AGENTFORGE_STORE"
"""The environment variable that names the store of the sessions."""
STORES: Final = Register(
    "stores",
    {
        "file": "agentforge_sessions.fleet.stores:open_folder",
        "postgresql": "agentforge_sessions.fleet.stores:open_store",
        "postgres": "agentforge_sessions.fleet.stores:open_store",
    },
)
"""What opens a store, by the scheme of its address: called with the address and with the sessions'
directory on this machine (None: the default), it returns `LocalSessions`; no I/O yet."""

_SCHEME: Final = r"([A-Za-z][A-Za-z0-9+.-]+):"
_IN_ADDRESS: Final = r"(://[^/@:]*):[^@/]*@"


def is_database(store: str | None) -> bool:
    """Return whether a store's address names a PostgreSQL database, which machines can share."""
    return store is not None and store.startswith(("postgresql://", "postgres://"))


def is_elsewhere(store: str | None) -> bool:
    """Return whether a store's address is something other than a folder of this machine."""
    scheme = None if store is None else re.match(_SCHEME, store)
    return scheme is not None and scheme[1] != "file"


def without_password(store: str) -> str:
    """Return a store's address in a form safe for a command line, without the user's password."""
    return re.sub(_IN_ADDRESS, r"\1@", store)


def open_sessions(
    base_path: Path | str | None = None, *, store: str | None = None, direct: str | None = None
) -> LocalSessions:
    """Open the sessions of a store, and their directories on this machine; no I/O yet.

    Args:
        base_path: The sessions' directory on this machine; if None, the one that the commands use
            for the working directory's project (`harness.store.sessions_place`).
        store: Where the sessions are: `postgresql://…`, a folder's path or `file://…`, or an
            address of a plugin's; the directory of `base_path` if None.
        direct: The server itself, where `store` is a connection pooler.

    Raises:
        InvalidStoreAddress: It is not the address of a store.
        PluginUnusable: Its plugin can't be loaded.
        ExtraMissing: It is a database, and the packages for it are not installed.
    """
    base = sessions_directory(Path.cwd()) if base_path is None else Path(base_path)
    scheme = None if store is None else re.match(_SCHEME, store)
    if scheme is None:
        return open_folder(base if store is None else store, base)
    found = STORES.find(scheme[1])
    if found is None:
        raise _no_store(scheme[1])
    given = {} if direct is None else {"direct": direct}
    opened: LocalSessions = found.load()(store, base, **given)
    return opened


def open_folder(address: Path | str | None, base_path: Path | None) -> LocalSessions:
    """Open the sessions in a folder's files; `base_path` is the folder's own.

    Raises:
        InvalidStoreAddress: It is a `file:` address, but of no folder of this machine.
    """
    del base_path
    from ..harness.session_store import SessionStore

    if isinstance(address, str) and address.startswith("file:"):
        parts = urlsplit(address)
        if parts.netloc or not parts.path:
            raise _no_store("file")
        address = unquote(parts.path)
    return SessionStore(address)


def _no_store(scheme: str) -> InvalidStoreAddress:
    from .postgres.errors import InvalidStoreAddress

    return InvalidStoreAddress(store=f"{scheme}:…", reason="no store has such an address")


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
    from .postgres.address import require_address
    from .postgres.address import without_password as shown

    require_address(store)
    try:
        from .postgres.database import Database
        from .postgres.schema import require_migrated
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in _PACKAGES:
            raise
        raise ExtraMissing(shown(store), "psycopg", "postgres") from error
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
    with open_database(store, migrated=False) as database:
        from .postgres.schema import migrate, pending

        return pending(database) if dry_run else migrate(database, role=role)


def store_status(store: str) -> StoreStatus:
    """Return the status of a PostgreSQL store, migrated by any program version.

    Raises:
        StoreError: It does not answer, or refuses.
    """
    with open_database(store, migrated=False) as database:
        from .postgres.schema import status_of

        return status_of(database)
