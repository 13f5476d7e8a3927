"""A receiver's events: kept in its outbox, and delivered in the background."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any, Final

from ..harness.session_notices import RunStarted
from ..harness.session_observer import SessionEvent
from .event_patterns import is_chosen
from .outbox import Outbox
from .webhook_sender import SenderThread, WebhookSender

DRAIN_S: Final = 5.0
"""How long the end of a process waits for the first try of what it has to deliver, in seconds."""


class WebhookObserver:
    """Has each event that a receiver is to get delivered, at least once. A `SessionObserver`.

    An event is in the outbox, on disk, when `on_event` returns; the work never waits for the
    receiver. What another process left in the outbox is delivered with it, and when a run starts.

    Args:
        sender: Delivers; its outbox is what events are kept in.
        log: A structlog logger.
        token: Gives 8 to 64 hexadecimal digits, each time others.
    """

    def __init__(
        self,
        sender: WebhookSender,
        *,
        log: Any,
        token: Callable[[], str] = lambda: secrets.token_hex(12),
    ) -> None:
        self._webhook = sender.webhook
        self._outbox: Outbox = sender.outbox
        self._log = log
        self._token = token
        self._is_chosen = is_chosen(sender.webhook.events)
        self._thread = SenderThread(sender, log=log)

    def on_event(self, event: SessionEvent) -> None:
        """Keep the event, if it is one for the receiver.

        Raises:
            OutboxFull: Too many wait.
            WriteError: It could not be kept.
        """
        if self._is_chosen(event.name):
            self._thread.wake(self._outbox.add(event.to_dict(), token=self._token()))
        elif isinstance(event.what, RunStarted) and self._outbox.names():
            self._thread.wake()

    def close(self, timeout_s: float = DRAIN_S) -> None:
        """Wait for the first try of what was kept here; what was not taken waits in the outbox."""
        waiting = self._thread.close(timeout_s)
        if waiting:
            self._log.warning(
                "webhook.waiting",
                webhook=self._webhook.name,
                count=waiting,
                outbox=str(self._outbox.directory),
            )
