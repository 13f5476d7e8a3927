"""Pages of the sessions in PostgreSQL, each read by one statement that touches little more than it.

`updated_at` changes with each save, so no index is on it: with one, no save would stay within its
page (HOT). Pages are ordered by `listed_at` instead, a column that PostgreSQL computes: the same
time for a session that rests or has ended, and the start of its hour for one that is active. Within
one hour of one state, the few sessions are sorted by the exact time as they are read.

The filter's conditions are part of the statement's text, so that the planner plans each
combination.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from ....base.identifiers import is_session_id
from ....harness.domain.session_checks import name_fault
from ....harness.domain.session_data import tags_fault
from ....harness.errors import SessionCorrupted
from ....harness.format.session_codec import session_of
from ....harness.session_domain import InvalidSession, SessionState
from ....harness.steps.tail import tokens_since
from ....harness.views.session_filter import BudgetLeft, SessionFilter
from ....harness.views.session_head import SessionHead, SessionSummary, UnreadableSession
from ....harness.views.session_page import SessionCursor, SessionOrder, SessionPage, require_limit
from ..database import Database, OnDatabase
from .session_rows import DESCRIBED, SAVED, column_names, searched_text

COLUMNS: Final = column_names(("id", "size_bytes", "revision", *SAVED, *DESCRIBED))
_CONDITIONS: Final = {
    "workflow_type": b"workflow_type = %(workflow_type)s",
    "current_phase": b"current_phase = %(current_phase)s",
    "parent_id": b"parent_id = %(parent_id)s",
    "tags": b"tags @> %(tags)s::text[] and tags <> '{}'",  # the latter for the index, which has it
    "changed_until": b"updated_at <= %(changed_until)s and listed_at <= %(changed_until)s",
    "changed_since": b"updated_at >= %(changed_since)s and "
    b"listed_at > %(changed_since)s - interval '1 hour'",
    "goal": b"goal_words like %(goal)s",
    "title": b"title_words like %(title)s",
    # As numeric where a product could exceed the range of any column.
    "least_tokens": b"total_budget - tokens_used >= %(least_tokens)s::bigint",
    "most_tokens": b"total_budget - tokens_used <= %(most_tokens)s::bigint",
    "least_millionths": b"(total_budget - tokens_used)::numeric * 1000000 >= "
    b"%(least_millionths)s::numeric * total_budget",
    "most_millionths": b"(total_budget - tokens_used)::numeric * 1000000 <= "
    b"%(most_millionths)s::numeric * total_budget",
}
_IN_DOCUMENTS: Final = frozenset({"goal", "title"})
"""The conditions on the table beside that of the sessions."""
_ROWS_AT_ONCE: Final = 500
_STATES: Final = {state.value: state for state in SessionState}
_ENDED: Final = {state.value for state in SessionState if state.is_terminal}
_IN_STATE: Final = {state: f"state = '{state.value}'".encode() for state in SessionState}
_POSITIONS: Final = {
    SessionOrder.LAST_CHANGED: b"updated_at",
    SessionOrder.FIRST_CHANGED: b"updated_at",
    SessionOrder.LAST_CREATED: b"created_at",
    SessionOrder.FIRST_CREATED: b"created_at",
    SessionOrder.LEAST_LEFT: b"total_budget - tokens_used",
    SessionOrder.MOST_LEFT: b"total_budget - tokens_used",
    SessionOrder.MOST_SPENT: b"tokens_used",
    SessionOrder.LEAST_SPENT: b"tokens_used",
}
_WITH_STEPS: Final = b"""
select page.*, (
    select last from agentforge.session_streams where session_id = id and name = 'steps')
