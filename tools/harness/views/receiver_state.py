"""Delivery state of an event receiver: what it has received and what waits for it; pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A session whose next event a receiver has not accepted; the later ones wait, too.

    Attributes:
        after: The number of its history entries that the receiver has received.
        tries: How often the next one was sent.
        since: When it was first sent, in seconds since the epoch.
        not_before: When it may be sent again, in seconds since the epoch.
        problem: Why it was not accepted the last time.
    """

    after: int
    tries: int
    since: float
    not_before: float
    problem: str

    def behind(self, after: int) -> Waiting:
        """Return the same state for another entry."""
        return replace(self, after=after)


NOTHING_WAITS: Final = Waiting(after=0, tries=0, since=0.0, not_before=0.0, problem="")
"""The state of a session whose waiting events are being accepted one by one."""


@dataclass(slots=True, kw_only=True)
class ReceiverState:
    """The state of one receiver.

    Attributes:
        cursor: The position in the store's feed up to which events were read.
        events: The patterns of the events that it gets.
        waiting: The sessions with events before the cursor that wait, by id.
    """

    cursor: str
    events: tuple[str, ...] = ()
    waiting: dict[str, Waiting] = field(default_factory=dict)

    def encoded(self) -> bytes:
        """Return the state as it is stored."""
        waiting = {
            session_id: [one.after, one.tries, one.since, one.not_before, one.problem]
            for session_id, one in self.waiting.items()
        }
        kept = {"cursor": self.cursor, "events": self.events, "waiting": waiting}
        return (json.dumps(kept) + "\n").encode()

    @classmethod
    def decoded(cls, data: bytes) -> ReceiverState:
        """Parse a stored state.

        Raises:
            ValueError: It is not a state.
        """
        try:
            kept = json.loads(data)
            return cls(
                cursor=_text(kept["cursor"]),
                events=tuple(map(_text, kept["events"])),
                waiting={name: _waiting(one) for name, one in kept["waiting"].items()},
            )
        except (AttributeError, KeyError, TypeError, RecursionError) as error:
            raise ValueError(f"it is no state of a receiver: {type(error).__name__}") from error


def _waiting(kept: Any) -> Waiting:
    after, tries, since, not_before, problem = kept
    return Waiting(
        after=int(after),
        tries=int(tries),
        since=float(since),
        not_before=float(not_before),
        problem=_text(problem),
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("expected a text")
    return value


def is_chosen(patterns: Iterable[str]) -> Callable[[str], bool]:
    """Return a function that reports whether any of the patterns selects an event name."""
    kept = tuple(patterns)

    @cache
    def chosen(name: str) -> bool:
        return any(fnmatchcase(name, one) for one in kept)

    return chosen
