"""Observers of sessions: one that remembers, and one that fails."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field

from agentforge_sessions.harness import SessionEvent


@define
class Remembering:
    """Keeps the events that it is given, and may look at the world at each."""

    events: list[SessionEvent] = field(factory=list)
    at_each: Callable[[SessionEvent], object] = lambda _: None

    def on_event(self, event: SessionEvent) -> None:
        self.at_each(event)
        self.events.append(event)

    @property
    def names(self) -> list[str]:
        return [one.name for one in self.events]


@define
class Failing:
    """Raises at events; at all of them by default."""

    error: Callable[[], BaseException] = lambda: RuntimeError("the observer is broken")
    fails: Callable[[SessionEvent], bool] = lambda _: True
    asked: int = 0

    def on_event(self, event: SessionEvent) -> None:
        self.asked += 1
        if self.fails(event):
            raise self.error()
