"""The feed of a PostgreSQL store: the entries in the order of the transactions that saved them.

A place in it is the last entry that was passed, and as short for a million sessions as for one.
What a transaction saves that still runs may come before what is committed already, so a feed goes
no further than the oldest that runs: who looks again soon misses nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Iterator
from typing import Final, NamedTuple

from ....base.errors import AgentForgeError
from ....base.event_log import get_logger
from ....harness.session_domain import SessionContext
from ....harness.views.entry_events import EntryEvent, events_after
from ....harness.views.session_page import InvalidCursor
from ..database import Connection, Database

_FORM: Final = re.compile(r"p1\.([0-9]{1,20})\.(|session_[0-9]{8}_[0-9a-f_]{1,16})\.([0-9]{1,10})")
_MOST: Final = 1_000
_BEHIND: Final = b"""
select saved_by::text, session_id, number from agentforge.session_history
where saved_by >= %(save)s::xid8 and saved_by < pg_snapshot_xmin(pg_current_snapshot())
    and (saved_by, session_id, number) > (%(save)s::xid8, %(session_id)s, %(number)s)
order by saved_by, session_id, number limit %(most)s
"""
_LAGS: Final = b"""
select 1 from agentforge.session_history
where saved_by >= pg_snapshot_xmin(pg_current_snapshot())
    and saved_by < pg_snapshot_xmax(pg_current_snapshot()) limit 1
"""
_UNTOLD: Final = b"""
select number from agentforge.session_history
where session_id = %(removed)s and saved_by is not null
    and (saved_by, session_id, number) > (%(save)s::xid8, %(session_id)s, %(number)s)
order by number limit 1
"""

_log = get_logger("agentforge.feed")


class SavedEntry(NamedTuple):
    """An entry, and with it a place in the feed.

    Attributes:
        save: The number of the transaction that saved it.
        session_id: Its session.
        number: Which entry of its history it is, from 1.
    """

    save: int
    session_id: str
    number: int

    def values(self) -> dict[str, object]:
        """Return the parameters of a statement that begins behind it."""
        return {"save": str(self.save), "session_id": self.session_id, "number": self.number}


def encode_place(place: SavedEntry) -> str:
    """Return a place in the feed as a text."""
    return f"p1.{place.save}.{place.session_id}.{place.number}"


def decode_place(cursor: str) -> SavedEntry:
    """Read a place in the feed.

    Raises:
        ValueError: It is none.
    """
    found = _FORM.fullmatch(cursor)
    if found is None or int(found[1]) >= 2**64 or int(found[3]) >= 2**31:
        raise ValueError("it is no place in this feed")
    return SavedEntry(int(found[1]), found[2], int(found[3]))


def place_after(cursor: str | None, where: str) -> SavedEntry:
    """Return the place that a caller goes on from; the beginning for None.

    Raises:
        InvalidCursor: It is none.
    """
    try:
        return SavedEntry(0, "", 0) if cursor is None else decode_place(cursor)
    except ValueError as error:
        raise InvalidCursor(cursor or "", f"is no cursor of {where}") from error


def end_of_feed(connection: Connection) -> str:
    """Return the place behind everything that is stored now."""
    row = connection.execute("select pg_snapshot_xmin(pg_current_snapshot())::text").fetchone()
    return encode_place(SavedEntry(0 if row is None else int(row[0]), "", 0))


def first_untold(connection: Connection, session_id: str, place: SavedEntry) -> int | None:
    """Return the number of a session's first entry behind a place; None if there is none."""
    row = connection.execute(_UNTOLD, {**place.values(), "removed": session_id}).fetchone()
    return None if row is None else int(row[0])


class PostgresFeed:
    """What was saved of all sessions since a place. A `harness.feed_port.Feed`.

    Args:
        database: Where the sessions are.
        load: Reads a session whole.
        place: The place.
    """

    def __init__(
        self,
        database: Database,
        load: Callable[[str], SessionContext | None],
        place: SavedEntry,
    ) -> None:
        self._database = database
        self._load = load
        self._place = place
        self._saves: dict[tuple[str, int], int] = {}
        self.lags = False

    @property
    def cursor(self) -> str:
        """The place, as a text that another process can go on from."""
        return encode_place(self._place)

    def look(
        self,
        only: Collection[str] | None = None,  # noqa: ARG002 (all of them cost one index scan)
    ) -> Iterator[EntryEvent]:
        """Go through what stands behind the place; see `Feed`."""
        place, found = self._place, _MOST
        while found == _MOST:
            with self._database.connection() as connection:
                values = {**place.values(), "most": _MOST}
                # Before the rows: what was there and had to wait for nobody then, is among them.
                self.lags = connection.execute(_LAGS).fetchone() is not None
                rows = [
                    SavedEntry(int(save), session_id, number)
                    for save, session_id, number in connection.execute(_BEHIND, values)
                ]
            found = len(rows)
            if rows:
                place = rows[-1]
                self._saves = {(one.session_id, one.number): one.save for one in rows}
                yield from self._events(rows)

    def _events(self, rows: list[SavedEntry]) -> Iterator[EntryEvent]:
        by_session: dict[str, dict[int, list[EntryEvent]]] = {}
        for row in rows:
            if row.session_id not in by_session:
                by_session[row.session_id] = self._read(row)
            yield from by_session[row.session_id].get(row.number, ())

    def _read(self, first: SavedEntry) -> dict[int, list[EntryEvent]]:
        """Read the events of a session from an entry on, by the numbers of their entries."""
        try:
            session = self._load(first.session_id)
        except AgentForgeError as error:
            _log.warning("feed.session_unreadable", session_id=first.session_id, error=str(error))
            return {}
        found: dict[int, list[EntryEvent]] = {}
        if session is not None:
            after = min(first.number - 1, len(session.history))
            for one in events_after(first.session_id, session.history, after):
                found.setdefault(one.number, []).append(one)
        return found

    def passed(self, found: EntryEvent) -> None:
        """Move the place behind an event that was found; see `Feed`."""
        session_id = found.event.session_id or ""
        save = self._saves.get((session_id, found.number))
        if save is not None and found.is_last:
            self._place = SavedEntry(save, session_id, found.number)


class SessionSource:
    """One session after the other, as feeds of single sessions look. A `FeedSource`.

    Args:
        where: The store's name.
        load: Reads a session whole.
        change_mark: Returns what is another value once a session has changed.
    """

    def __init__(
        self,
        where: str,
        load: Callable[[str], SessionContext | None],
        change_mark: Callable[[str], Hashable | None],
    ) -> None:
        self.where = where
        self.load = load
        self.change_mark = change_mark

    def list_sessions(self) -> list[str]:
        """Return nothing: a feed of one session lists none."""
        return []
