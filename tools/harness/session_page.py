"""A page of a listing: which sessions, in which order, from where on; pure.

A page goes on behind the last session of the one before it (a keyset), so what it costs does not
grow with the pages before it, and a session that is created or deleted meanwhile moves no other.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final, Self

from attrs import frozen

from .session_checks import count_fault
from .session_domain import InvalidSession, validate_session_id
from .session_head import SessionHead, SessionSummary, UnreadableSession

MAX_PAGE: Final = 10_000
"""The most sessions of a page."""


class SessionOrder(StrEnum):
    """The orders that a page may be in."""

    LAST_CHANGED = "last_changed"
    """The last changed first; of two that changed at one time, the higher id first."""
    ID = "id"
    """By id, the lowest first."""


@frozen
class SessionCursor:
    """Where a page ended. As a text, it stands in a command or a client's memory.

    Attributes:
        changed_at: When the last session of the page was changed, aware.
        session_id: That session.
    """

    changed_at: datetime
    session_id: str

    def __str__(self) -> str:
        """Return it as the text that `parse` reads."""
        at = self.changed_at.astimezone(UTC).isoformat(timespec="microseconds")
        return f"{at.removesuffix('+00:00')}Z/{self.session_id}"

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read what `str` returned.

        Raises:
            InvalidSession: It is no such text.
        """
        at, separator, session_id = text.partition("/")
        try:
            changed_at = datetime.fromisoformat(at)
            if not separator or changed_at.tzinfo is None:
                raise ValueError(text)  # noqa: TRY301
            return cls(changed_at, validate_session_id(session_id))
        except ValueError as error:
            raise InvalidSession([f"after: {text!r} is not where a page ended"]) from error

    @classmethod
    def of(cls, head: SessionHead) -> Self:
        """Return where a page ends whose last session has this head."""
        return cls(head.updated_at, head.session_id)


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
    order: SessionOrder,
    limit: int,
    after: SessionCursor | None,
) -> SessionPage:
    """Take a page out of all sessions that fit, for a store that keeps them in no order.

    Args:
        found: The sessions, each once, in any order.
        order: The order of the page.
        limit: The most sessions of it.
        after: Where the page before it ended; None for the first one.

    Raises:
        InvalidSession: There can't be so many sessions on a page.
    """
    require_limit(limit)
    unreadable: list[UnreadableSession] = []
    fitting: list[SessionSummary] = []
    for one in found:
        if isinstance(one, UnreadableSession):
            unreadable.append(one)
        elif after is None or _is_behind(one.head, after, order):
            fitting.append(one)
    if order is SessionOrder.ID:
        shown = heapq.nsmallest(limit, fitting, key=lambda one: one.session_id)
    else:
        shown = heapq.nlargest(limit, fitting, key=_recency)
    more = len(fitting) - len(shown)
    return SessionPage(
        sessions=tuple(shown),
        after=SessionCursor.of(shown[-1].head) if more else None,
        more=more,
        unreadable=tuple(unreadable) if after is None else (),
    )


def _recency(one: SessionSummary) -> tuple[datetime, str]:
    return one.head.updated_at, one.session_id


def _is_behind(head: SessionHead, after: SessionCursor, order: SessionOrder) -> bool:
    if order is SessionOrder.ID:
        return head.session_id > after.session_id
    return (head.updated_at, head.session_id) < (after.changed_at, after.session_id)
