"""Opens the store of an address; loads no other kind of store."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from ..base.plugins import Register
from ..harness.store.sessions_place import sessions_directory

if TYPE_CHECKING:
    from ..harness.session_ports import LocalSessions
    from .postgres.errors import InvalidStoreAddress

STORE_VARIABLE: Final = "AGENTFORGE_STORE"
"""The environment variable that names the store of the sessions."""
STORES: Final = Register(
    "stores",
    {
        "file": "agentforge_sessions.fleet.stores:open_folder",
        "postgresql": "agentforge_sessions.fleet.opening:open_store",
        "postgres": "agentforge_sessions.fleet.opening:open_store",
    },
)
"""What opens a store, by the scheme of its address: called with the address and with the sessions'
directory on this machine (None: the default), it returns `LocalSessions`; no I/O yet."""

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):")
_PASSWORD: Final = re.compile(r"(://[^/@:]*):[^@/]*@")


def is_database(store: str | None) -> bool:
    """Return whether a store's address names a PostgreSQL database, which machines can share."""
    return store is not None and store.startswith(("postgresql://", "postgres://"))


def is_elsewhere(store: str | None) -> bool:
    """Return whether a store's address is something other than a folder of this machine."""
    scheme = None if store is None else _SCHEME.match(store)
    return scheme is not None and scheme[1] != "file"


def without_password(store: str) -> str:
    """Return a store's address in a form safe for a command line, without the user's password."""
    return _PASSWORD.sub(r"\1@", store)


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
    scheme = None if store is None else _SCHEME.match(store)
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
