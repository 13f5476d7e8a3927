"""Filters, sorts and pages the list of sessions; pure.

A page starts after the last session of the previous one (keyset pagination), so sessions that are
created or deleted meanwhile shift no others.
"""

from __future__ import annotations

import heapq
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Final
from urllib.parse import urlencode

from attrs import frozen

from ...harness.domain.session_states import SessionState
from ...harness.views.session_head import SessionHead, SessionSummary
from .errors import InvalidForm

PAGE: Final = 50
"""Number of sessions on a page."""
_MOST_WORDS: Final = 16


class SessionStanding(StrEnum):
    """A session's standing for the person who looks: its state, or what it needs."""

    WAITING = "waiting"
    """One of its questions waits for an answer."""
    INTERRUPTED = "interrupted"
    """Its run was cut off."""
    PAUSED = "paused"
    ACTIVE = "active"
    ABORTED = "aborted"
    COMPLETED = "completed"

    @property
    def words(self) -> str:
        """The standing in words."""
        return "waits for you" if self is SessionStanding.WAITING else self.value


_RANK: Final = {
    SessionStanding.WAITING: 0,
    SessionStanding.INTERRUPTED: 1,
    SessionStanding.ACTIVE: 2,
    SessionStanding.PAUSED: 3,
    SessionStanding.ABORTED: 4,
    SessionStanding.COMPLETED: 4,
}


class Order(StrEnum):
    """A sort order of the list."""

    ATTENTION = "attention"
    """Sessions that wait for a person, then interrupted, active, paused and finished ones."""
    CHANGED = "changed"
    CREATED = "created"
    SPENT = "spent"
    LEFT = "left"


ORDER_NAMES: Final[Mapping[Order, str]] = {
    Order.ATTENTION: "What needs you first",
    Order.CHANGED: "Last changed",
    Order.CREATED: "Newest",
    Order.SPENT: "Most tokens spent",
    Order.LEFT: "Least budget left",
}


@frozen(kw_only=True)
class Row:
    """A session in the list.

    Attributes:
        summary: Its head and its location.
        interrupted: Whether its run was cut off.
        asks: Whether one of its questions waits for an answer.
        goal: Its goal; None if it has none or it was not read.
    """

    summary: SessionSummary
    interrupted: bool = False
    asks: bool = False
    goal: str | None = None

    @property
    def head(self) -> SessionHead:
        """The session's head."""
        return self.summary.head

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self.summary.head.session_id

    @property
    def standing(self) -> SessionStanding:
        """The session's standing."""
        state = self.summary.head.state
        if self.asks and not state.is_terminal:
            return SessionStanding.WAITING
        if self.interrupted and state is SessionState.ACTIVE:
            return SessionStanding.INTERRUPTED
        return SessionStanding(state.value)


@frozen(kw_only=True)
class Wanted:
    """The filter, order and page that a person requests.

    Attributes:
        words: Words in lower case; each must occur in the id, the title, the tags, the goal, the
            workflow or the phase.
        standings: The wanted standings; all if empty.
        workflow: The wanted workflow; any if None.
        tag: A tag that sessions must have, or None.
        order: The sort order.
        after: The end of the previous page, from its `Listed.after`; None for the first page.
    """

    words: tuple[str, ...] = ()
    standings: frozenset[SessionStanding] = frozenset()
    workflow: str | None = None
    tag: str | None = None
    order: Order = Order.ATTENTION
    after: str | None = None

    @classmethod
    def of(cls, form: Mapping[str, list[str]]) -> Wanted:
        """Read the request from the fields of an address.

        Raises:
            InvalidForm: A standing or the order is unknown.
        """
        standings = set(form.get("standing", []))
        order = _last(form, "order") or Order.ATTENTION
        faults = {}
        if unknown := standings.difference(SessionStanding):
            faults["standing"] = f"{min(unknown)[:40]!r} is no state of a session"
        if order not in set(Order):
            faults["order"] = f"{order[:40]!r} is no order of the list"
        if faults:
            raise InvalidForm(faults)
        return cls(
            words=tuple(" ".join(form.get("q", [])).casefold().split()[:_MOST_WORDS]),
            standings=frozenset(map(SessionStanding, standings)),
            workflow=_last(form, "workflow"),
            tag=_last(form, "tag"),
            order=Order(order),
            after=_last(form, "after"),
        )

    def address(self) -> str:
        """Return the address of the page, from which `of` reads an equal request."""
        fields = (
            ("q", " ".join(self.words)),
            *(("standing", one.value) for one in SessionStanding if one in self.standings),
            ("workflow", self.workflow),
            ("tag", self.tag),
            ("order", "" if self.order is Order.ATTENTION else self.order.value),
            ("after", self.after),
        )
        given = [(name, value) for name, value in fields if value]
        return f"/?{urlencode(given)}" if given else "/"

    @property
    def narrows(self) -> bool:
        """Whether the filter may leave out sessions."""
        return bool(self.words or self.standings or self.workflow or self.tag)


