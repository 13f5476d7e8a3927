"""Results of delivery rounds, what waits for the next one, and what is sent; pure."""

from __future__ import annotations

from attrs import frozen

from ...harness.feed_port import LeftEvent
from ...harness.views.entry_events import EntryEvent
from .delivery import Delivery


@frozen(kw_only=True)
class Round:
    """The result of one round of deliveries to a receiver.

    Attributes:
        delivered: How many deliveries were accepted.
        failed: How many were not, and wait.
        given_up: How many are not tried any more.
        next_due: When the next one may be sent, in seconds since the epoch; None if none waits.
        busy: Whether another process delivers.
        lags: Whether something saved can't be read yet.
        problem: Why the last one was not accepted, or None.
    """

    delivered: int = 0
    failed: int = 0
    given_up: int = 0
    next_due: float | None = None
    busy: bool = False
    lags: bool = False
    problem: str | None = None


@frozen(kw_only=True)
class Backlog:
    """What waits for a receiver.

    Attributes:
        deliveries: The deliveries.
        next_try: When a rejected delivery is sent again, in seconds since the epoch, or None.
        problem: Why one was not accepted, or None.
    """

    deliveries: tuple[Delivery, ...] = ()
    next_try: float | None = None
    problem: str | None = None


@frozen(kw_only=True)
class Behind:
    """A session's events after some entry.

    Attributes:
        is_readable: Whether the session can be read now, if it exists.
        is_there: Whether it exists.
        events: The events, in order.
    """

    is_readable: bool = True
    is_there: bool = False
    events: tuple[EntryEvent, ...] = ()


def delivery_of(found: EntryEvent | LeftEvent) -> Delivery:
    """Return the delivery of an event."""
    if isinstance(found, EntryEvent):
        return Delivery(
            id=found.id, event=found.event.to_dict(), created=found.event.at.timestamp()
        )
    return Delivery.of_document(found[1], found[2])
