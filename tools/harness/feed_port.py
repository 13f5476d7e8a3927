"""The feed of a store: what its histories say as events, from any place on; and who is told of it.

What an entry of a history says is told until it was taken: there is no second place in which an
event could be missing. A feed looks where it is asked to; a save costs nothing for it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager
from typing import Final, Protocol

from .views.entry_events import EntryEvent

LeftEvent = tuple[int, str, dict[str, object]]
"""An event of a removed session: the number of its entry, its id, and its `to_dict`."""
MOST_LEFT: Final = 1_000
"""How many events of a removed session are kept for a receiver: the last ones."""
MOST_REMOVED: Final = 1_000
"""Of how many removed sessions something is kept for a receiver."""


class Feed(Protocol):
    """A place in the feed of a store, and what stands behind it. For one thread at a time."""

    @property
    def cursor(self) -> str:
        """The place, as a text that another process can go on from."""
        ...

    def look(self, only: Collection[str] | None = None) -> Iterator[EntryEvent]:
        """Go through what stands behind the place, of each session in its order.

        Nothing is passed by looking. A session that can't be read is left out until it can be.

        Args:
            only: The sessions that changed, where that is known; others may come, too.

        Raises:
            ReadError: The store refused.
        """
        ...

    def passed(self, found: EntryEvent) -> None:
        """Move the place behind an event that was found, and so behind all before it."""
        ...

    @property
    def lags(self) -> bool:
        """Whether something was saved that a look did not show yet; another one will."""
        ...


class Receiver(Protocol):
    """What a store keeps for one receiver of events, so that it is told of each."""

    @property
    def where(self) -> str:
        """Where that is, for messages."""
        ...

    def held(self, *, timeout_s: float = 0.0) -> AbstractContextManager[bool]:
        """Hold the receiver against other processes; gives whether none of them holds it.

        Args:
            timeout_s: How long to wait for another one, in seconds.

        Raises:
            WriteError: The store refused.
        """
        ...

    def read(self) -> bytes | None:
        """Return what was kept, or None.

        Raises:
            ReadError: The store refused.
        """
        ...

    def keep(self, data: bytes) -> None:
        """Keep how far it was told; only while it is held.

        Raises:
            WriteError: The store refused, or it is not held any more; what was kept stays.
        """
        ...

    def left(self) -> dict[str, list[LeftEvent]]:
        """Return what removed sessions left for it, each session's in its order.

        Raises:
            ReadError: The store refused.
        """
        ...

    def forget_left(self, session_id: str) -> None:
        """Drop what a removed session left; only while it is held.

        Raises:
            WriteError: The store refused.
        """
        ...

    def forget(self) -> None:
        """Drop all that is kept for it, as if it had never been told; only while it is held.

        Raises:
            WriteError: The store refused.
        """
        ...


class SessionFeeds(Protocol):
    """Tells of sessions what their histories say; a part of `SessionRepository`."""

    def open_feed(self, after: str | None = None, *, session_id: str | None = None) -> Feed:
        """Return the feed of all sessions, or of one, from a place on.

        Args:
            after: The place, as a `cursor`; the beginning of all histories if None.
            session_id: The one session; all of them if None.

        Raises:
            InvalidCursor: `after` is no place in it.
            InvalidSessionId: `session_id` is no id.
        """
        ...

    def end_of_feed(self) -> str:
        """Return the place behind everything that is stored now.

        Raises:
            ReadError: The store refused.
        """
        ...

    def is_own(self, session_id: str) -> bool:
        """Return whether a session is this person's own, and did not come with a clone."""
        ...

    def entry_events(self, session_id: str, after: int) -> list[EntryEvent] | None:
        """Return the events of one session behind so many entries; None if it is not there.

        Raises:
            InvalidSessionId: It is no id.
            SessionCorrupted: It can't be read.
        """
        ...

    def receivers(self) -> list[str]:
        """Return the names of the receivers for which something is kept, sorted.

        Raises:
            ReadError: The store refused.
        """
        ...

    def receiver(self, name: str) -> Receiver:
        """Return what is kept for a receiver of this name; nothing is read or made yet.

        Args:
            name: Letters, digits, dots, - and _, at most 64.
        """
        ...
