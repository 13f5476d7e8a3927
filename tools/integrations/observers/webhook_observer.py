"""Delivers this process's events to a receiver in the background, and undelivered earlier ones."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any, Final

from attrs import define, field

from ...base.errors import AgentForgeError
from ...base.files import DurableError
from ...harness.domain.session_observer import RunStarted, SessionEvent, SessionLoaded
from ...harness.views.entry_events import SAID_BY_ENTRIES
from .delivery import Delivery
from .sender_thread import SenderThread
from .webhook_sender import WebhookSender

DRAIN_S: Final = 5.0
"""How long the end of a process waits for the first try of its deliveries, in seconds."""


@define(eq=False)
class WebhookObserver:
    """Has each event that a receiver subscribes to delivered. A `SessionObserver`.

    It stores nothing: events in a session's history are delivered from there, at least once,
    whatever happens to this process; the work never waits for the receiver. An event without a
    history entry is tried once, by this process. Other processes' undelivered events are delivered
    when a session is opened and when a run starts.

    Args:
        sender: Delivers.
        log: A structlog logger.
        token: Returns 8 to 64 hexadecimal digits, different each time.
    """

    _sender: WebhookSender
    _log: Any = field(kw_only=True)
    _token: Callable[[], str] = field(default=lambda: secrets.token_hex(12), kw_only=True)
    _thread: SenderThread = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._thread = SenderThread(self._sender, log=self._log)
        try:
            self._sender.begin()
        except (AgentForgeError, DurableError) as error:
            webhook = self._sender.webhook.name
            self._log.warning("webhook.not_begun", webhook=webhook, error=str(error))

    def on_event(self, event: SessionEvent) -> None:
        """Schedule delivery of the event, if the receiver subscribes to it."""
        if self._sender.is_chosen(event.name):
            if isinstance(event.what, SAID_BY_ENTRIES) and event.session_id is not None:
                self._thread.saved(event.session_id)
            else:
                self._tell(event)
        if isinstance(event.what, RunStarted | SessionLoaded):
            self.look()

    def _tell(self, event: SessionEvent) -> None:
        delivery = Delivery(
            id=f"evt_{self._token()}", event=event.to_dict(), created=event.at.timestamp()
        )
        if not self._thread.tell(delivery):
            self._sender.say("warning", "webhook.not_told", delivery, error="too many wait")

    def look(self) -> None:
        """Schedule delivery of other processes' undelivered events."""
        self._thread.look_at_all()

    def close(self, timeout_s: float = DRAIN_S) -> None:
        """Wait for the first try of what was saved here; the rest is delivered later."""
        if self._thread.close(timeout_s):
            self._log.warning("webhook.waiting", webhook=self._sender.webhook.name)
