"""Time and chance that a test decides."""

from __future__ import annotations

from itertools import count

from agentforge_sessions.testing.manual_clock import START, ManualClock

__all__ = ["START", "FakeClock", "FakeTokens", "SleptClock"]

FakeClock = ManualClock
SleptClock = ManualClock


class FakeTokens:
    """Gives 8 hexadecimal digits, each time others, always in the same order."""

    def __init__(self) -> None:
        self._numbers = count(1)

    def __call__(self) -> str:
        return f"{next(self._numbers):08x}"
