"""Port of a store's feed, the events of its histories from any position on, and of its receivers.

Events are read from the histories until they are delivered: there is no second place from which one
could be missing. A feed looks only when asked; it adds no cost to a save.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager
from typing import Final, Protocol

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
