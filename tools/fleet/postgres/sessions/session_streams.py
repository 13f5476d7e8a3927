"""The streams of sessions as rows: one for each entry, and one that serialises appends."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, Final

from ....base.files.log_frames import decode_log, encode_log
from ....harness.domain.session_states import InvalidStateTransition, SessionState
from ....harness.errors import SessionNotFound, StreamMoved
from ....harness.session_layout import STREAMS
from ....harness.stream_port import (
    NewEntry,
    StreamEntry,
    StreamMark,
    StreamPart,
    StreamRow,
    StreamTail,
    require_count,
)
from ....harness.views.session_names import STREAM_SUFFIX, require_room, stream_file
from ....prune import Reason
from ..database import Connection, OnDatabase
from .session_rows import checked_id

_FOLDER: Final = f"{STREAMS}/"
_APPEND: Final = b"""
with head as (
    select id from agentforge.sessions
    where id = %(id)s and state in ('active', 'paused')
    for share), -- its end, or its deletion, waits for the entries, or they see it
stream as (
    insert into agentforge.session_streams as stored (session_id, name, last, size_bytes)
    select id, %(stream)s, cardinality(%(heads)s::bytea[]), %(size)s from head
    where %(last)s::bigint is null or %(last)s = 0 or exists (
        select 1 from agentforge.session_streams
        where session_id = %(id)s and name = %(stream)s)
    on conflict (session_id, name) do update set
        last = stored.last + excluded.last, size_bytes = stored.size_bytes + excluded.size_bytes
    where %(last)s is null or (stored.generation, stored.last) = (%(generation)s, %(last)s)
    returning session_id, name, generation, last, last - cardinality(%(heads)s::bytea[]) as before),
entries as (
    insert into agentforge.session_stream_entries (session_id, stream, position, head, body)
    select session_id, name, before + new.number, new.head, new.body
    from stream, unnest(%(heads)s::bytea[], %(bodies)s::bytea[])
        with ordinality new (head, body, number))
select generation, last from stream
"""
_HOLD: Final = "select state from agentforge.sessions where id = %s for no key update"
_HELD: Final = "select from agentforge.sessions where id = %(id)s for update"
_LOCK: Final = b"""
select generation, last from agentforge.session_streams
where session_id = %s and name = %s for update
"""
_ENTRIES: Final = b"""
select generation, last, position, head, octet_length(body)
from agentforge.session_streams left join agentforge.session_stream_entries
    on session_stream_entries.session_id = session_streams.session_id and stream = name
    and position > case when generation = %(generation)s then %(last)s else 0 end
where session_streams.session_id = %(id)s and name = %(stream)s
order by position
"""
_LAST: Final = b"""
select generation, last, position, head, size
from agentforge.session_streams left join lateral (
    select position, head, octet_length(body) as size
    from agentforge.session_stream_entries entries
    where entries.session_id = session_streams.session_id and stream = name
    order by position desc limit %(count)s) as latest on true
where session_streams.session_id = %(id)s and name = %(stream)s
order by position
"""
_BODIES: Final = b"""
select position, body from agentforge.session_stream_entries
where session_id = %(id)s and stream = %(stream)s and position = any(%(positions)s)
    and exists (select 1 from agentforge.session_streams
        where session_id = %(id)s and name = %(stream)s and generation = %(generation)s)
"""
_ROWS: Final = b"""
select session_streams.session_id, name, generation, last, size_bytes,
    exists (select 1 from agentforge.pins where session_id = session_streams.session_id), head
from agentforge.session_streams left join agentforge.session_stream_entries entries
    on entries.session_id = session_streams.session_id and stream = name and position = last
where starts_with(name, %s)
order by 1, 2
"""
_OLD: Final = """
select generation, last, exists (select 1 from agentforge.pins where session_id = %(id)s)
from agentforge.session_streams where session_id = %(id)s and name = %(stream)s for update
"""
_REMOVE: Final = b"""
with removed as (
    delete from agentforge.session_streams where session_id = %(id)s and name = %(stream)s)
