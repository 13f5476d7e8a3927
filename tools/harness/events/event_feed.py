"""Feed of session events, one at a time, from any position on; nothing is missed."""

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
"""How soon after an event a waiting feed looks, in seconds, if looking is cheap."""
_SHARE: Final = 0.05
"""The largest share of one core that looks may take; slow looks are spaced out."""


@define(eq=False)
class EventFeed(Iterator[EntryEvent]):
    """Iterates over the events of sessions and waits for the next one.

    Each event is read from its session's history, so what was saved is found even if its writer was
    killed. A session's events come in order. `cursor` is where a later feed continues: after the
    last event returned. Two feeds may return the same event, under the same id. Notices without a
    history entry, and sessions removed before they were read, are not included.

    For one thread at a time. A cancelled operation ends the wait (`cancellation`).

    Args:
        feed: The store's feed.
        timeout_s: How long to wait for the next event, in seconds, before the loop ends; without
            end if None, not at all with 0.
    """

    _feed: Feed
    _timeout_s: float | None = field(default=None, kw_only=True)
    _looking: Iterator[EntryEvent] = field(factory=lambda: iter(()), init=False)
    _rest_s: float = field(default=0.0, init=False)

    @property
    def cursor(self) -> str:
        """The position after the last event, as text, from which another feed continues."""
        return self._feed.cursor

    @property
    def lags(self) -> bool:
        """Whether something saved was not yet visible to the last look; a later look finds it.

        This can happen on PostgreSQL while an older transaction runs.
        """
        return self._feed.lags

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> EntryEvent:
        """Return the next event, waiting for it.

        Raises:
            StopIteration: No event came in time; the next call waits again.
            OperationCancelled: The thread's operation was cancelled.
            ReadError: The store refused; the next call continues at the same position.
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
    """Wait this long, or until the thread's operation is cancelled."""
    token, over = current_token(), threading.Event()
    if token is None:
        over.wait(seconds)
        return
    with token.watching(over):
        over.wait(seconds)
    check_cancelled()
