"""Pages of a listing: which sessions, in which order, from which position on; pure.

A page continues after the last session of the previous one (a keyset), so its cost does not grow
with the pages before it, and creating or deleting a session meanwhile moves no other.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from enum import StrEnum
from operator import attrgetter
from typing import Any, Final, NamedTuple, Self

from attrs import frozen

from ..domain.session_checks import count_fault
from ..session_domain import InvalidSession, validate_session_id
from .session_filter import SessionFilter
from .session_head import SessionHead, SessionSummary, UnreadableSession

MAX_PAGE: Final = 10_000
"""The maximum size of a page."""

Position = datetime | int | None
"""A session's position in an order, its id aside; None in the order of the ids."""


class SessionOrder(StrEnum):
    """The orders of a page; sessions that are equal in it are ordered by id."""

    LAST_CHANGED = "last_changed"
    """The last changed first; of two changed at the same time, the higher id first."""
    FIRST_CHANGED = "first_changed"
    """The longest unchanged first."""
    LAST_CREATED = "last_created"
    """The youngest first."""
    FIRST_CREATED = "first_created"
    """The oldest first."""
    LEAST_LEFT = "least_left"
    """The fewest tokens left of the budget first."""
    MOST_LEFT = "most_left"
    """The most tokens left first."""
    MOST_SPENT = "most_spent"
    """The most tokens spent first."""
    LEAST_SPENT = "least_spent"
    """The fewest tokens spent first."""
    ID = "id"
    """By id, the lowest first."""

    @property
    def descends(self) -> bool:
        """Whether the largest position comes first, and among equal ones the highest id."""
        return _RULES[self].descends

    def position(self, head: SessionHead) -> Position:
        """Return a session's position in this order, its id aside."""
        return _RULES[self].position(head)


class _OrderRule(NamedTuple):
    """An order's rule: a session's position, whether that is a count, and the direction."""

    position: Callable[[SessionHead], Position]
    by_count: bool = False
    descends: bool = False


def _left(head: SessionHead) -> int:
    return head.total_budget - head.tokens_used


_RULES: Final[Mapping[SessionOrder, _OrderRule]] = {
    SessionOrder.LAST_CHANGED: _OrderRule(attrgetter("updated_at"), descends=True),
    SessionOrder.FIRST_CHANGED: _OrderRule(attrgetter("updated_at")),
    SessionOrder.LAST_CREATED: _OrderRule(attrgetter("created_at"), descends=True),
    SessionOrder.FIRST_CREATED: _OrderRule(attrgetter("created_at")),
    SessionOrder.LEAST_LEFT: _OrderRule(_left, by_count=True),
    SessionOrder.MOST_LEFT: _OrderRule(_left, by_count=True, descends=True),
    SessionOrder.MOST_SPENT: _OrderRule(attrgetter("tokens_used"), by_count=True, descends=True),
    SessionOrder.LEAST_SPENT: _OrderRule(attrgetter("tokens_used"), by_count=True),
    SessionOrder.ID: _OrderRule(lambda head: None),  # noqa: ARG005
}
_MAX_COUNT: Final = 2**63 - 1


def as_order(given: SessionOrder | str) -> SessionOrder:
    """Return the order of this name.

    Raises:
        InvalidSession: There is no such order.
    """
    try:
        return SessionOrder(given)
    except ValueError:
        known = ", ".join(SessionOrder)
        raise InvalidSession([f"order: {given!r} is none of {known}"]) from None


class InvalidCursor(InvalidSession):
    """A page cursor is malformed or belongs to another listing; nothing was read."""

    def __init__(self, given: str, reason: str) -> None:
        self.given = given
        super().__init__([f"after: {given[:100]!r} {reason}"])


