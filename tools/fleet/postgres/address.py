"""The addresses of PostgreSQL stores, and their display: never with a secret. Pure."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import parse_qsl, quote, urlencode

from .errors import InvalidStoreAddress

_ADDRESS: Final = re.compile(
    r"(postgres(?:ql)?)://(?:([^:@/?#]*)(?::[^:@/?#]*)?@)?([^@/?#]*)(/[^@/?#]*)?(?:\?([^@#]*))?"
)
"""Scheme, user, hosts with ports, database, and the query; not the password."""
_SHOWN: Final = frozenset(
    {"host", "hostaddr", "port", "user", "dbname", "service", "sslmode", "sslrootcert"}
    | {"target_session_attrs", "connect_timeout", "channel_binding", "gssencmode"}
)
"""The parts of a query that hold no secret, and that select the same database."""
UNREADABLE: Final = "postgresql://…"
"""Shown for an address of which no part is safe to show."""


def require_address(url: str) -> None:
    """Refuse an address that libpq would read differently, and would then show.

    Raises:
        InvalidStoreAddress: It is not the address of a database.
    """
    if _ADDRESS.fullmatch(url) is None:
        raise InvalidStoreAddress(
            store=UNREADABLE,
            reason="of a name or password, @ is written %40, : %3A, / %2F, ? %3F, # %23",
        )


def without_password(url: str) -> str:
    """Return an address in a form safe for messages, logs and records."""
    found = _ADDRESS.fullmatch(url)
    if found is None:
        return UNREADABLE
    scheme, user, hosts, database, query = found.groups()
    shown = {name: value for name, value in parse_qsl(query or "") if name in _SHOWN}
    hosts = hosts or quote(shown.get("host", ""), safe="")
    user = user or quote(shown.get("user", ""), safe="")
    return f"{scheme}://{f'{user}@' if user else ''}{hosts}{database or ''}"


def for_command_line(url: str) -> str:
    """Return an address of the same database without its password.

    libpq finds the password in PGPASSWORD or in ~/.pgpass.
    """
    found = _ADDRESS.fullmatch(url)
    if found is None:
        return UNREADABLE
    scheme, user, hosts, database, query = found.groups()
    kept = [(name, value) for name, value in parse_qsl(query or "") if name in _SHOWN]
    asked = f"?{urlencode(kept)}" if kept else ""
    return f"{scheme}://{f'{user}@' if user else ''}{hosts}{database or ''}{asked}"
