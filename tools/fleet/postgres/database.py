"""The connections to a PostgreSQL store; its errors become the library's own.

Each process has a few pooled connections. One that was idle is checked before use, so that one that
a restarted server ended is replaced unseen. Errors other than the store's (a programming error,
say) are raised as psycopg raises them.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Self
from weakref import WeakKeyDictionary

import psycopg
from psycopg.adapt import AdaptersMap, Loader
from psycopg.errors import LockNotAvailable
from psycopg.rows import TupleRow
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from .address import require_address, without_password
from .errors import (
    InvalidStoreAddress,
    StoreError,
    StoreForbidden,
    StoreFull,
    StorePooled,
    StoreRefused,
    StoreUnavailable,
)

if TYPE_CHECKING:
    from typing import LiteralString

    from psycopg.abc import Buffer

DEFAULT_CONNECTIONS: Final = 4
CONNECT_SECONDS: Final = 10.0

_RESTED_SECONDS: Final = 2.0
"""The idle time after which a connection is checked before use."""
_GONE: Final = ("08", "53", "57P")
"""PostgreSQL's codes: a connection's end, too few resources, an operator's intervention."""
_FORBIDDEN: Final = "42501"
"""The code of a missing right."""
_REFUSAL: Final = re.compile(r"FATAL: +(.*(?:authentication|password|does not exist|denied|hba).*)")
"""Why a server refused a connection for good; the server gives no code for it."""
_FULL: Final = ("53100", "53400", "54")
"""Disk full, a configured limit, a program limit."""

Connection = psycopg.Connection[TupleRow]

logging.getLogger("psycopg").addHandler(logging.NullHandler())  # a library writes to no terminal
_of_parents: Final[list[object]] = []
"""The pools inherited by a fork; closing one would close the parent's connections."""


class _UtcLoader(Loader):
    """Reads a time as UTC, whatever the connection's time zone: a pooler refuses to set it."""

    def load(self, data: Buffer) -> datetime:
        return datetime.fromisoformat(bytes(data).decode()).astimezone(UTC)


class _OwnTypes:
    """How values are read on our connections alone."""

    connection = None

    def __init__(self) -> None:
        self.adapters = AdaptersMap(psycopg.adapters)
        self.adapters.register_loader("timestamptz", _UtcLoader)


_TYPES: Final = _OwnTypes()


