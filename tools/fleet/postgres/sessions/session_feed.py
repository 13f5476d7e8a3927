"""The feed of a PostgreSQL store: the entries in the order of the transactions that saved them.

A place in it is the last entry that was passed, and as short for a million sessions as for one. The
entries of a running transaction may precede committed ones, so a feed ends before the oldest
running one: a reader that looks again soon misses nothing. An unreadable session delays no reader:
a place names the sessions that were left out, and from which entry on.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from itertools import zip_longest
from typing import Final, NamedTuple

from attrs import frozen

from ....base.event_log import get_logger
from ....harness.errors import SessionCorrupted
from ....harness.session_domain import SessionContext
from ....harness.views.entry_events import EntryEvent, events_after
from ....harness.views.session_page import InvalidCursor
from ..database import Connection, Database

_ID: Final = r"session_[0-9]{8}_[0-9a-f_]{1,16}"
_LEFT_OUT: Final = re.compile(rf"\+({_ID})\.([0-9]{{1,10}})")
_FORM: Final = re.compile(
    rf"p1\.([0-9]{{1,20}})\.(|{_ID})\.([0-9]{{1,10}})((?:{_LEFT_OUT.pattern})*)"
)
_MOST: Final = 1_000
_BEHIND: Final = b"""
select saved_by::text as save, session_id, number from agentforge.session_history
where saved_by >= %(save)s::xid8 and saved_by < pg_snapshot_xmin(pg_current_snapshot())
    and (saved_by, session_id, number) > (%(save)s::xid8, %(session_id)s, %(number)s)
order by saved_by, session_id, number limit %(most)s
"""
_LAGS: Final = b"""
select 1 from agentforge.session_history
where saved_by >= pg_snapshot_xmin(pg_current_snapshot())
    and saved_by < pg_snapshot_xmax(pg_current_snapshot()) limit 1
"""
_LATE: Final = b"""
select number from agentforge.session_history
where session_id = %(left_out)s and number >= %(first)s and saved_by is not null
    and (saved_by, session_id, number) <= (%(save)s::xid8, %(session_id)s, %(number)s)
order by number
"""
_IS_OWN: Final = "select %s::xid8 <= pg_snapshot_xmax(pg_current_snapshot())"
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
        number: Its number in the session's history, from 1.
    """

    save: int
    session_id: str
    number: int

    def values(self) -> dict[str, object]:
        """Return the parameters of a statement that starts after it."""
        return {"save": str(self.save), "session_id": self.session_id, "number": self.number}


class FeedPlace(NamedTuple):
    """A place in the feed.

    Attributes:
        last: The last entry that was passed, in the order of the feed.
        left_out: The unreadable sessions, with the first undelivered entry of each.
    """

    last: SavedEntry
    left_out: Mapping[str, int]


BEGINNING: Final = FeedPlace(SavedEntry(0, "", 0), {})


def encode_place(place: FeedPlace) -> str:
    """Encode a place in the feed as text."""
    last = place.last
    left_out = "".join(f"+{name}.{number}" for name, number in place.left_out.items())
    return f"p1.{last.save}.{last.session_id}.{last.number}{left_out}"


def decode_place(cursor: str) -> FeedPlace:
    """Decode a place in the feed.

    Raises:
        ValueError: It is not a valid place.
    """
    found = _FORM.fullmatch(cursor)
    if found is None or int(found[1]) >= 2**64 or int(found[3]) >= 2**31:
        raise ValueError("it is no place in this feed")
    left_out = {name: int(number) for name, number in _LEFT_OUT.findall(found[4])}
    if any(number >= 2**31 for number in left_out.values()):
        raise ValueError("it is no place in this feed")
    return FeedPlace(SavedEntry(int(found[1]), found[2], int(found[3])), left_out)


def place_after(database: Database, cursor: str | None) -> FeedPlace:
    """Return the place to continue from; the beginning for None.

    Raises:
        InvalidCursor: It is not a place, or one of another cluster, whose transactions differ.
    """
    if cursor is None:
        return BEGINNING
    try:
        place = decode_place(cursor)
    except ValueError as error:
        raise InvalidCursor(cursor, f"is no cursor of {database.name}") from error
    is_own = database.one(_IS_OWN, (str(place.last.save),))
    if is_own is None or not is_own[0]:
        raise InvalidCursor(cursor, f"is of before {database.name} was restored elsewhere")
    return place


def end_of_feed(connection: Connection) -> str:
    """Return the place after everything that is stored now."""
    row = connection.execute("select pg_snapshot_xmin(pg_current_snapshot())::text").fetchone()
    return encode_place(FeedPlace(SavedEntry(0 if row is None else int(row[0]), "", 0), {}))