insert into agentforge.removals (session_id, line) values (%(id)s || '/' || %(stream)s, %(line)s)
"""
_EXPORTED: Final = b"""
select name, head, body
from agentforge.session_streams left join agentforge.session_stream_entries
    on session_stream_entries.session_id = session_streams.session_id and stream = name
where session_streams.session_id = %s
order by name collate "C", position
"""


class PostgresStreams(OnDatabase):
    """The streams of sessions, for `PostgresSessions`. A `SessionStreams`."""

    def append_entries(
        self,
        session_id: str,
        stream: str,
        entries: Sequence[NewEntry],
        *,
        expected: StreamMark | None = None,
    ) -> StreamMark:
        """Add entries to a stream, all or none; see `SessionStreams`."""
        checked_id(session_id)
        stream_file(stream)
        require_room(entries)
        if not entries:
            return expected or StreamMark()
        with self._database.connection() as connection:
            return _append(connection, self._database.name, session_id, stream, entries, expected)

    def replace_entries(
        self,
        session_id: str,
        stream: str,
        entries: Sequence[NewEntry],
        *,
        expected: StreamMark | None = None,
    ) -> None:
        """Replace a stream's entries by these; see `SessionStreams`."""
        checked_id(session_id)
        stream_file(stream)
        with self._database.transaction() as connection:
            # The session before the stream, as in an append; exclusively, or two that find no
            # stream would both start it.
            head = connection.execute(_HOLD, (session_id,)).fetchone()
            _require_open(head, self._database.name, session_id)
            found = connection.execute(_LOCK, (session_id, stream)).fetchone()
            if expected is not None and expected[:2] != (found or (0, 0)):
                raise StreamMoved(session_id, stream=stream)
            connection.execute(
                "delete from agentforge.session_streams where session_id = %s and name = %s",
                (session_id, stream),
            )
            _append(connection, self._database.name, session_id, stream, entries, None)

    def read_entries(
        self, session_id: str, stream: str, *, since: StreamMark | None = None
    ) -> StreamPart:
        """Return a stream's entries, in order; see `SessionStreams`."""
        checked_id(session_id)
        stream_file(stream)
        generation, last, _ = since or StreamMark()
        values = {"id": session_id, "stream": stream, "generation": generation, "last": last}
        rows = self._database.all(_ENTRIES, values)
        if not rows:
            return StreamPart([], StreamMark(), anew=True)
        entries = [StreamEntry(row[2], row[4], 0, row[3]) for row in rows if row[2] is not None]
        mark = StreamMark(rows[0][0], rows[0][1])
        return StreamPart(entries, mark, anew=mark.one != generation)

    def read_last(self, session_id: str, stream: str, count: int) -> StreamTail:
        """Return the last entries of a stream; see `SessionStreams`."""
        checked_id(session_id)
        stream_file(stream)
        require_count(count)
        values = {"id": session_id, "stream": stream, "count": count}
        rows = self._database.all(_LAST, values)
        if not rows:
            return StreamTail([], StreamMark(), whole=True)
        entries = [StreamEntry(row[2], row[4], 0, row[3]) for row in rows if row[2] is not None]
        mark = StreamMark(rows[0][0], rows[0][1])
        return StreamTail(entries, mark, whole=len(entries) == mark.two)

    def read_bodies(
        self, session_id: str, stream: str, entries: Sequence[StreamEntry], *, mark: StreamMark
    ) -> list[bytes]:
        """Return the bodies of entries, in the order given; see `SessionStreams`."""
        checked_id(session_id)
        stream_file(stream)
        if not entries:
            return []
        positions = [entry.position for entry in entries]
        about = {"id": session_id, "stream": stream}
        values = {**about, "positions": positions, "generation": mark.one}
        found: dict[int, bytes] = dict(self._database.all(_BODIES, values))
        if not found.keys() >= set(positions):
            raise StreamMoved(session_id, stream=stream)
        return [bytes(found[position]) for position in positions]

    def stream_rows(self, prefix: str) -> list[StreamRow]:
        """Return the streams of all sessions whose name begins with a text."""
        return [
            StreamRow(session_id, name, StreamMark(*mark), size, is_pinned, bytes(head or b""))
            for session_id, name, *mark, size, is_pinned, head in self._database.all(
                _ROWS, (prefix,)
            )
        ]

    def remove_stream(
        self, session_id: str, stream: str, mark: StreamMark, line: Mapping[str, object]
    ) -> Reason | None:
        """Delete a stream with a line in the audit log; return why it stays, or None.

        It stays if its session is pinned, or something was added after the mark.
        """
        about = {"id": checked_id(session_id), "stream": stream}
        with self._database.transaction() as connection:
            # The session before the stream, as in an append; exclusively, so that a pin waits.
            connection.execute(_HELD, about)
            found = connection.execute(_OLD, about).fetchone()
            if found is None:
                return Reason.GONE
            if found[2]:
                return Reason.PINNED
            if found[:2] != mark[:2]:
                return Reason.CHANGED
            connection.execute(_REMOVE, {**about, "line": json.dumps(line)})
        return None


