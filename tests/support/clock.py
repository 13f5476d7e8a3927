"""Time and chance that a test decides."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Final

START: Final = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)


class FakeClock:
    """A clock that stands still until it is told to move."""

    def __init__(self, now: datetime = START) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now

    def advance(self, seconds: float = 1.0) -> datetime:
        self.now += timedelta(seconds=seconds)
        return self.now


class SleptClock:
    """A clock in seconds that moves when it is slept on."""

    def __init__(self) -> None:
        self.now = 100.0
        self.pauses: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds


class FakeTokens:
    """Gives 8 hexadecimal digits, each time others, always in the same order."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def __call__(self) -> str:
        return f"{next(self._numbers):08x}"
