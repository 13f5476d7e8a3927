"""Pages of the sessions in PostgreSQL, each read by one statement that touches little more than it.

`updated_at` changes with each save, so no index is on it: with one, no save would stay within its
page (HOT). Pages go by `listed_at` instead, a column that PostgreSQL computes: the same time for a
session that rests or has ended, and the beginning of its hour for one that is active. Within one
hour of one state, the few sessions are sorted by the exact time as they are read.

What is filtered decides the statement's text, so that the planner sees each kind for itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import attrs

from ...harness.errors import SessionCorrupted
from ...harness.session_checks import name_fault
from ...harness.session_codec import session_of
from ...harness.session_data import tags_fault
from ...harness.session_domain import InvalidSession, SessionState
from ...harness.session_head import SessionHead, SessionSummary, UnreadableSession
from ...harness.session_page import SessionCursor, SessionOrder, SessionPage, require_limit
from ...harness.session_ports import SessionFilter
from ...identifiers import is_session_id
from .database import Database
from .session_rows import searched_text

COLUMNS: Final = (
    b"id, size_bytes, revision, state, workflow_type, current_phase, attempt_number, created_at, "
    b"updated_at, completed_at, total_budget, tokens_used, title, tags, parent_id"
)
_BY_CHANGE: Final = b" order by listed_at desc, id desc"
_BY_CHANGE_IF_ACTIVE: Final = b" order by listed_at desc, updated_at desc, id desc"
_CONDITIONS: Final = {
    "workflow_type": b"workflow_type = %(workflow_type)s",
    "current_phase": b"current_phase = %(current_phase)s",
    "parent_id": b"parent_id = %(parent_id)s",
    "changed_until": b"updated_at <= %(changed_until)s and listed_at <= %(changed_until)s",
    "changed_since": b"updated_at >= %(changed_since)s and "
    b"listed_at > %(changed_since)s - interval '1 hour'",
    "goal": b"goal_words like %(goal)s",
}
_BEHIND: Final = b"(listed_at, id) < (%(after_time)s::timestamptz, %(after_id)s)"
_BEHIND_IF_ACTIVE: Final = (
    b"listed_at <= %(after_time)s and "
    b"(updated_at, id) < (%(after_time)s::timestamptz, %(after_id)s)"
)
_STATES: Final = {state.value: state for state in SessionState}
_ENDED: Final = {state.value for state in SessionState if state.is_terminal}
_IN_STATE: Final = {state: f"state = '{state.value}'".encode() for state in SessionState}


def page_statement(wanted: SessionFilter, order: SessionOrder, *, limit: int, first: bool) -> bytes:
    """Return the statement of a page.

    Args:
        wanted: What is filtered; of its values, only the state is part of the statement.
        order: The order of the page.
        limit: The most rows, part of the statement, too: a plan for any number of them would be
            so much worse that PostgreSQL would plan each page anew.
        first: Whether no page is before it.
    """
    given = tuple([name for name in _CONDITIONS if getattr(wanted, name) is not None])
    return _statement(wanted.state, given, order, limit, first)


@lru_cache(maxsize=256)
def _statement(
    state: SessionState | None, given: tuple[str, ...], order: SessionOrder, limit: int, first: bool
) -> bytes:
    conditions = [condition for name, condition in _CONDITIONS.items() if name in given]
    source, rows = b" from agentforge.sessions", b" limit %d" % limit
    if "goal" in given:
        source += b" join agentforge.session_documents on session_id = id"
    if order is SessionOrder.ID:
        conditions += [] if state is None else [_IN_STATE[state]]
        conditions += [] if first else [b"id > %(after_id)s"]
        return _select(source, conditions) + b" order by id" + rows
    if state is not None:
        return _in_state(state, source, conditions, first) + rows
    # An index has its entries in the order of a page within each state: each gives its first ones.
    parts = (_in_state(one, source, conditions, first) + rows for one in SessionState)
    every = b") union all (".join(parts)
    last = b" every order by updated_at desc, id desc"
    return b"select * from ((" + every + b"))" + last + rows


def _in_state(
    state: SessionState, source: bytes, conditions: Sequence[bytes], first: bool
) -> bytes:
    """Return the part of a page that is in one state; only of active ones the time is rounded."""
    active = state is SessionState.ACTIVE
    behind = [] if first else [_BEHIND_IF_ACTIVE if active else _BEHIND]
    order = _BY_CHANGE_IF_ACTIVE if active else _BY_CHANGE
    return _select(source, [_IN_STATE[state], *conditions, *behind]) + order


def _select(source: bytes, conditions: Sequence[bytes]) -> bytes:
    where = b" where " + b" and ".join(conditions) if conditions else b""
    return b"select " + COLUMNS + source + where


def read_page(
    database: Database,
    wanted: SessionFilter,
    *,
    order: SessionOrder,
    limit: int,
    after: SessionCursor | None,
) -> SessionPage:
    """Read a page; see `SessionRepository.page`."""
    require_limit(limit)
    values: dict[str, Any] = {name: getattr(wanted, name) for name in _CONDITIONS}
    if wanted.goal is not None:
        values["goal"] = like_pattern(searched_text(wanted.goal))
    if after is not None:
        values["after_time"], values["after_id"] = after.changed_at, after.session_id
    statement = page_statement(wanted, order, limit=limit + 1, first=after is None)
    # A plan for any text could not use the index of its trigrams.
    prepare = False if wanted.goal is not None else None
    with database.connection() as connection:
        rows = connection.execute(statement, values, prepare=prepare, binary=True).fetchall()
    found = read_summaries(rows[:limit], database.name)
    is_last = len(rows) <= limit
    return SessionPage(
        sessions=tuple([one for one in found if isinstance(one, SessionSummary)]),
        after=None if is_last else _cursor(rows[limit - 1]),
        more=0 if is_last else None,
        unreadable=tuple([one for one in found if isinstance(one, UnreadableSession)]),
    )


def _cursor(row: Sequence[Any]) -> SessionCursor:
    return SessionCursor(row[8], row[0])


def like_pattern(text: str) -> str:
    r"""Return the pattern of `like` that finds a text anywhere; its `%`, `_` and `\` are texts."""
    for one in ("\\", "%", "_"):
        text = text.replace(one, f"\\{one}")
    return f"%{text}%"


def filter_values(wanted: SessionFilter) -> dict[str, Any]:
    """Return the columns that a filter asks for by name, None where it asks for none."""
    values = attrs.asdict(wanted, recurse=False)
    values["state"] = None if wanted.state is None else wanted.state.value
    values["goal"] = None if wanted.goal is None else like_pattern(searched_text(wanted.goal))
    return values


def read_summaries(
    rows: Sequence[Sequence[Any]], store: str
) -> list[SessionSummary | UnreadableSession]:
    """Return what a listing shows of sessions; the rows have the columns of `COLUMNS`."""
    sound = {row[4] for row in rows} | {row[5] for row in rows} | {row[12] for row in rows}
    sound = {name for name in sound if _is_sound_name(name)}
    found: list[SessionSummary | UnreadableSession] = []
    # In one loop, and without their own constructors: a page takes as long here as in the server.
    new, heads, summaries, states = tuple.__new__, SessionHead, SessionSummary, _STATES
    for row in rows:
        one, size, revision, state, workflow, phase, tries, created, updated, ended, *rest = row
        most, used, title, tags, parent = rest
        head = new(heads, (one, revision, states[state], *row[4:13], tuple(tags), parent))
        # What no rule of the domain has anything against; else the domain has the words.
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
