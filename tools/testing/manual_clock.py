"""Time that a test moves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

START: Final = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)
MOST_SLEEPS: Final = 10_000


class ManualClock:
    """A clock that moves when the test, or a program that sleeps, moves it.

    It is a `Clock` when called, and its methods take the place of those of `time`. Guarantees: no
    method waits; a sleep moves the clock by exactly its seconds, to the microsecond. A program that
    sleeps for what never comes ends with an `AssertionError` after 10,000 sleeps.

    Attributes:
        now: The present moment; may be set.
        pauses: The seconds of all sleeps, in order.
    """

    def __init__(self, now: datetime = START) -> None:
        self.now = now
        self.pauses: list[float] = []

    def __call__(self) -> datetime:
        """Return the present moment."""
        return self.now

    def advance(self, seconds: float = 1.0) -> datetime:
        """Move the clock and return the moment."""
        self.now += timedelta(seconds=seconds)
        return self.now

    def monotonic(self) -> float:
        """Return the moment in seconds, as `time.monotonic` does."""
        return self.now.timestamp()

    def sleep(self, seconds: float) -> None:
        """Move the clock at once, in place of `time.sleep`."""
        if len(self.pauses) == MOST_SLEEPS:
            raise AssertionError(
                f"{MOST_SLEEPS:,} sleeps: what the program waits for does not come; send it "
                "before, or give the session patience_s"
            )
        self.pauses.append(seconds)
        self.advance(seconds)
