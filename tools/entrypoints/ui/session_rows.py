"""The list of sessions as a person asks for it: which of them, in which order, from where on; pure.

A page goes on behind the last session of the one before it (a keyset), so a session that is begun
or deleted meanwhile moves no other.
"""

from __future__ import annotations

import base64
import heapq
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

from attrs import frozen

from ...harness.domain.session_states import SessionState
from ...harness.views.session_head import SessionHead, SessionSummary
from .errors import InvalidForm

PAGE: Final = 50
"""How many sessions a page has."""
_MOST_WORDS: Final = 16


class Standing(StrEnum):
    """Where a session stands for the person who looks: its state, or what it needs."""

    WAITING = "waiting"
    """A question of it waits for an answer."""
    INTERRUPTED = "interrupted"
    """Its run was cut off."""
    PAUSED = "paused"
    ACTIVE = "active"
    ABORTED = "aborted"
    COMPLETED = "completed"


_STANDINGS: Final = frozenset(one.value for one in Standing)
_RANK: Final = {
    Standing.WAITING: 0,
    Standing.INTERRUPTED: 1,
    Standing.ACTIVE: 2,
    Standing.PAUSED: 3,
    Standing.ABORTED: 4,
    Standing.COMPLETED: 4,
}


class Order(StrEnum):
    """The orders of the list."""

    ATTENTION = "attention"
    """What waits for a person, then what was cut off, what is at work, what is paused, the rest."""
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


_ORDERS: Final = frozenset(one.value for one in Order)


@frozen(kw_only=True)
class Row:
    """A session in the list.

    Attributes:
        summary: Its head, and where it is.
        interrupted: Whether its run was cut off.
        questions: The question sessions that wait for an answer for it.
        goal: What it is for, as far as it was read.
    """

    summary: SessionSummary
    interrupted: bool = False
    questions: tuple[str, ...] = ()
    goal: str | None = None

    @property
    def head(self) -> SessionHead:
        """Its head."""
        return self.summary.head

    @property
    def session_id(self) -> str:
        """Its id."""
        return self.summary.head.session_id

    @property
    def standing(self) -> Standing:
        """Where it stands."""
        state = self.summary.head.state
        if self.questions and not state.is_terminal:
            return Standing.WAITING
        if self.interrupted and state is SessionState.ACTIVE:
            return Standing.INTERRUPTED
        return Standing(state.value)


@frozen(kw_only=True)
class Wanted:
    """Which sessions are wanted, and in which order.

    Attributes:
        words: Each must occur in the id, the title, the tags, the goal, the workflow or the phase.
        standings: Where they stand; anywhere if empty.
        workflow: Their workflow, or None.
        tag: A tag of theirs, or None.
        order: The order.
        after: Where the page before ended, as `Listed.after`; None for the first one.
    """

    words: tuple[str, ...] = ()
    standings: frozenset[Standing] = frozenset()
    workflow: str | None = None
    tag: str | None = None
    order: Order = Order.ATTENTION
    after: str | None = None

    @classmethod
    def of(cls, form: Mapping[str, list[str]]) -> Wanted:
        """Read it from the fields of an address.

        Raises:
            InvalidForm: One of them can't be what it says.
        """
        faults: dict[str, str] = {}
        standings = set()
        for one in form.get("standing", []):
            if one not in _STANDINGS:
                faults["standing"] = f"{one[:40]!r} is no state of a session"
            else:
                standings.add(Standing(one))
        order = form.get("order", [""])[-1] or Order.ATTENTION
        if order not in _ORDERS:
            faults["order"] = f"{order[:40]!r} is no order of the list"
        if faults:
            raise InvalidForm(faults)
        words = " ".join(form.get("q", [])).casefold().split()
        return cls(
            words=tuple(words[:_MOST_WORDS]),
            standings=frozenset(standings),
            workflow=_last(form, "workflow"),
            tag=_last(form, "tag"),
            order=Order(order),
            after=_last(form, "after"),
        )

    @property
    def narrows(self) -> bool:
        """Whether some sessions may be left out."""
        return bool(self.words or self.standings or self.workflow or self.tag)


def _last(form: Mapping[str, list[str]], name: str) -> str | None:
    return form.get(name, [""])[-1] or None


@frozen(kw_only=True)
class Listed:
    """A page of the list.

    Attributes:
        rows: Its sessions, in order.
        total: How many fit, on all pages.
        counts: How many fit by where they stand, whatever standing is wanted.
        after: Where the next page begins; None where no other session fits.
        workflows: The workflows of all sessions, sorted.
        tags: The tags of all sessions, sorted.
    """

    rows: tuple[Row, ...]
    total: int
    counts: Mapping[Standing, int]
    after: str | None
    workflows: tuple[str, ...]
    tags: tuple[str, ...]


def listed(rows: Iterable[Row], wanted: Wanted, *, limit: int = PAGE) -> Listed:
    """Take the page that is wanted out of all sessions.

    Raises:
        InvalidForm: `wanted.after` is not where a page of this order ended.
    """
    behind = None if wanted.after is None else _read_cursor(wanted.after, wanted.order)
    key = _KEYS[wanted.order]
    counts: Counter[Standing] = Counter()
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
        place = key(row)
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
    parts = (
        head.session_id,
        head.workflow_type,
        head.current_phase,
        head.title,
        row.goal,
        *head.tags,
    )
    text = "\n".join(one for one in parts if one).casefold()
    return all(word in text for word in wanted.words)


def _micros(head: SessionHead, name: str) -> int:
    return int(getattr(head, name).timestamp() * 1_000_000)


def _attention(row: Row) -> tuple[Any, ...]:
    return (_RANK[row.standing], -_micros(row.head, "updated_at"), row.session_id)


def _left(row: Row) -> tuple[Any, ...]:
    return (row.head.total_budget - row.head.tokens_used, row.session_id)


_KEYS: Final[Mapping[Order, Callable[[Row], tuple[Any, ...]]]] = {
    Order.ATTENTION: _attention,
    Order.CHANGED: lambda row: (-_micros(row.head, "updated_at"), row.session_id),
    Order.CREATED: lambda row: (-_micros(row.head, "created_at"), row.session_id),
    Order.SPENT: lambda row: (-row.head.tokens_used, row.session_id),
    Order.LEFT: _left,
}


def _cursor(order: Order, place: tuple[Any, ...]) -> str:
    document = json.dumps([order.value, *place], separators=(",", ":"))
    return base64.urlsafe_b64encode(document.encode()).decode().rstrip("=")


def _read_cursor(text: str, order: Order) -> tuple[Any, ...]:
    width = 3 if order is Order.ATTENTION else 2
    try:
        found = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
        named, *place = found
        *numbers, name = place
    except (ValueError, TypeError, RecursionError):
        named, numbers, name, place = None, [], None, []
    fits = (
        named == order.value
        and len(place) == width
        and all(type(one) is int for one in numbers)
        and isinstance(name, str)
    )
    if not fits:
        raise InvalidForm({"after": "the address is not where a page of this list ended"})
    return tuple(place)
