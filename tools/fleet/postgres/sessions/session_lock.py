"""The lock of a run, for all machines: an advisory lock that ends with its owner's connection."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import psycopg
from attrs import define, field

from ....base.event_log import get_logger
from ....base.files import LockTimeout
from ....harness.session_layout import RUN_LOCKS
from ..database import Connection, Database, advisory_key, lock_within

_log = get_logger("agentforge.store")
_THERE: Final = (
    "select 1 from agentforge.sessions where id = %(id)s and (%(name)s::text is null or exists "
    "(select 1 from agentforge.session_attachments where session_id = id and name = %(name)s))"
)
_RELEASE: Final = (
    "select pg_advisory_unlock(%s), set_config('application_name', 'agentforge', false)"
)
_CLAIM: Final = (
    "update agentforge.sessions set revision = revision + 1, claims = claims + 1 "
    "where id = %s and state in ('active', 'paused') returning claims"
)


def lock_key(session_id: str) -> int:
    """Return the key of a session's advisory lock, a signed 64-bit number."""
    return advisory_key(f"run {session_id}")


@define(eq=False)
class PostgresRunLock:
    """One worker's hold on a session. A `harness.session_ports.RunLock`.

    It has a connection of its own, straight to the server, which this process's next lock reuses: a
    pooler that gives each transaction another connection would lose the lock. The server releases
    the lock when the connection ends, which is when the worker's process dies, or when the server
    finds that its machine is unreachable.

    Args:
        database: The database of the sessions.
        session_id: The session to run.
        name: The attachment that a run requires; None if none is required.
        where: What to call it in messages.
        timeout_s: How long to wait for another owner, in seconds.
        job_id: The job of the queue that it is held for, or None.
        claimed: Receives the number of the claim once it is made, and None when the lock is
            released.
    """

    _database: Database
    _session_id: str
    _name: str | None
    _where: str = field(kw_only=True)
    _timeout_s: float = field(kw_only=True)
    _job_id: int | None = field(default=None, kw_only=True)
    _claimed: Callable[[int | None], None] | None = field(default=None, kw_only=True)
    _connection: Connection | None = field(default=None, init=False)

    def acquire(self) -> PostgresRunLock:
        """Take the lock and, for a run, claim the session.

        The claim raises the session's revision. From then on saves of an earlier worker are
        refused, however late they come and whether or not it still holds its lock.

        Raises:
            FileNotFoundError: There is no such session (any more), or it has nothing to lock.
            LockTimeout: Another owner holds it.
            StoreUnavailable: The server does not answer.
        """
        connection = self._database.lend()
        try:
            self._lock_on(connection)
            self._claim(connection)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return self

    def _lock_on(self, connection: Connection) -> None:
        wanted = {"id": self._session_id, "name": self._name}
        with self._database.errors():
            if connection.execute(_THERE, wanted).fetchone() is None:
                raise FileNotFoundError(self._where)
            if self._job_id is not None:
                connection.execute(
                    "select set_config('application_name', %s, false)",
                    (f"agentforge job {self._job_id}",),
                )
            if not lock_within(connection, lock_key(self._session_id), self._timeout_s):
                raise LockTimeout(path=Path(self._where), timeout_s=self._timeout_s)

    def _claim(self, connection: Connection) -> None:
        if self._name is None or self._claimed is None:
            return
        with self._database.errors():
            claim = connection.execute(_CLAIM, (self._session_id,)).fetchone()
        # One that has ended, or was deleted just now, is not claimed; it is not saved again.
        self._claimed(None if claim is None else claim[0])

    @property
    def is_held(self) -> bool:
        """Whether its connection is open, as far as this side knows."""
        return self._connection is not None and not self._connection.closed

    def release(self) -> None:
        """Release it; does nothing when it is not held."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        if self._claimed is not None and self._name is not None:
            self._claimed(None)
        try:
            # Released explicitly: the server notices the end of a connection only a moment later.
            unlocked = connection.execute(_RELEASE, (lock_key(self._session_id),)).fetchone()
        except psycopg.Error:
            _log.warning("store.lock_lost", session_id=self._session_id, store=self._where)
            connection.close()
            return
        except BaseException:
            connection.close()
            raise
        if unlocked is not None and unlocked[0]:
            self._database.give_back(connection)
        else:
            connection.close()


def has_run(connection: Connection, session_id: str) -> bool:
    """Return whether a session is of the kind that runners execute."""
    found = connection.execute(
        "select 1 from agentforge.session_attachments where session_id = %s and name = any(%s)",
        (session_id, list(RUN_LOCKS)),
    ).fetchone()
    return found is not None


def has_job(connection: Connection, session_id: str) -> bool:
    """Return whether a worker of the fleet examines a session, or is about to."""
    found = connection.execute(
        "select 1 from agentforge.procrastinate_jobs where lock = %s and status in ('todo', "
        "'doing') limit 1",
        (session_id,),
    ).fetchone()
    return found is not None


def is_run(connection: Connection, session_id: str) -> bool:
    """Return whether a worker holds a session's lock; the answer may be outdated at once."""
    key = lock_key(session_id) & (2**64 - 1)
    found = connection.execute(
        "select 1 from pg_locks where locktype = 'advisory' and granted and objsubid = 1 and "
        "classid = %s::oid and objid = %s::oid and database = "
        "(select oid from pg_database where datname = current_database())",
        (key >> 32, key & (2**32 - 1)),
    ).fetchone()
    return found is not None
