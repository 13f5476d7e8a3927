"""Port of a store's feed, the events of its histories from any position on, and of its receivers.

Events are read from the histories until they are delivered: there is no second place from which one
could be missing. A feed looks only when asked; it adds no cost to a save.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, Final, Protocol

from .views.entry_events import EntryEvent

LeftEvent = tuple[int, str, dict[str, object]]
"""An event of a removed session: its entry's number, its id, and its `to_dict`."""
MOST_LEFT: Final = 1_000
"""How many events of a removed session are saved for a receiver: the last ones."""
MOST_REMOVED: Final = 1_000
"""For how many removed sessions events are saved for a receiver."""


class Feed(Protocol):
    """A position in a store's feed, and what comes after it. For one thread at a time."""

    @property
    def cursor(self) -> str:
        """The position, as text that another process can continue from."""
        ...

    def look(self, only: Collection[str] | None = None) -> Iterator[EntryEvent]:
        """Yield the events after the position, each session's in order.

        Looking does not move the position. A session that can't be read is skipped until it can be.

        Args:
            only: The sessions that changed, if known; others may be included.

        Raises:
            ReadError: The store refused.
        """
        ...

    def passed(self, found: EntryEvent) -> None:
        """Move the position past an event that was found, and so past all before it."""
        ...

    @property
    def lags(self) -> bool:
        """Whether something saved was not yet visible to a look; a later look finds it."""
        ...


class Receiver(Protocol):
    """A store's saved state of one event receiver, so that each event is delivered."""

    @property
    def where(self) -> str:
        """Where the state is stored, for messages."""
        ...

    def held(self, *, timeout_s: float = 0.0) -> AbstractContextManager[bool]:
        """Lock the receiver against other processes; yield whether the lock was obtained.

        Args:
            timeout_s: How long to wait for another process, in seconds.

        Raises:
            WriteError: The store refused.
        """
        ...

    def read(self) -> bytes | None:
        """Return the saved state, or None.

        Raises:
            ReadError: The store refused.
        """
        ...

    def keep(self, data: bytes) -> None:
        """Save the delivery state; only while the receiver is locked.

        Raises:
            WriteError: The store refused, or the lock was lost; the saved state is unchanged.
        """
        ...

    def left(self) -> dict[str, list[LeftEvent]]:
        """Return the undelivered events of removed sessions, each session's in order.

        Raises:
            ReadError: The store refused.
        """
        ...

    def forget_left(self, session_id: str) -> None:
        """Discard the events of a removed session; only while the receiver is locked.

        Raises:
            WriteError: The store refused.
        """
        ...

    def forget(self) -> None:
        """Discard the receiver's whole state, as for a new receiver; only while it is locked.

        Raises:
            WriteError: The store refused.
        """
        ...


class SessionFeeds(Protocol):
    """Reads events from sessions' histories; a part of `SessionRepository`."""

    def open_feed(self, after: str | None = None, *, session_id: str | None = None) -> Feed:
        """Return the feed of all sessions, or of one, from a position on.

        Args:
            after: The position, as a `cursor`; the start of all histories if None.
            session_id: The one session; all of them if None.

        Raises:
            InvalidCursor: `after` is not a position in it.
            InvalidSessionId: `session_id` is malformed.
        """
        ...

    def end_of_feed(self) -> str:
        """Return the position after everything stored now.

        Raises:
            ReadError: The store refused.
        """
        ...

    def is_own(self, session_id: str) -> bool:
        """Return whether a session is this person's own rather than part of a clone."""
        ...

    def entry_events(self, session_id: str, after: int) -> list[EntryEvent] | None:
        """Return a session's events after this many entries; None if the session does not exist.

        Raises:
            InvalidSessionId: The id is malformed.
            SessionCorrupted: It can't be read.
        """
        ...

    def receivers(self) -> list[str]:
        """Return the names of the receivers with saved state, sorted.

        Raises:
            ReadError: The store refused.
        """
        ...

    def receiver(self, name: str) -> Receiver:
        """Return the receiver of this name; no I/O yet.

        Args:
            name: Letters, digits, dots, - and _, at most 64.
        """
        ...


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