@frozen
class SessionCursor:
    """The end of a page. As text, it can be part of a command or be stored by a client.

    It continues only the listing that it is from: the same order, with the same filter.

    Attributes:
        order: The order of the page.
        position: The position of the page's last session in it.
        session_id: That session.
        fingerprint: The filter's fingerprint.
    """

    order: SessionOrder
    position: Position
    session_id: str
    fingerprint: str

    def __str__(self) -> str:
        """Return the text that `parse` reads."""
        at = "" if self.position is None else str(self.position)
        if isinstance(self.position, datetime):
            at = self.position.astimezone(UTC).isoformat(timespec="microseconds")
            at = f"{at.removesuffix('+00:00')}Z"
        return f"{self.order.value}/{at}/{self.session_id}/{self.fingerprint}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse what `str` returned.

        Raises:
            InvalidCursor: It is not such a text.
        """
        try:
            order_name, at, session_id, fingerprint = text.split("/")
            order = SessionOrder(order_name)
            cursor = cls(
                order, _parse_position(order, at), validate_session_id(session_id), fingerprint
            )
            if str(cursor) != text or len(bytes.fromhex(fingerprint)) != 4:
                raise ValueError(text)  # noqa: TRY301
        except (ValueError, OverflowError) as error:
            raise InvalidCursor(
                text, "is not where a page ended; give what the former list named, or nothing"
            ) from error
        return cursor

    @classmethod
    def of(cls, head: SessionHead, order: SessionOrder, wanted: SessionFilter) -> Self:
        """Return the end of a page whose last session has this head."""
        return cls(order, order.position(head), head.session_id, wanted.fingerprint)

    def require_of(self, order: SessionOrder, wanted: SessionFilter) -> None:
        """Raise unless it continues this listing.

        Raises:
            InvalidCursor: It is from another order or filter.
        """
        if self.order is not order:
            raise InvalidCursor(
                str(self),
                f"ended a page in the order {self.order.value}, and not {order.value}; "
                "ask for that order, or begin anew without it",
            )
        if self.fingerprint != wanted.fingerprint:
            raise InvalidCursor(
                str(self),
                "ended a page of sessions that were filtered otherwise; "
                "give the same filters, or begin anew without it",
            )

    def is_before(self, head: SessionHead) -> bool:
        """Return whether a session comes after the end of the page."""
        if self.position is None:
            return head.session_id > self.session_id
        there, here = self.order.position(head), self.position
        if there == here:
            there, here = head.session_id, self.session_id  # type: ignore[assignment]
        return there < here if self.order.descends else there > here  # type: ignore[operator]


def _parse_position(order: SessionOrder, text: str) -> Position:
    if order is SessionOrder.ID:
        return None
    if not _RULES[order].by_count:
        return datetime.fromisoformat(text)
    count = int(text)
    if abs(count) > _MAX_COUNT:
        raise OverflowError(text)
    return count


@frozen(kw_only=True)
class SessionPage:
    """Some of the matching sessions, in order.

    Attributes:
        sessions: The readable ones.
        after: Where the next page starts; None if no other session matches.
        more: How many match beyond it; None if the store did not count them.
        unreadable: Sessions that can't be read: all of them with the first page, if the store has
            to read every session anyway; else those found on the way to this page.
    """

    sessions: tuple[SessionSummary, ...]
    after: SessionCursor | None = None
    more: int | None = None
    unreadable: tuple[UnreadableSession, ...] = ()


def require_limit(limit: object) -> None:
    """Raise `InvalidSession` if a page can't have this size."""
    faults = count_fault("limit", limit, least=1)
    if not faults and isinstance(limit, int) and limit > MAX_PAGE:
        faults = [f"limit: expected {MAX_PAGE:,} or less, got {limit:,}"]
    if faults:
        raise InvalidSession(faults)


def page_of(
    found: Iterable[SessionSummary | UnreadableSession],
    *,
    wanted: SessionFilter | None,
    order: SessionOrder,
    limit: int,
    after: SessionCursor | None,
) -> SessionPage:
    """Return a page of all matching sessions, for a store that does not sort them.

    Args:
        found: The sessions, each once, in any order.
        wanted: The filter that was applied; None for all of them.
        order: The order of the page.
        limit: The page's maximum size.
        after: The end of the previous page; None for the first page.

    Raises:
        InvalidSession: `limit` is out of range, or `after` is from another listing.
    """
    require_limit(limit)
    wanted = SessionFilter() if wanted is None else wanted
    if after is not None:
        after.require_of(order, wanted)
    unreadable: list[UnreadableSession] = []
    fitting: list[SessionSummary] = []
    for one in found:
        if isinstance(one, UnreadableSession):
            unreadable.append(one)
        elif after is None or after.is_before(one.head):
            fitting.append(one)
    take = heapq.nlargest if order.descends else heapq.nsmallest
    shown = take(limit, fitting, key=_key_of(order))
    more = len(fitting) - len(shown)
    return SessionPage(
        sessions=tuple(shown),
        after=SessionCursor.of(shown[-1].head, order, wanted) if more else None,
        more=more,
        unreadable=tuple(unreadable) if after is None else (),
    )


def in_order(found: Iterable[SessionSummary], order: SessionOrder) -> list[SessionSummary]:
    """Return all the sessions, in this order."""
    return sorted(found, key=_key_of(order), reverse=order.descends)


def _key_of(order: SessionOrder) -> Callable[[SessionSummary], tuple[Any, str]]:
    position = _RULES[order].position
    return lambda one: (position(one.head), one.session_id)
