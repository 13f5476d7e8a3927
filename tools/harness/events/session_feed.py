"""Feed of sessions that are stored one by one: how many entries of each were passed.

Such a store has no order across sessions, so a position in its feed says for each session how many
entries precede it. That is exact, whatever clocks and killed writers do, and takes some 25 bytes
per session. A session whose change mark is unchanged is not read again.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Collection, Hashable, Iterator
from typing import Final, NamedTuple, Protocol

from ...base.errors import AgentForgeError
from ...base.event_log import get_logger
from ..format.session_codec import END_MARK, decode_head
from ..session_domain import SessionContext, validate_session_id
from ..views.entry_events import EntryEvent, events_after, first_own
from ..views.session_page import InvalidCursor

_FORM: Final = "f1."
_MOST_BYTES: Final = 1 << 26
_HISTORY: Final = b"\nhistory:\n"
_ENTRY: Final = b"\n  - timestamp: "
_UNMARKED: Final = 0

_log = get_logger("agentforge.feed")


class FeedSource(Protocol):
    """What a feed reads from: part of every repository of sessions."""

    @property
    def where(self) -> str:
        """Where the sessions are stored."""
        ...

    def list_sessions(self) -> list[str]:
        """Return the ids of all sessions, sorted."""
        ...

    def change_mark(self, session_id: str) -> Hashable | None:
        """Return a value that differs once the session has changed."""
        ...

    def load(self, session_id: str) -> SessionContext | None:
        """Read a session; None if there is none."""
        ...


class CountedSource(FeedSource, Protocol):
    """A source that can count a session's entries without reading them."""

    def read_document(self, session_id: str) -> bytes | None:
        """Return the text of a session's file; None if there is none."""
        ...


class Passed(NamedTuple):
    """How far the feed has passed one session.

    Attributes:
        entries: The number of history entries passed.
        mark: The session's change mark when all entries were passed; 0 if unknown.
    """

    entries: int
    mark: int


def encode_positions(positions: dict[str, Passed]) -> str:
    """Return a position in the feed as text."""
    packed = zlib.compress(json.dumps(positions, separators=(",", ":")).encode(), 1)
    return _FORM + base64.urlsafe_b64encode(packed).decode()


def decode_positions(cursor: str) -> dict[str, Passed]:
    """Parse a position in the feed.

    Raises:
        ValueError: It is not a position.
    """
    if not cursor.startswith(_FORM):
        raise ValueError("it is of another feed")
    try:
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(
            base64.b64decode(cursor.removeprefix(_FORM), b"-_", validate=True), _MOST_BYTES
        )
        if not unpacker.eof:
            raise ValueError("it is cut off, or too long")
        return {
            validate_session_id(name): Passed(_count(entries), _count(mark))
            for name, (entries, mark) in json.loads(data).items()
        }
    except (zlib.error, AttributeError, TypeError, RecursionError, AgentForgeError) as error:
        raise ValueError("it is no place in a feed") from error


def _count(value: object) -> int:
    if type(value) is not int or value < 0:
        raise ValueError("it is no count")
    return value


class PositionFeed:
    """Feed of what was saved in all sessions, or in one, since a position. A `feed_port.Feed`.

    Args:
        source: Where the sessions are.
        positions: How far each was passed; a missing one was not passed at all.
        session_id: The one session; all of them if None.
    """

    def __init__(
        self, source: FeedSource, positions: dict[str, Passed], *, session_id: str | None = None
    ) -> None:
        self._source = source
        self._positions = positions
        self._session_id = session_id
        self._seen: dict[str, Passed] = {}

    @property
    def cursor(self) -> str:
        """The position, as text that another process can continue from."""
        return encode_positions(self._positions)

    @property
    def lags(self) -> bool:
        """False: the next look sees everything saved."""
        return False

    def look(self, only: Collection[str] | None = None) -> Iterator[EntryEvent]:
        """Yield the events after the position; see `feed_port.Feed`."""
        if self._session_id is not None:
            only = (self._session_id,)
        names = self._source.list_sessions() if only is None else sorted(only)
        for session_id in names:
            mark = change_number(self._source, session_id)
            known = self._positions.get(session_id)
            if known is None or mark == _UNMARKED or known.mark != mark:
                yield from self._behind(session_id, known, mark)
        if only is None:
            for session_id in self._positions.keys() - set(names):
                if self._source.change_mark(session_id) is None:
                    del self._positions[session_id]

    def _behind(self, session_id: str, known: Passed | None, mark: int) -> Iterator[EntryEvent]:
        try:
            session = self._source.load(session_id)
        except AgentForgeError as error:
            _log.debug("feed.session_unreadable", session_id=session_id, error=str(error))
            return
        if session is None:
            self._positions.pop(session_id, None)
            return
        total = len(session.history)
        after = first_own(session.history) if known is None else min(known.entries, total)
        if after == total:
            self._positions[session_id] = Passed(total, mark)
            return
        self._seen[session_id] = Passed(total, mark)
        yield from events_after(session_id, session.history, after)

    def passed(self, found: EntryEvent) -> None:
        """Move the position past an event; see `feed_port.Feed`."""
        session_id = found.event.session_id
        if session_id is None or not found.is_last:
            return
        seen = self._seen.get(session_id)
        whole = seen is not None and seen.entries == found.number
        mark = seen.mark if seen is not None and whole else _UNMARKED
        self._positions[session_id] = Passed(found.number, mark)


def change_number(source: FeedSource, session_id: str) -> int:
    """Return a session's change mark as a number; 0 if unknown."""
    mark = source.change_mark(session_id)
    return _UNMARKED if mark is None else zlib.crc32(repr(mark).encode()) + 1


def open_feed(source: FeedSource, after: str | None, session_id: str | None) -> PositionFeed:
    """Return the feed of sessions that are stored one by one; see `SessionFeeds.open_feed`."""
    if session_id is not None:
        validate_session_id(session_id)
    try:
        positions = {} if after is None else decode_positions(after)
    except ValueError as error:
        raise InvalidCursor(after or "", f"is no cursor of {source.where}") from error
    return PositionFeed(source, positions, session_id=session_id)


def end_of_feed(source: CountedSource) -> str:
    """Return the position after everything stored now; see `SessionFeeds.end_of_feed`."""
    positions = {}
    for session_id in source.list_sessions():
        mark = change_number(source, session_id)
        try:
            positions[session_id] = Passed(_count_entries(source, session_id), mark)
        except AgentForgeError as error:  # it starts at the first entry once it can be read
            _log.debug("feed.session_unreadable", session_id=session_id, error=str(error))
    return encode_positions(positions)


def entry_events(source: FeedSource, session_id: str, after: int) -> list[EntryEvent] | None:
    """Return a session's events after this many entries; see `SessionFeeds`."""
    session = source.load(session_id)
    if session is None:
        return None
    return list(events_after(session_id, session.history, min(after, len(session.history))))


def _count_entries(source: CountedSource, session_id: str) -> int:
    """Count a session's entries; a file in our own form is not parsed for it."""
    data = source.read_document(session_id)
    if data is None:
        return 0
    if data.endswith(END_MARK) and decode_head(data) is not None:
        return data.count(_ENTRY, max(data.rfind(_HISTORY), 0)) if _HISTORY in data else 0
    session = source.load(session_id)
    return 0 if session is None else len(session.history)
