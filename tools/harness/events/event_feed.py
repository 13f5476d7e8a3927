"""What happened to sessions, one event after the other, from any place on: nothing is missed."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Final, Self

from attrs import define, field

from ...base.cancellation import check_cancelled, current_token
from ..feed_port import Feed
from ..views.entry_events import EntryEvent

POLL_S: Final = 0.2
"""How soon after an event a feed that waits has looked, in seconds, where a look costs little."""
_SHARE: Final = 0.05
"""What looks may cost of one core: where one takes long, the next is later."""


@define(eq=False)
class EventFeed(Iterator[EntryEvent]):
    """The events of sessions, in a loop that waits for the next one.

    Each event stands in the history of its session, so what was saved is found, whoever was killed
    since; those of a session come in their order. `cursor` is where a later feed goes on: behind
    the last event that was given out. An event may come twice over two feeds, under the same id.
    What stands in no history, and sessions that were removed before they were looked at, are not
    among the events.

    For one thread at a time. A cancelled operation ends the wait (`cancellation`).

    Args:
        feed: The store's feed.
        timeout_s: How long to wait for the next event, in seconds: the loop ends then; for ever if
            None, not at all with 0.
    """

    _feed: Feed
    _timeout_s: float | None = field(default=None, kw_only=True)
    _looking: Iterator[EntryEvent] = field(factory=lambda: iter(()), init=False)
    _rest_s: float = field(default=0.0, init=False)

    @property
    def cursor(self) -> str:
        """The place behind the last event, as a text, with which another feed goes on from here."""
        return self._feed.cursor

    @property
    def lags(self) -> bool:
        """Whether something was saved that the last look did not show yet; a later one will.

        So it may be on PostgreSQL, while an older transaction runs.
        """
        return self._feed.lags

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> EntryEvent:
        """Return the next event, waiting for it.

        Raises:
            StopIteration: There is none within the time; the next call waits anew.
            OperationCancelled: The thread's operation was cancelled.
            ReadError: The store refused; the next call goes on where this one was.
        """
        until = None if self._timeout_s is None else time.monotonic() + self._timeout_s
        while True:
            found = next(self._looking, None)
            if found is None:
                found = self._look()
            if found is not None:
                self._feed.passed(found)
                return found
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                raise StopIteration
            _pause(self._rest_s if left is None else min(self._rest_s, left))

    def _look(self) -> EntryEvent | None:
        check_cancelled()
        begun = time.monotonic()
        self._looking = self._feed.look()
        found = next(self._looking, None)
        self._rest_s = max(POLL_S, (time.monotonic() - begun) / _SHARE)
        return found


def _pause(seconds: float) -> None:
    """Wait so long, or until the thread's operation is cancelled."""
    token, over = current_token(), threading.Event()
    if token is None:
        over.wait(seconds)
        return
    with token.watching(over):
        over.wait(seconds)
    check_cancelled()
