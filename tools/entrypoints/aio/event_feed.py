"""`EventFeed` for event loops."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Self

from .thread_call import call_in_thread

if TYPE_CHECKING:
    from ...harness.events.event_feed import EventFeed
    from ...harness.views.entry_events import EntryEvent


class AsyncEventFeed(AsyncIterator["EntryEvent"]):
    """Asynchronous iterator over the events of sessions; waits for each next event.

    Gives the guarantees of `EventFeed`. An event found while the waiting task is being cancelled
    is not lost: the next call returns it.

    Args:
        feed: The feed to read, in threads.
    """

    def __init__(self, feed: EventFeed) -> None:
        self._feed = feed
        self._found: list[EntryEvent] = []
        self._cursor = feed.cursor

    @property
    def cursor(self) -> str:
        """The position after the last event returned; see `EventFeed.cursor`."""
        return self._cursor if self._found else self._feed.cursor

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> EntryEvent:
        """Return the next event, waiting for it; see `EventFeed.__next__`."""
        if not self._found:
            self._cursor = self._feed.cursor
            await call_in_thread(self._read, name="events")
        if not self._found:
            raise StopAsyncIteration
        return self._found.pop()

    def _read(self) -> None:
        self._found.extend([one for one in [next(self._feed, None)] if one is not None])
