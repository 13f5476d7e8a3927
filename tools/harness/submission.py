"""Submission of a session to a fleet of workers."""

from __future__ import annotations

from datetime import datetime
from typing import Final

from attrs import field, frozen

DEFAULT_QUEUE: Final = "default"
MAX_QUEUE_BYTES: Final = 28
"""Most UTF-8 bytes of a queue's name: it is part of a PostgreSQL channel's name, limited to 63."""
MAX_PRIORITY: Final = 2**31 - 1


def is_queue(name: str) -> bool:
    """Return whether a text is a valid queue name."""
    return 1 <= len(name.encode("utf-8", "replace")) <= MAX_QUEUE_BYTES and "\0" not in name


def _queue(_instance: object, _attribute: object, value: str) -> None:
    if not is_queue(value):
        raise ValueError(f"queue: {value[:40]!r} has not 1 to {MAX_QUEUE_BYTES} bytes of text")


def _priority(_instance: object, _attribute: object, value: int) -> None:
    if abs(value) > MAX_PRIORITY:
        raise ValueError(f"priority: {value} is beyond {MAX_PRIORITY}")


@frozen(kw_only=True)
class Submission:
    """How the fleet is to run a session.

    Attributes:
        queue: The queue whose workers run it.
        priority: Higher ones run first.
        at: The earliest time; None: as soon as a worker is free.
    """

    queue: str = field(default=DEFAULT_QUEUE, validator=_queue)
    priority: int = field(default=0, validator=_priority)
    at: datetime | None = None