def _last(form: Mapping[str, list[str]], name: str) -> str | None:
    return form.get(name, [""])[-1] or None


@frozen(kw_only=True)
class Listed:
    """A page of the list.

    Attributes:
        rows: Its sessions, in order.
        total: The number of matching sessions on all pages.
        counts: The number of sessions per standing that match apart from their standing.
        after: The `Wanted.after` of the next page; None if this is the last one.
        workflows: The workflows of all sessions, sorted, whether or not these match.
        tags: The tags of all sessions, likewise.
    """

    rows: tuple[Row, ...]
    total: int
    counts: Mapping[SessionStanding, int]
    after: str | None
    workflows: tuple[str, ...]
    tags: tuple[str, ...]


def listed(rows: Iterable[Row], wanted: Wanted, *, limit: int = PAGE) -> Listed:
    """Return the requested page of all sessions.

    Raises:
        InvalidForm: `wanted.after` is not the end of a page in this order.
    """
    behind = None if wanted.after is None else _read_cursor(wanted.after, wanted.order)
    key = _KEYS[wanted.order]
    counts: Counter[SessionStanding] = Counter()
    workflows: set[str | None] = set()
    tags: set[str] = set()
    fitting: list[tuple[tuple[Any, ...], Row]] = []
    total = 0
    for row in rows:
        workflows.add(row.head.workflow_type)
        tags.update(row.head.tags)
        if not _fits(row, wanted):
            continue
        standing = row.standing
        counts[standing] += 1
        if wanted.standings and standing not in wanted.standings:
            continue
        total += 1
        place = (*key(row), row.session_id)
        if behind is None or place > behind:
            fitting.append((place, row))
    shown = heapq.nsmallest(limit, fitting, key=lambda one: one[0])
    more = len(fitting) > len(shown)
    return Listed(
        rows=tuple(row for _, row in shown),
        total=total,
        counts=counts,
        after=_cursor(wanted.order, shown[-1][0]) if more else None,
        workflows=tuple(sorted(one for one in workflows if one is not None)),
        tags=tuple(sorted(tags)),
    )


def _fits(row: Row, wanted: Wanted) -> bool:
    head = row.head
    if wanted.workflow is not None and head.workflow_type != wanted.workflow:
        return False
    if wanted.tag is not None and wanted.tag not in head.tags:
        return False
    if not wanted.words:
        return True
    parts = (head.session_id, head.workflow_type, head.current_phase, head.title, row.goal)
    text = "\n".join(one for one in (*parts, *head.tags) if one).casefold()
    return all(word in text for word in wanted.words)


def _newest(at: datetime) -> int:
    return -int(at.timestamp() * 1_000_000)


_KEYS: Final[Mapping[Order, Callable[[Row], tuple[Any, ...]]]] = {
    Order.ATTENTION: lambda row: (_RANK[row.standing], _newest(row.head.updated_at)),
    Order.CHANGED: lambda row: (_newest(row.head.updated_at),),
    Order.CREATED: lambda row: (_newest(row.head.created_at),),
    Order.SPENT: lambda row: (-row.head.tokens_used,),
    Order.LEFT: lambda row: (row.head.total_budget - row.head.tokens_used,),
}
"""The sort keys of each order; ties are sorted by id."""


def _cursor(order: Order, place: tuple[Any, ...]) -> str:
    return json.dumps([order.value, *place], separators=(",", ":"))


def _read_cursor(text: str, order: Order) -> tuple[Any, ...]:
    try:
        named, *place = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        named, place = None, []
    numbers = 2 if order is Order.ATTENTION else 1
    if named != order.value or [type(one) for one in place] != [*[int] * numbers, str]:
        raise InvalidForm({"after": "the address is not where a page of this list ended"})
    return tuple(place)
