"""The part of the composition root that opens where sessions are kept; it loads nothing besides.

What works on sessions knows the ports of `harness.session_ports` alone, and is handed what this
opens.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

if TYPE_CHECKING:
    from .adapters.postgres.database import Database
    from .harness.session_ports import LocalSessions
    from .questions import QuestionRepository


def is_database(store: str | None) -> bool:
    """Return whether a store's address names a database, and no folder."""
    return store is not None and store.startswith(("postgresql://", "postgres://"))


def open_sessions(
    base_path: Path | str | None = None, *, store: str | None = None
) -> LocalSessions:
    """Open the sessions of a store, and their places on this machine; nothing is read or made yet.

    Args:
        base_path: The sessions' directory on this machine; `.agentforge/sessions` if None.
        store: Where the sessions are: `postgresql://…`, a folder's path or `file://…`; the
            directory of `base_path` if None.

    Raises:
        StoreExtraMissing: It is a database, and the packages for it are not installed.
        InvalidStoreAddress: It names no store.
    """
    if store is not None and is_database(store):
        from .adapters.postgres.store import PostgresStore

        return PostgresStore(open_database(store), base_path)
    from .harness.session_store import SessionStore

    return SessionStore(base_path if store is None else folder_of(store))


def open_question_store(store: str) -> QuestionRepository:
    """Open the question sessions of a database; nothing is read yet.

    Raises:
        StoreExtraMissing: The packages for it are not installed.
        InvalidStoreAddress: It is no such address.
    """
    database = open_database(store)
    from .adapters.postgres.questions import PostgresQuestions

    return PostgresQuestions(database)


def folder_of(store: str) -> Path:
    """Return the folder that a store's address names.

    Raises:
        InvalidStoreAddress: It names none.
    """
    scheme, separator, _rest = store.partition("://")
    if not separator:
        return Path(store)
    parts = urlsplit(store)
    if scheme == "file" and not parts.netloc and parts.path:
        return Path(unquote(parts.path))
    from .adapters.postgres.errors import InvalidStoreAddress

    raise InvalidStoreAddress(store=f"{scheme}://…", reason="no store has such an address")


def open_database(store: str) -> Database:
    """Open a PostgreSQL store; its tables are looked at before the first statement.

    Raises:
        StoreExtraMissing: The packages for it are not installed.
        InvalidStoreAddress: It is no such address.
    """
    try:
        from .adapters.postgres.database import Database
        from .adapters.postgres.schema import require_migrated
    except ModuleNotFoundError as error:
        from .adapters.postgres.errors import StoreExtraMissing

        if (error.name or "").partition(".")[0] not in {"psycopg", "psycopg_pool", "procrastinate"}:
            raise
        raise StoreExtraMissing(store=f"{store.partition('://')[0]}://…") from error
    return Database(store, ready=require_migrated)
