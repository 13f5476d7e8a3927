"""What a round of deliveries came to, what waits for the next one, and what is sent; pure."""

from __future__ import annotations

from attrs import frozen

from ...harness.feed_port import LeftEvent
from ...harness.views.entry_events import EntryEvent
from .delivery import Delivery


@frozen(kw_only=True)
class Round:
    """What became of one look at what a receiver is to be told.

    Attributes:
        delivered: How many deliveries were taken.
        failed: How many were not, and wait.
        given_up: How many are not tried any more.
        next_due: When the next one may be sent, in seconds since the epoch; None where none waits.
        busy: Whether another process delivers.
        lags: Whether something was saved that can't be read yet.
        problem: Why the last one was not taken, or None.
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
        next_try: When one that was not taken is sent again, in seconds since the epoch, or None.
        problem: Why one was not taken, or None.
    """

    deliveries: tuple[Delivery, ...] = ()
    next_try: float | None = None
    problem: str | None = None


@frozen(kw_only=True)
class Behind:
    """What a session has to tell behind some entry.

    Attributes:
        is_readable: Whether it can be read now, if it is there.
        is_there: Whether it is.
        events: Its events, in their order.
    """

    is_readable: bool = True
    is_there: bool = False
    events: tuple[EntryEvent, ...] = ()


def delivery_of(found: EntryEvent | LeftEvent) -> Delivery:
    """Return what is sent of an event."""
    if isinstance(found, EntryEvent):
        return Delivery(
            id=found.id, event=found.event.to_dict(), created=found.event.at.timestamp()
        )
    return Delivery.of_document(found[1], found[2])
