"""How far a receiver of events was told, and what waits for it; pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, Final


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """A session whose next event a receiver did not take; those after it wait, too.

    Attributes:
        after: How many entries of its history the receiver has had.
        tries: How often the next one was sent.
        since: When it was sent first, in seconds since the epoch.
        not_before: When it may be sent again, in seconds since the epoch.
        problem: Why it was not taken the last time.
    """

    after: int
    tries: int
    since: float
    not_before: float
    problem: str

    def behind(self, after: int) -> Waiting:
        """Return the same of another entry."""
        return replace(self, after=after)


NOTHING_WAITS: Final = Waiting(after=0, tries=0, since=0.0, not_before=0.0, problem="")
"""What is said of a session while what waits of it is taken, one event after the other."""


@dataclass(slots=True, kw_only=True)
class ReceiverState:
    """What is known of one receiver.

    Attributes:
        cursor: The place in the feed of the store behind which nothing was looked at.
        events: The patterns of the events that it gets.
        waiting: The sessions that are behind the cursor, by their ids.
    """

    cursor: str
    events: tuple[str, ...] = ()
    waiting: dict[str, Waiting] = field(default_factory=dict)

    def encoded(self) -> bytes:
        """Return the state as it is kept."""
        waiting = {
            session_id: [one.after, one.tries, one.since, one.not_before, one.problem]
            for session_id, one in self.waiting.items()
        }
        kept = {"cursor": self.cursor, "events": self.events, "waiting": waiting}
        return (json.dumps(kept) + "\n").encode()

    @classmethod
    def decoded(cls, data: bytes) -> ReceiverState:
        """Read a state as it is kept.

        Raises:
            ValueError: It is none.
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
    """Return what says whether an event of a name is chosen by any of some patterns."""
    kept = tuple(patterns)

    @cache
    def chosen(name: str) -> bool:
        return any(fnmatchcase(name, one) for one in kept)

    return chosen
