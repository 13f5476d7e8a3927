"""The addresses of PostgreSQL stores, and how they may be shown: never with a secret. Pure."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode

from .errors import InvalidStoreAddress

_ADDRESS: Final = re.compile(
    r"(postgres(?:ql)?)://(?:([^:@/?#]*)(?::[^:@/?#]*)?@)?([^@/?#]*)(/[^@/?#]*)?(?:\?([^@#]*))?"
)
"""Scheme, user, hosts with ports, database, and the query; of the password nothing."""
_SHOWN: Final = frozenset(
    {"host", "hostaddr", "port", "user", "dbname", "service", "sslmode", "sslrootcert"}
    | {"target_session_attrs", "connect_timeout", "channel_binding", "gssencmode"}
)
"""What of a query holds no secret, and selects the same database."""
UNREADABLE: Final = "postgresql://…"
"""What stands for an address of which nothing may be shown."""


def require_address(url: str) -> None:
    """Refuse what libpq would read in another way than it is meant, and would then show.

    Raises:
        InvalidStoreAddress: It is no address of a database.
    """
    if _ADDRESS.fullmatch(url) is None:
        raise InvalidStoreAddress(
            store=UNREADABLE,
            reason="of a name or password, @ is written %40, : %3A, / %2F, ? %3F, # %23",
        )


def without_password(url: str) -> str:
    """Return an address as it may stand in messages, logs and records."""
    found = _ADDRESS.fullmatch(url)
    if found is None:
        return UNREADABLE
    scheme, user, hosts, database, query = found.groups()
    shown = {name: value for name, value in parse_qsl(query or "") if name in _SHOWN}
    hosts = hosts or quote(shown.get("host", ""), safe="")
    user = user or quote(shown.get("user", ""), safe="")
    return f"{scheme}://{f'{user}@' if user else ''}{hosts}{database or ''}"


def for_command_line(url: str) -> str:
    """Return an address that selects the same database, and leaves the password to be found.

    libpq finds it in PGPASSWORD or in ~/.pgpass.
    """
    found = _ADDRESS.fullmatch(url)
    if found is None:
        return UNREADABLE
    scheme, user, hosts, database, query = found.groups()
    kept = [(name, value) for name, value in parse_qsl(query or "") if name in _SHOWN]
    asked = f"?{urlencode(kept)}" if kept else ""
    return f"{scheme}://{f'{user}@' if user else ''}{hosts}{database or ''}{asked}"