from ("""
"""Adds to the rows of a page how long the logs of programs are; null for the other sessions."""
_TAILS: Final = b"""
select session_id, workflow_state, head
from agentforge.session_streams join agentforge.session_stream_entries using (session_id)
    join agentforge.session_documents using (session_id)
where session_id = any(%s) and name = 'steps' and stream = name and position = last
"""
_BY_LISTING: Final = frozenset({SessionOrder.LAST_CHANGED, SessionOrder.FIRST_CHANGED})


def filter_values(wanted: SessionFilter) -> dict[str, Any]:
    """Return a filter's values by the names of its conditions, None where it has no condition."""
    left = wanted.budget_left or BudgetLeft()
    return {
        "workflow_type": wanted.workflow_type,
        "current_phase": wanted.current_phase,
        "parent_id": wanted.parent_id,
        "tags": None if wanted.tags is None else sorted(wanted.tags),
        "changed_until": wanted.changed_until,
        "changed_since": wanted.changed_since,
        "goal": None if wanted.goal is None else like_pattern(searched_text(wanted.goal)),
        "title": None if wanted.title is None else like_pattern(searched_text(wanted.title)),
        "least_tokens": left.least_tokens,
        "most_tokens": left.most_tokens,
        "least_millionths": left.least_millionths,
        "most_millionths": left.most_millionths,
    }


class SearchedPart(NamedTuple):
    """A part of a word that filters the rows of sessions.

    Attributes:
        pattern: The pattern of `like`.
        folded: An expression for rows that pass as well; None where there is none.
    """

    pattern: str
    folded: str | None


_Parts = tuple[SearchedPart, ...]


def page_statement(
    wanted: SessionFilter,
    order: SessionOrder,
    *,
    limit: int,
    first: bool,
    parts: _Parts = (),
) -> bytes:
    """Return the statement of a page.

    Args:
        wanted: The filter; of its values, only the states are part of the statement.
        order: The order of the page.
        limit: The most rows, part of the statement, too: a plan for any number of them would be so
            much worse that PostgreSQL would plan each page again.
        first: Whether no page is before it.
        parts: Parts that the sessions' rows must contain; only their number, and whether they have
            an expression, is part of the statement.
    """
    sifted = tuple([one.folded is not None for one in parts])
    return _statement(wanted.state, _given(filter_values(wanted)), sifted, order, limit, first)


def _given(values: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple([name for name, value in values.items() if value is not None])


@lru_cache(maxsize=256)
def _statement(
    states: frozenset[SessionState] | None,
    given: tuple[str, ...],
    sifted: tuple[bool, ...],
    order: SessionOrder,
    limit: int,
    first: bool,
) -> bytes:
    conditions = [_CONDITIONS[name] for name in given]
    conditions += [_has_part(number, folded) for number, folded in enumerate(sifted)]
    source, rows = b" from agentforge.sessions", b" limit %d" % limit
    if sifted or not _IN_DOCUMENTS.isdisjoint(given):
        source += b" join agentforge.session_documents on session_id = id"
    if order not in _BY_LISTING:
        conditions += [] if states is None else [_any_of(states)]
        return _ordered(source, conditions, order, first) + rows
    asked = [one for one in SessionState if states is None or one in states]
    if len(asked) == 1:
        return _in_state(asked[0], source, conditions, order, first) + rows
    # An index has its entries in a page's order within each state: each state gives its first ones.
    parts = (_in_state(one, source, conditions, order, first) + rows for one in asked)
    every = b") union all (".join(parts)
    direction = _direction(order)
    last = b" every order by updated_at %s, id %s" % (direction, direction)
    return b"select * from ((" + every + b"))" + last + rows


def _has_part(number: int, folded: bool) -> bytes:
    """Return the condition that a session's rows contain a part of a word, in either case."""

    def within(column: bytes) -> bytes:
        alike = b'%s collate "C" ilike %%(part_%d)s' % (column, number)
        return b"(%s or %s ~ %%(folded_%d)s)" % (alike, column, number) if folded else alike

    entry = within(b"entry")
    return (
        b"(goal_words like %%(part_%d)s or %s "
        b"or exists (select from agentforge.session_history where session_id = id and %s) "
        b"or exists (select from agentforge.session_artifacts where session_id = id and %s))"
    ) % (number, within(b"title"), entry, entry)


def _any_of(states: frozenset[SessionState]) -> bytes:
    return b"(" + b" or ".join(_IN_STATE[one] for one in SessionState if one in states) + b")"


def _direction(order: SessionOrder) -> bytes:
    return b"desc" if order.descends else b"asc"


def _ordered(source: bytes, conditions: Sequence[bytes], order: SessionOrder, first: bool) -> bytes:
    """Return a page whose order is a plain column of the rows."""
    behind, direction = b"<" if order.descends else b">", _direction(order)
    position = _POSITIONS.get(order)
    if position is None:
        further = [] if first else [b"id > %(after_id)s"]
        return _select(source, [*conditions, *further]) + b" order by id"
    kind = b"timestamptz" if position == b"created_at" else b"bigint"
    further = [b"(%s, id) %s (%%(after_at)s::%s, %%(after_id)s)" % (position, behind, kind)]
    ordered = b" order by %s %s, id %s" % (position, direction, direction)
    return _select(source, [*conditions, *([] if first else further)]) + ordered


def _in_state(
    state: SessionState,
    source: bytes,
    conditions: Sequence[bytes],
    order: SessionOrder,
    first: bool,
) -> bytes:
    """Return the part of a page that is in one state; only for active ones the time is rounded."""
    active = state is SessionState.ACTIVE
    direction, behind = _direction(order), b"<" if order.descends else b">"
    columns = [b"listed_at", *([b"updated_at"] if active else []), b"id"]
    ordered = b" order by " + b", ".join(b"%s %s" % (one, direction) for one in columns)
    position = b"updated_at" if active else b"listed_at"
    further = b"(%s, id) %s (%%(after_at)s::timestamptz, %%(after_id)s)" % (position, behind)
    if active:  # the part that the index covers
        further += (
            b" and listed_at <= %(after_at)s"
            if order.descends
            else b" and listed_at > %(after_at)s::timestamptz - interval '1 hour'"
        )
    return _select(source, [_IN_STATE[state], *conditions, *([] if first else [further])]) + ordered


@lru_cache(maxsize=64)
def listing_statement(
    states: frozenset[SessionState] | None, given: tuple[str, ...], limit: int
) -> bytes:
    """Return the statement that reads the next sessions by id, unreadable ones included.

    Args:
        states: The requested states; None for any.
        given: The names of the further conditions, of those that `filter_values` returns.
        limit: The most rows.
    """
    source = b" from agentforge.sessions"
    if not _IN_DOCUMENTS.isdisjoint(given):
        source += b" join agentforge.session_documents on session_id = id"
    conditions = [b"true", *([] if states is None else [_any_of(states)])]
    conditions += [_CONDITIONS[name] for name in given]
    # Rows that this library never writes are unreadable, and no filter hides them.
    fitting = b"(updated_at < created_at or " + b" and ".join(conditions) + b")"
    return _select(source, [b"id > %(after)s", fitting]) + b" order by id limit %d" % limit


def _select(source: bytes, conditions: Sequence[bytes]) -> bytes:
    where = b" where " + b" and ".join(conditions) if conditions else b""
    return b"select " + COLUMNS + source + where


def _prepared(wanted: SessionFilter) -> Literal[False] | None:
    """Return whether to prepare a statement, None to let psycopg decide.

    A generic plan for any text could not use the trigram index.
    """
    return None if wanted.goal is None and wanted.title is None else False


def read_rows(
    database: Database,
    wanted: SessionFilter,
    order: SessionOrder,
    *,
    limit: int,
    after: tuple[Any, str] | None,
    parts: _Parts = (),
) -> list[Any]:
    """Read the rows of a page: `COLUMNS`, and the length of the log of steps.

    Args:
        database: The database of the sessions.
        wanted: The filter.
        order: Their order.
        limit: Their maximum.
        after: Where in the order the page before it ended, and with which session; None for the
            first one.
        parts: Parts that the sessions' rows must contain.
    """
    values = filter_values(wanted)
    if after is not None:
        values["after_at"], values["after_id"] = after
    for number, part in enumerate(parts):
        values[f"part_{number}"], values[f"folded_{number}"] = part
    statement = page_statement(wanted, order, limit=limit, first=after is None, parts=parts)
    prepare = False if parts else _prepared(wanted)
    return _read(database, statement, values, prepare)


def _read(
    database: Database, statement: bytes, values: Mapping[str, Any], prepare: bool | None
) -> list[Any]:
    statement = _WITH_STEPS + statement + b") page"
    with database.connection() as connection:
        return connection.execute(statement, values, prepare=prepare, binary=True).fetchall()


def _head(row: Sequence[Any]) -> SessionHead:
    return SessionHead._make((row[0], row[2], _STATES[row[3]], *row[4:13], tuple(row[13]), row[14]))


def like_pattern(text: str) -> str:
    r"""Return the `like` pattern that finds a text anywhere; its `%`, `_` and `\` are literal."""
    for one in ("\\", "%", "_"):
        text = text.replace(one, f"\\{one}")
    return f"%{text}%"


def read_summaries(
    rows: Sequence[Sequence[Any]], database: Database
) -> list[SessionSummary | UnreadableSession]:
    """Convert rows of `read_rows` to a listing's sessions.

    Their heads have what the logs of programs have beyond them, which no filter or order sees.
    """
    store, since = database.name, _tokens_since(rows, database)
    sound = {row[4] for row in rows} | {row[5] for row in rows} | {row[12] for row in rows}
    sound = {name for name in sound if _is_sound_name(name)}
    found: list[SessionSummary | UnreadableSession] = []
    # In one loop, and without their own constructors: else it takes as long as the server does.
    new, heads, summaries, states = tuple.__new__, SessionHead, SessionSummary, _STATES
    for row in rows:
        one, size, revision, state, workflow, phase, tries, created, updated, ended, *rest = row
        most, used, title, tags, parent, steps = rest
        head = new(heads, (one, revision, states[state], *row[4:13], tuple(tags), parent))
        if steps:
            head = head.with_more(since.get(one, 0))
        # Values that break no rule of the domain; for others the domain writes the message.
        if (
            created <= updated
            and (state not in _ENDED if ended is None else state in _ENDED and created <= ended)
            and tries > 0 < most
            and used >= 0
            and workflow in sound
            and phase in sound
            and (title is None or title in sound)
            and (not tags or not tags_fault(head.tags))
            and (parent is None or (is_session_id(parent) and parent != one))
        ):
            found.append(new(summaries, (head, f"{store}/{one}", size)))
        else:
            found.append(_judged(head, f"{store}/{one}", size))
    return found


def _tokens_since(rows: Sequence[Sequence[Any]], database: Database) -> dict[str, int]:
    """Return what the logs of programs have beyond the rows of their sessions, in tokens."""
    programs = [row[0] for row in rows if row[-1]]
    found = database.all(_TAILS, (programs,)) if programs else []
    return {one: tokens_since(one, state, bytes(head)) for one, state, head in found}


def _judged(head: SessionHead, where: str, size: int) -> SessionSummary | UnreadableSession:
    try:
        session_of(head)
    except InvalidSession as error:
        fault = SessionCorrupted(path=where, faults=error.faults, session_id=head.session_id)
        return UnreadableSession(head.session_id, Path(where), fault)
    return SessionSummary(head, where, size)


@lru_cache(maxsize=1024)
def _is_sound_name(name: str | None) -> bool:
    return not name_fault("name", name, optional=True)


class PostgresPages(OnDatabase):
    """The listings of sessions, for `PostgresSessions`."""

    def list_sessions(self) -> list[str]:
        """Return the ids of all sessions, sorted; see `SessionRepository`."""
        rows = self._database.all("select id from agentforge.sessions order by id")
        return [row[0] for row in rows]

    def summaries(
        self, wanted: SessionFilter | None = None
    ) -> Iterator[SessionSummary | UnreadableSession]:
        """Yield the sessions by their heads, sorted by id; see `SessionRepository`."""
        wanted = wanted or SessionFilter()
        values = filter_values(wanted)
        statement = listing_statement(wanted.state, _given(values), _ROWS_AT_ONCE)
        rows = _read(self._database, statement, {**values, "after": ""}, _prepared(wanted))
        while rows:
            yield from read_summaries(rows, self._database)
            if len(rows) < _ROWS_AT_ONCE:
                return
            given = {**values, "after": rows[-1][0]}
            rows = _read(self._database, statement, given, _prepared(wanted))

    def page(
        self,
        wanted: SessionFilter | None = None,
        *,
        order: SessionOrder = SessionOrder.LAST_CHANGED,
        limit: int,
        after: SessionCursor | None = None,
    ) -> SessionPage:
        """Return some of the sessions that fit, in order; see `SessionRepository`."""
        wanted = wanted or SessionFilter()
        require_limit(limit)
        if after is not None:
            after.require_of(order, wanted)
        behind = None if after is None else (after.position, after.session_id)
        rows = read_rows(self._database, wanted, order, limit=limit + 1, after=behind)
        found = read_summaries(rows[:limit], self._database)
        is_last = len(rows) <= limit
        last = None if is_last else SessionCursor.of(_head(rows[limit - 1]), order, wanted)
        return SessionPage(
            sessions=tuple([one for one in found if isinstance(one, SessionSummary)]),
            after=last,
            more=0 if is_last else None,
            unreadable=tuple([one for one in found if isinstance(one, UnreadableSession)]),
        )
