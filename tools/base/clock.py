"""Wall-clock time as an argument, so that tests need neither sleep nor patches.

A clock is any callable without arguments that returns a moment. Moments inside the library are
timezone-aware and in UTC.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

Clock = Callable[[], datetime]
"""Returns the present moment, aware, in UTC."""


def utc_now() -> datetime:
    """Return the present moment, aware, in UTC."""
    return datetime.now(UTC)


def as_utc(moment: datetime) -> datetime:
    """Return `moment` in UTC; one without a time zone is read as UTC.

    Raises:
        OverflowError: The moment is outside the calendar's range in UTC.
    """
    if moment.tzinfo is UTC:
        return moment
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