def export_streams(connection: Connection, session_id: str) -> dict[str, bytes]:
    """Return a session's streams in the common export form, by the names of their documents."""
    rows = connection.execute(_EXPORTED, (session_id,)).fetchall()
    return {
        f"{_FOLDER}{name}{STREAM_SUFFIX}": encode_log(
            (bytes(head), bytes(body)) for _, head, body in entries if head is not None
        )
        for name, entries in groupby(rows, key=itemgetter(0))
    }


def without_streams(
    documents: Mapping[str, bytes],
) -> tuple[dict[str, bytes], dict[str, list[NewEntry]]]:
    """Separate what is to be stored with a new session into documents and streams.

    Raises:
        ValueError: A stream is invalid.
    """
    kept, streams = {}, {}
    for name, content in documents.items():
        if name.startswith(_FOLDER) and name.endswith(STREAM_SUFFIX):
            stream = name[len(_FOLDER) : -len(STREAM_SUFFIX)]
            streams[stream] = [NewEntry(*entry) for entry in decode_log(content)]
        else:
            kept[name] = content
    return kept, streams


def import_streams(
    connection: Connection, session_id: str, streams: Mapping[str, list[NewEntry]]
) -> None:
    """Add the streams of a session that was just created; it may have ended elsewhere."""
    for stream, entries in streams.items():
        connection.execute(
            "insert into agentforge.session_streams (session_id, name, last, size_bytes) "
            "values (%s, %s, %s, %s)",
            (session_id, stream, len(entries), _size(entries)),
        )
        connection.execute(
            "insert into agentforge.session_stream_entries "
            "(session_id, stream, position, head, body) "
            "select %s, %s, number, head, body "
            "from unnest(%s::bytea[], %s::bytea[]) with ordinality new (head, body, number)",
            (session_id, stream, [one.head for one in entries], [one.body for one in entries]),
        )


def _append(
    connection: Connection,
    where: str,
    session_id: str,
    stream: str,
    entries: Sequence[NewEntry],
    expected: StreamMark | None,
) -> StreamMark:
    values = {
        "id": session_id,
        "stream": stream,
        "heads": [entry.head for entry in entries],
        "bodies": [entry.body for entry in entries],
        "size": _size(entries),
        "generation": None if expected is None else expected.one,
        "last": None if expected is None else expected.two,
    }
    row = connection.execute(_APPEND, values).fetchone()
    if row is not None:
        return StreamMark(*row)
    head = connection.execute(
        "select state from agentforge.sessions where id = %s", (session_id,)
    ).fetchone()
    _require_open(head, where, session_id)
    raise StreamMoved(session_id, stream=stream)


def _require_open(head: tuple[Any, ...] | None, where: str, session_id: str) -> None:
    if head is None:
        raise SessionNotFound(session_id, path=where)
    state = SessionState(head[0])
    if state.is_terminal:
        raise InvalidStateTransition(
            session_id=session_id, current_state=state, operation="append_entries"
        )


def _size(entries: Iterable[NewEntry]) -> int:
    return sum(len(entry.head) + len(entry.body) for entry in entries)
