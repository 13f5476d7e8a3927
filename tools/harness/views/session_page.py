"""A page of a listing: which sessions, in which order, from where on; pure.

A page goes on behind the last session of the one before it (a keyset), so what it costs does not
grow with the pages before it, and a session that is created or deleted meanwhile moves no other.
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
"""The most sessions of a page."""

Position = datetime | int | None
"""Where a session stands in an order, its id aside; None in the order of the ids."""


class SessionOrder(StrEnum):
    """The orders that a page may be in; sessions that are equal in it are ordered by id."""

    LAST_CHANGED = "last_changed"
    """The last changed first; of two that changed at one time, the higher id first."""
    FIRST_CHANGED = "first_changed"
    """The longest unchanged first."""
    LAST_CREATED = "last_created"
    """The youngest first."""
    FIRST_CREATED = "first_created"
    """The oldest first."""
    LEAST_LEFT = "least_left"
    """Those with the fewest tokens left of their budget first."""
    MOST_LEFT = "most_left"
    """Those with the most tokens left first."""
    MOST_SPENT = "most_spent"
    """Those that spent the most tokens first."""
    LEAST_SPENT = "least_spent"
    """Those that spent the fewest tokens first."""
    ID = "id"
    """By id, the lowest first."""

    @property
    def descends(self) -> bool:
        """Whether the largest position comes first, and of equal ones the highest id."""
        return _RULES[self].descends

    def position(self, head: SessionHead) -> Position:
        """Return where a session stands in this order, its id aside."""
        return _RULES[self].position(head)


class _Rule(NamedTuple):
    """What an order goes by: a session's position, whether that is a count, where it begins."""

    position: Callable[[SessionHead], Position]
    by_count: bool = False
    descends: bool = False


def _left(head: SessionHead) -> int:
    return head.total_budget - head.tokens_used


_RULES: Final[Mapping[SessionOrder, _Rule]] = {
    SessionOrder.LAST_CHANGED: _Rule(attrgetter("updated_at"), descends=True),
    SessionOrder.FIRST_CHANGED: _Rule(attrgetter("updated_at")),
    SessionOrder.LAST_CREATED: _Rule(attrgetter("created_at"), descends=True),
    SessionOrder.FIRST_CREATED: _Rule(attrgetter("created_at")),
    SessionOrder.LEAST_LEFT: _Rule(_left, by_count=True),
    SessionOrder.MOST_LEFT: _Rule(_left, by_count=True, descends=True),
    SessionOrder.MOST_SPENT: _Rule(attrgetter("tokens_used"), by_count=True, descends=True),
    SessionOrder.LEAST_SPENT: _Rule(attrgetter("tokens_used"), by_count=True),
    SessionOrder.ID: _Rule(lambda head: None),  # noqa: ARG005
}
_MAX_COUNT: Final = 2**63 - 1


def as_order(given: SessionOrder | str) -> SessionOrder:
    """Return the order of a name.

    Raises:
        InvalidSession: There is none.
    """
    try:
        return SessionOrder(given)
    except ValueError:
        known = ", ".join(SessionOrder)
        raise InvalidSession([f"order: {given!r} is none of {known}"]) from None


class InvalidCursor(InvalidSession):
    """What should say where a page ended does not, or is of another list; nothing was read."""

    def __init__(self, given: str, reason: str) -> None:
        self.given = given
        super().__init__([f"after: {given[:100]!r} {reason}"])


@frozen
class SessionCursor:
    """Where a page ended. As a text, it stands in a command or a client's memory.

    It goes on in the list that it is of: in the same order, with the same filter.

    Attributes:
        order: The order of the page.
        position: Where the last session of the page stood in it.
        session_id: That session.
        fingerprint: That of the filter.
    """

    order: SessionOrder
    position: Position
    session_id: str
    fingerprint: str

    def __str__(self) -> str:
        """Return it as the text that `parse` reads."""
        at = "" if self.position is None else str(self.position)
        if isinstance(self.position, datetime):
            at = self.position.astimezone(UTC).isoformat(timespec="microseconds")
            at = f"{at.removesuffix('+00:00')}Z"
        return f"{self.order.value}/{at}/{self.session_id}/{self.fingerprint}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what `str` returned.

        Raises:
            InvalidCursor: It is no such text.
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
        """Return where a page ends whose last session has this head."""
        return cls(order, order.position(head), head.session_id, wanted.fingerprint)

    def require_of(self, order: SessionOrder, wanted: SessionFilter) -> None:
        """Raise if it does not go on in this list.

        Raises:
            InvalidCursor: It is of another order, or of another filter.
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
        """Return whether a session comes behind the end of the page."""
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
    """Some of the sessions that fit, in order.

    Attributes:
        sessions: Those that can be read.
        after: Where the next page begins; None where no other session fits.
        more: How many fit beyond it; None where the store did not count them.
        unreadable: Sessions that can't be read: with the first page all of them, where the store
            has to look at each session anyway; else those that were met on the page's way.
    """

    sessions: tuple[SessionSummary, ...]
    after: SessionCursor | None = None
    more: int | None = None
    unreadable: tuple[UnreadableSession, ...] = ()


def require_limit(limit: object) -> None:
    """Raise `InvalidSession` if a page can't have so many sessions."""
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
    """Take a page out of all sessions that fit, for a store that keeps them in no order.

    Args:
        found: The sessions, each once, in any order.
        wanted: What they were filtered by; None for all of them.
        order: The order of the page.
        limit: The most sessions of it.
        after: The end of the previous page; None for the first page.

    Raises:
        InvalidSession: There can't be so many sessions on a page, or `after` is of another list.
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
    """Return sessions in an order, all of them."""
    return sorted(found, key=_key_of(order), reverse=order.descends)


def _key_of(order: SessionOrder) -> Callable[[SessionSummary], tuple[Any, str]]:
    position = _RULES[order].position
    return lambda one: (position(one.head), one.session_id)