def first_untold(connection: Connection, session_id: str, place: FeedPlace) -> int | None:
    """Return the number of a session's first entry after a place; None if there is none."""
    if session_id in place.left_out:
        return place.left_out[session_id]
    row = connection.execute(_UNTOLD, {**place.last.values(), "removed": session_id}).fetchone()
    return None if row is None else int(row[0])


class PostgresFeed:
    """The entries saved since a place, of all sessions. A `harness.feed_port.Feed`.

    Args:
        database: The database of the sessions.
        load: Reads a complete session.
        place: The place.
    """

    def __init__(
        self,
        database: Database,
        load: Callable[[str], SessionContext | None],
        place: FeedPlace,
    ) -> None:
        self._database = database
        self._load = load
        self._place = place.last
        self._left_out = dict(place.left_out)
        self._saves: dict[tuple[str, int], int] = {}
        self._late: dict[tuple[str, int], int | None] = {}
        """Entries of sessions that were left out, each with the session's next such entry or
        None."""
        self.lags = False

    @property
    def cursor(self) -> str:
        """The place, as text; another process can continue from it."""
        return encode_place(FeedPlace(self._place, self._left_out))

    def look(
        self,
        only: Collection[str] | None = None,  # noqa: ARG002 (all of them cost one index scan)
    ) -> Iterator[EntryEvent]:
        """Yield what comes after the place; see `Feed`."""
        caught_up: set[str] = set()
        yield from self._left_out_before(caught_up)
        place, found = self._place, _MOST
        while found == _MOST:
            with self._database.connection() as connection:
                values = {**place.values(), "most": _MOST}
                # Before the rows: entries that no longer lag at this point are among them.
                self.lags = connection.execute(_LAGS).fetchone() is not None
                rows = [
                    SavedEntry(int(save), session_id, number)
                    for save, session_id, number in connection.execute(_BEHIND, values)
                ]
            found = len(rows)
            if rows:
                place = rows[-1]
                self._saves = {(one.session_id, one.number): one.save for one in rows}
                yield from self._events(rows, caught_up)

    def _events(self, rows: list[SavedEntry], caught_up: set[str]) -> Iterator[EntryEvent]:
        by_session: dict[str, dict[int, list[EntryEvent]]] = {}
        for row in rows:
            session_id = row.session_id
            if session_id in self._left_out and session_id not in caught_up:
                continue
            if session_id not in by_session:
                read = self._read(session_id, row.number)
                if read is None:
                    self._left_out.setdefault(session_id, row.number)
                    caught_up.discard(session_id)
                    continue
                by_session[session_id] = read
            yield from by_session[session_id].get(row.number, ())

    def _left_out_before(self, caught_up: set[str]) -> Iterator[EntryEvent]:
        """Yield what was left out before the place, of sessions that can be read now."""
        for session_id, first in tuple(self._left_out.items()):
            values = {**self._place.values(), "left_out": session_id, "first": first}
            with self._database.connection() as connection:
                numbers = [int(row[0]) for row in connection.execute(_LATE, values)]
            if not numbers:  # it was removed, or the place is not after it yet
                del self._left_out[session_id]
                continue
            read = self._read(session_id, first)
            if read is None:
                continue
            caught_up.add(session_id)
            for number, following in zip_longest(numbers, numbers[1:]):
                self._late[session_id, number] = following
                yield from read.get(number, ())

    def _read(self, session_id: str, first: int) -> dict[int, list[EntryEvent]] | None:
        """Read the events of a session from an entry on, by the numbers of their entries.

        None if the stored session can't be read.
        """
        try:
            session = self._load(session_id)
        except SessionCorrupted as error:
            _log.debug("feed.session_unreadable", session_id=session_id, error=str(error))
            return None
        found: dict[int, list[EntryEvent]] = {}
        if session is not None:
            after = min(first - 1, len(session.history))
            for one in events_after(session_id, session.history, after):
                found.setdefault(one.number, []).append(one)
        return found

    def passed(self, found: EntryEvent) -> None:
        """Move the place after a yielded event; see `Feed`."""
        session_id = found.event.session_id or ""
        if not found.is_last:
            return
        if (session_id, found.number) in self._late:
            following = self._late.pop((session_id, found.number))
            if following is None:
                self._left_out.pop(session_id, None)
            else:
                self._left_out[session_id] = following
            return
        save = self._saves.get((session_id, found.number))
        if save is not None:
            self._place = SavedEntry(save, session_id, found.number)


@frozen
class SessionSource:
    """Single sessions, as feeds of one session read them. A `FeedSource`.

    Attributes:
        where: The store's name.
        load: Reads a complete session.
        change_mark: Returns a value that differs once a session has changed.
    """

    where: str
    load: Callable[[str], SessionContext | None]
    change_mark: Callable[[str], Hashable | None]

    def list_sessions(self) -> list[str]:
        """Return nothing: a feed of one session lists none."""
        return []
