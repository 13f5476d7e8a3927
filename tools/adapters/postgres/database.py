"""The connections to a PostgreSQL store, and its errors as the library's own.

A few pooled connections for each process. Each is looked at before it is given out, so that one
that a restarted server ended is replaced unseen. What is not understood as an error of the store
(a programming error, say) is raised as psycopg raises it.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self
from urllib.parse import parse_qs, quote, urlsplit, urlunsplit
from weakref import WeakKeyDictionary

import psycopg
from psycopg.rows import TupleRow
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from .errors import InvalidStoreAddress, StoreError, StoreFull, StoreRefused, StoreUnavailable

if TYPE_CHECKING:
    from typing import LiteralString

SCHEMES: Final = ("postgresql", "postgres")
DEFAULT_CONNECTIONS: Final = 4
CONNECT_SECONDS: Final = 10.0

_RESTED_SECONDS: Final = 2.0
"""A connection that was not used for so long is looked at before it is given out."""
_GONE: Final = ("08", "53", "57P")
"""PostgreSQL's codes: a connection's end, too few resources, an operator's intervention."""
_FULL: Final = ("53100", "53400", "54")
"""Disk full, a configured limit, a program limit."""

Connection = psycopg.Connection[TupleRow]

# What the pool warns of is in our errors; where nobody asked for logs, Python would print it.
logging.getLogger("psycopg").addHandler(logging.NullHandler())


def without_password(url: str) -> str:
    """Return a store's address as it may stand in messages, logs and records."""
    try:
        parts = urlsplit(url)
        user = f"{parts.username}@" if parts.username else ""
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return f"{url.partition(':')[0]}://…"
    # The query may hold a password, too; of it, where the server's socket is, is worth showing.
    host = parts.hostname or parse_qs(parts.query).get("host", [""])[0]
    return urlunsplit((parts.scheme, f"{user}{quote(host, safe='')}{port}", parts.path, "", ""))


class Database:
    """A database, by a bounded number of connections.

    Guarantees: what a `transaction` did is committed when its block ends without an error, and
    undone when it raises. Errors of the server and the network are `StoreError`s.

    Args:
        url: `postgresql://user:password@host:port/database`, or any other form of libpq's.
        connections: The most at once, 1 or more.
        connect_s: How long one is waited for, in seconds.
        prepared: Whether statements are prepared by name; not behind a pooler that gives each
            transaction another connection.
        ready: Called once, before the first connection is given out: what it raises, the caller
            gets, and the next one calls it again.
        monotonic: The time, in seconds.

    Raises:
        InvalidStoreAddress: It is no such address.
    """

    def __init__(
        self,
        url: str,
        *,
        connections: int = DEFAULT_CONNECTIONS,
        connect_s: float = CONNECT_SECONDS,
        prepared: bool = True,
        ready: Callable[[Database], object] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url = url
        self.name = without_password(url)
        try:
            psycopg.conninfo.conninfo_to_dict(url)
        except psycopg.ProgrammingError as error:
            raise InvalidStoreAddress(store=self.name, reason="it can't be read") from error
        self._options: dict[str, Any] = {
            "autocommit": True,  # a single statement needs no trip for its transaction
            "connect_timeout": max(2, int(connect_s)),
            "options": "-c timezone=UTC",
            "application_name": "agentforge",
            "prepare_threshold": 5 if prepared else None,
        }
        self._pool: ConnectionPool[Connection] = ConnectionPool(
            url,
            min_size=0,
            max_size=connections,
            timeout=connect_s,
            kwargs=self._options,
            check=self._check,
            open=False,
            name="agentforge",
        )
        self._opened = False
        self._ready = ready
        self._monotonic = monotonic
        self._seen: WeakKeyDictionary[Connection, float] = WeakKeyDictionary()

    def _check(self, connection: Connection) -> None:
        """Replace a connection that the server has ended; asked of one that rested a while."""
        now = self._monotonic()
        if now - self._seen.get(connection, float("-inf")) > _RESTED_SECONDS:
            ConnectionPool.check_connection(connection)
        self._seen[connection] = now

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Do all of a block, or nothing of it.

        Raises:
            StoreUnavailable: The server does not answer, or was lost.
            StoreFull: Its disk is full.
            StoreRefused: It refused for another reason.
        """
        with self.connection() as connection, connection.transaction():
            yield connection

    @contextlib.contextmanager
    def connection(self) -> Iterator[Connection]:
        """Give a connection on which each statement is a transaction of its own.

        Raises: as `transaction`.
        """
        if not self._opened:
            self._pool.open()
            self._opened = True
        if self._ready is not None:
            ready, self._ready = self._ready, None
            try:
                ready(self)
            except BaseException:
                self._ready = ready
                raise
        try:
            with self.errors(), self._pool.connection() as connection:
                yield connection
        except StoreUnavailable:
            # What ended one has mostly ended all: each is looked at before it is used again.
            self._seen.clear()
            raise

    def connect(self) -> Connection:
        """Open a connection of its own, in autocommit, which the caller closes.

        Raises:
            StoreUnavailable: The server does not answer.
        """
        with self.errors():
            return psycopg.connect(self.url, **self._options)

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """Raise what the server and the network say as errors of the store."""
        try:
            yield
        except PoolTimeout as error:
            raise StoreUnavailable(store=self.name, reason=self._why_none(error)) from error
        except PoolClosed as error:
            raise StoreUnavailable(store=self.name, reason=str(error)) from error
        except psycopg.Error as error:
            raise self._own_error(error) from error

    def _why_none(self, timeout: PoolTimeout) -> str:
        """Return why there is no connection: the pool itself says only that time is up."""
        try:
            psycopg.connect(self.url, **{**self._options, "connect_timeout": 2}).close()
        except psycopg.Error as error:
            return str(error).strip()
        return str(timeout)

    def _own_error(self, error: psycopg.Error) -> StoreError | psycopg.Error:
        code = error.sqlstate
        reason = (error.diag.message_primary or str(error)).strip() or type(error).__name__
        if code is not None and code.startswith(_FULL):
            return StoreFull(store=self.name, sqlstate=code, reason=reason)
        if isinstance(error, psycopg.OperationalError) and (code is None or code.startswith(_GONE)):
            return StoreUnavailable(store=self.name, reason=reason)
        if isinstance(error, psycopg.ProgrammingError) and code is None:
            return error
        return StoreRefused(store=self.name, sqlstate=code, reason=reason)

    def one(self, statement: LiteralString, values: Any = ()) -> TupleRow | None:
        """Run one statement in a transaction of its own, and return its first row."""
        with self.connection() as connection:
            return connection.execute(statement, values).fetchone()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; those in use are closed when they come back."""
        if self._opened:
            self._pool.close()