def advisory_key(name: str) -> int:
    """Return the key of a name's advisory lock, a signed 64-bit number."""
    digest = hashlib.sha256(f"agentforge {name}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def is_pooled(connection: Connection) -> bool:
    """Return whether a pooler is between this side and the server.

    A server sends the number of its process when a connection starts. A pooler, which has many
    processes behind one, sends a number of its own.
    """
    row = connection.execute("select pg_backend_pid()").fetchone()
    return row is not None and row[0] != connection.info.backend_pid


def lock_within(connection: Connection, key: int, timeout_s: float) -> bool:
    """Take an advisory lock for a connection; return False if it was not free in time."""
    got = connection.execute("select pg_try_advisory_lock(%s)", (key,)).fetchone()
    limit_ms = int(timeout_s * 1000)
    if (got is not None and got[0]) or limit_ms <= 0:
        return got is not None and bool(got[0])
    connection.execute("select set_config('lock_timeout', %s, false)", (str(limit_ms),))
    try:
        connection.execute("select pg_advisory_lock(%s)", (key,))
    except LockNotAvailable:
        return False
    finally:
        connection.execute("select set_config('lock_timeout', '0', false)")
    return True


class _Lease:
    """A pooled connection for a block; the block's exceptions become errors of the store.

    A class, and not a generator around the pool's own: every save uses it, and each of the three
    context managers that it replaces took as long as the encoding of the save.
    """

    __slots__ = ("_connection", "_database", "_pool")

    def __init__(self, database: Database) -> None:
        self._database = database

    def __enter__(self) -> Connection:
        try:
            self._pool, self._connection = self._database._lease()
        except psycopg.Error as error:
            raise self._database._in_own_words(error) from error
        return self._connection

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        # The pool rolls back an open transaction, and replaces a connection that has ended.
        self._pool.putconn(self._connection)
        if isinstance(error, psycopg.Error):
            raise self._database._in_own_words(error) from error


class Database:
    """A database, by a bounded number of connections.

    Guarantees: a `transaction` is committed when its block ends without an error, and rolled back
    when it raises. Errors of the server and the network are `StoreError`s. A pooler that gives each
    transaction another connection (PgBouncer in transaction mode) makes no difference: statements
    are then not prepared by name. A forked process opens connections of its own. Instances may be
    shared between threads.

    Args:
        url: `postgresql://user:password@host:port/database`, or any other form of libpq's.
        direct: The server itself, where `url` is a pooler: for what lasts longer than a
            transaction, as locks and notifications do. `url` if None.
        connections: The most at once, 1 or more.
        connect_s: How long to wait for one, in seconds.
        ready: Called once, before the first connection is used: its exception is passed to the
            caller, and the next caller calls it again.
        monotonic: The clock, in seconds.

    Raises:
        InvalidStoreAddress: It is not such an address.
    """

    def __init__(
        self,
        url: str,
        *,
        direct: str | None = None,
        connections: int = DEFAULT_CONNECTIONS,
        connect_s: float = CONNECT_SECONDS,
        ready: Callable[[Database], object] | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.url = url
        self.direct = url if direct is None else direct
        self.name = without_password(url)
        for address in (url, self.direct):
            require_address(address)
            try:
                psycopg.conninfo.conninfo_to_dict(address)
            except psycopg.ProgrammingError as error:
                raise InvalidStoreAddress(
                    store=without_password(address), reason="it can't be read"
                ) from error
        self._connections = connections
        self._connect_s = connect_s
        self._options: dict[str, Any] = {
            "autocommit": True,  # saves a round trip for the transaction of a single statement
            "connect_timeout": max(2, int(connect_s)),
            "application_name": "agentforge",
            "context": _TYPES,
        }
        self._is_direct = direct is not None
        self._pooled: bool | None = None
        self._pool: ConnectionPool[Connection] | None = None
        self._process = os.getpid()
        self._mutex = Lock()
        self._ready = ready
        self._monotonic = monotonic
        self._seen: WeakKeyDictionary[Connection, float] = WeakKeyDictionary()
        self._spare: Connection | None = None

    def _opened(self) -> ConnectionPool[Connection]:
        """Return this process's pool; the very first connection reports errors at once."""
        if self._process != os.getpid():
            _of_parents.extend((self._pool, self._spare))
            self._pool, self._spare, self._process, self._mutex = None, None, os.getpid(), Lock()
        with self._mutex:
            if self._pool is None:
                if self._pooled is None:
                    with self._connect(self.url) as first:
                        self._pooled = is_pooled(first)
                self._pool = ConnectionPool(
                    self.url,
                    min_size=0,
                    max_size=self._connections,
                    timeout=self._connect_s,
                    kwargs={**self._options, "prepare_threshold": None if self._pooled else 5},
                    check=self._check,
                    open=True,
                    name="agentforge",
                )
            return self._pool

    def _check(self, connection: Connection) -> None:
        """Replace a connection that the server has ended; checked only after idle time."""
        now = self._monotonic()
        if now - self._seen.get(connection, float("-inf")) > _RESTED_SECONDS:
            ConnectionPool.check_connection(connection)
        self._seen[connection] = now

    @contextlib.contextmanager
    def transaction(self) -> Iterator[Connection]:
        """Run a block in a transaction: all of it takes effect, or nothing.

        Raises:
            StoreUnavailable: The server does not answer, or was lost.
            StoreFull: Its disk is full.
            StoreRefused: It refused for another reason.
        """
        with self.connection() as connection, connection.transaction():
            yield connection

    def connection(self) -> AbstractContextManager[Connection]:
        """Return a connection on which each statement is a transaction of its own.

        Raises: as `transaction`.
        """
        return _Lease(self)

    def _lease(self) -> tuple[ConnectionPool[Connection], Connection]:
        pool = self._opened()
        if self._ready is not None:
            ready, self._ready = self._ready, None
            try:
                ready(self)
            except BaseException:
                self._ready = ready
                raise
        return pool, pool.getconn()

    def connect(self) -> Connection:
        """Open a separate connection to the server itself, in autocommit; the caller closes it.

        Raises:
            StoreUnavailable: The server does not answer.
            StorePooled: The address is a pooler, and the server's own is not known.
        """
        connection = self._connect(self.direct)
        try:
            if not self._is_direct:
                self._require_no_pooler(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def lend(self) -> Connection:
        """Return a connection as `connect` does, a returned one if there is one.

        The caller closes it or gives it back.

        Raises: as `connect`.
        """
        self._opened()
        with self._mutex:
            spare, self._spare = self._spare, None
        if spare is not None:
            try:
                self._check(spare)
            except psycopg.Error:
                spare.close()
            else:
                return spare
        return self.connect()

    def give_back(self, connection: Connection) -> None:
        """Hold a connection for the next call of `lend`; close it if one is held already.

        It must be in the same state as when it was lent.
        """
        self._seen[connection] = self._monotonic()
        with self._mutex:
            if self._process == os.getpid() and self._spare is None and not connection.closed:
                self._spare = connection
                return
        connection.close()

    def _require_no_pooler(self, connection: Connection) -> None:
        if self._pooled is None:
            with self.errors():
                self._pooled = is_pooled(connection)
        if self._pooled:
            raise StorePooled(store=self.name)

    def _connect(self, url: str) -> Connection:
        with self.errors():
            return psycopg.connect(url, prepare_threshold=None, **self._options)

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """Convert errors of the server and the network to errors of the store."""
        try:
            yield
        except psycopg.Error as error:
            raise self._in_own_words(error) from error

    def _in_own_words(self, error: psycopg.Error) -> StoreError | psycopg.Error:
        if isinstance(error, PoolTimeout):
            found: StoreError | psycopg.Error = StoreUnavailable(
                store=self.name, reason=self._why_none(error)
            )
        elif isinstance(error, PoolClosed):
            found = StoreUnavailable(store=self.name, reason=str(error))
        else:
            found = self._own_error(error)
        if isinstance(found, StoreUnavailable):
            # A cause that ended one has probably ended all: each is checked before its next use.
            self._seen.clear()
        return found

    def _why_none(self, timeout: PoolTimeout) -> str:
        """Return why there is no connection: the pool itself reports only the timeout."""
        try:
            psycopg.connect(self.url, **{**self._options, "connect_timeout": 2}).close()
        except psycopg.Error as error:
            return str(error).strip()
        return str(timeout)

    def _own_error(self, error: psycopg.Error) -> StoreError | psycopg.Error:
        code = error.sqlstate
        reason = " ".join((error.diag.message_primary or str(error)).split())
        reason = reason or type(error).__name__
        if code is None and isinstance(error, psycopg.ProgrammingError):
            return error
        kind: type[StoreRefused] = StoreRefused
        if isinstance(error, psycopg.OperationalError) and (code or "08").startswith(_GONE):
            refusal = _REFUSAL.search(reason)
            if refusal is None and not (code or "").startswith(_FULL):
                return StoreUnavailable(store=self.name, reason=reason)
            kind, reason = StoreForbidden, reason if refusal is None else refusal[1]
        if code == _FORBIDDEN:
            kind = StoreForbidden
        elif code is not None and code.startswith(_FULL):
            kind = StoreFull
        return kind(store=self.name, sqlstate=code, reason=reason)

    def one(self, statement: LiteralString | bytes, values: Any = ()) -> TupleRow | None:
        """Run one statement in a transaction of its own, and return its first row."""
        with self.connection() as connection:
            return connection.execute(statement, values).fetchone()

    def all(self, statement: LiteralString | bytes, values: Any = ()) -> list[TupleRow]:
        """Run one statement in a transaction of its own, and return its rows."""
        with self.connection() as connection:
            return connection.execute(statement, values).fetchall()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; those in use are closed when they are returned.

        Later use opens new ones.
        """
        if self._process != os.getpid():
            return
        with self._mutex:
            pool, self._pool = self._pool, None
            spare, self._spare = self._spare, None
        if pool is not None:
            pool.close()
        if spare is not None:
            spare.close()


class OnDatabase:
    """Base class of what is stored in a database.

    Args:
        database: The database.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
