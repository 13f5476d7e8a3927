"""The progress of event receivers, in a PostgreSQL store."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psycopg

from ....base.event_log import get_logger
from ....base.files import WriteError
from ....harness.feed_port import MOST_LEFT, MOST_REMOVED, LeftEvent, ReceiverState, is_chosen
from ....harness.session_domain import SessionContext
from ....harness.views.entry_events import events_after
from ..database import Connection, Database, advisory_key, lock_within
from .session_feed import decode_place, first_untold

_RECEIVERS: Final = b"""
select name, state,
    (select count(*) from agentforge.receiver_events where receiver = receivers.name)
from agentforge.receivers
"""
_log = get_logger("agentforge.feed")


class PostgresReceiver:
    """The state of one receiver. A `harness.feed_port.Receiver`.

    While it is held, a connection of its own has an advisory lock, and writes use that connection:
    a holder that has lost it can't overwrite the next holder's state.

    Args:
        database: The database.
        name: The receiver's name.
    """

    def __init__(self, database: Database, name: str) -> None:
        self._database = database
        self._name = name
        self._key = advisory_key(f"receiver {name}")
        self._connection: Connection | None = None

    @property
    def where(self) -> str:
        """The store's name, and the receiver's."""
        return f"{self._database.name} ({self._name})"

    @contextmanager
    def held(self, *, timeout_s: float = 0.0) -> Iterator[bool]:
        """Lock the receiver against other processes; see `Receiver`."""
        connection = self._database.lend()
        try:
            with self._database.errors():
                free = lock_within(connection, self._key, timeout_s)
            self._connection = connection if free else None
            yield free
            self._connection = None
            if free:
                connection.execute("select pg_advisory_unlock(%s)", (self._key,))
        except psycopg.Error as error:
            connection.close()
            raise self._refused(error) from error
        except BaseException:
            connection.close()
            raise
        finally:
            self._connection = None
        self._database.give_back(connection)

    def read(self) -> bytes | None:
        """Return the stored progress, or None; see `Receiver`."""
        row = self._database.one(
            "select state from agentforge.receivers where name = %s", (self._name,)
        )
        return None if row is None else str(row[0]).encode()

    def keep(self, data: bytes) -> None:
        """Store the progress, in one transaction; see `Receiver`."""
        with self._keeping() as connection:
            connection.execute(
                "insert into agentforge.receivers (name, state) values (%s, %s) "
                "on conflict (name) do update set state = excluded.state",
                (self._name, data.decode()),
            )

    @contextmanager
    def _keeping(self) -> Iterator[Connection]:
        if self._connection is None:
            raise WriteError(path=Path(self.where), operation="write without holding it")
        try:
            yield self._connection
        except psycopg.Error as error:
            raise self._refused(error) from error

    def _refused(self, error: psycopg.Error) -> WriteError:
        return WriteError(path=Path(self.where), operation="keep", cause=error)

    def left(self) -> dict[str, list[LeftEvent]]:
        """Return the events that removed sessions left for it; see `Receiver`."""
        rows = self._database.all(
            "select session_id, events from agentforge.receiver_events where receiver = %s "
            "order by session_id",
            (self._name,),
        )
        return {
            session_id: [(number, event_id, event) for number, event_id, event in events]
            for session_id, events in rows
        }

    def forget_left(self, session_id: str) -> None:
        """Drop the events that a removed session left; see `Receiver`."""
        with self._keeping() as connection:
            connection.execute(
                "delete from agentforge.receiver_events where receiver = %s and session_id = %s",
                (self._name, session_id),
            )

    def forget(self) -> None:
        """Drop all that is stored for it, in one transaction; see `Receiver`."""
        with self._keeping() as connection:
            connection.execute("delete from agentforge.receivers where name = %s", (self._name,))


def keep_untold(connection: Connection, session: SessionContext) -> None:
    """Store, in the transaction that removes a session, the events receivers have not had of it."""
    rows = connection.execute(_RECEIVERS).fetchall()
    for name, kept, count in rows:
        try:
            events = _untold(connection, ReceiverState.decoded(kept.encode()), session)
        except ValueError:  # an invalid state starts over
            continue
        if events and count >= MOST_REMOVED:
            _log.warning("feed.not_kept", receiver=name, session_id=session.session_id)
        elif events:
            connection.execute(
                "insert into agentforge.receiver_events (receiver, session_id, events) "
                "values (%s, %s, %s::jsonb) on conflict (receiver, session_id) "
                "do update set events = excluded.events",
                (name, session.session_id, json.dumps(events)),
            )


def _untold(
    connection: Connection, state: ReceiverState, session: SessionContext
) -> list[LeftEvent]:
    session_id, waiting = session.session_id, state.waiting.get(session.session_id)
    if waiting is not None:
        after = waiting.after
    else:
        first = first_untold(connection, session_id, decode_place(state.cursor))
        after = len(session.history) if first is None else first - 1
    wanted = is_chosen(state.events)
    return [
        (one.number, one.id, one.event.to_dict())
        for one in events_after(session_id, session.history, after)
        if wanted(one.event.name)
    ][-MOST_LEFT:]
