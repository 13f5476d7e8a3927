"""Delivers this process's events to a receiver in the background, and earlier ones."""

from __future__ import annotations

import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from attrs import define, field

from ...base.clock import Clock, utc_now
from ...base.errors import AgentForgeError
from ...base.files import DurableError
from ...harness.domain.session_observer import RunStarted, SessionEvent, SessionLoaded
from ...harness.views.entry_events import SAID_BY_ENTRIES
from .delivery import Delivery, Round
from .webhook_sender import WebhookSender

MOST_TOLD: Final = 1_000
"""How many events without a history entry may wait for a receiver."""
BACKLOG_S: Final = 1.0
"""How long the end of a process waits for other processes' undelivered events, in seconds."""
_BUSY_PAUSE_S: Final = 0.25
"""How soon to look again while another process delivers, in seconds."""
AWAY_S: Final = 10.0
"""How soon to look again while the store is unreachable, in seconds."""
_LONGEST_WAIT_S: Final = 300.0
DRAIN_S: Final = 5.0
"""How long the end of a process waits for the first try of its deliveries, in seconds."""


@define(eq=False)
class SenderThread:
    """Runs a sender in a thread while the process lives.

    The thread starts with the first call. It does not keep the process alive: the next process
    delivers what is left of a history. An event without a history entry is tried once.

    Args:
        sender: The sender.
        log: A structlog logger.
        clock: The time.
        away_s: How soon to look again while the store is unreachable, in seconds.
    """

    _sender: WebhookSender
    _log: Any = field(kw_only=True)
    _clock: Clock = field(default=utc_now, kw_only=True)
    _away_s: float = field(default=AWAY_S, kw_only=True)
    _changed: threading.Condition = field(factory=threading.Condition, init=False)
    _sessions: set[str] = field(factory=set, init=False)
    _looks_at_all: bool = field(default=False, init=False)
    _told: deque[Delivery] = field(factory=deque, init=False)
    _saved: int = field(default=0, init=False)
    """The number of local saves with events for the receiver."""
    _tried: int = field(default=0, init=False)
    """How many of these have had their first try."""
    _next_due: float | None = field(default=None, init=False)
    _closing_until: float | None = field(default=None, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)

    def saved(self, session_id: str) -> None:
        """Schedule delivery of what was just saved of a session; the close waits for that."""
        with self._changed:
            self._sessions.add(session_id)
            self._saved += 1
            self._start()

    def look_at_all(self) -> None:
        """Schedule delivery of what other processes left undelivered, of any session."""
        with self._changed:
            self._looks_at_all = True
            self._start()

    def tell(self, delivery: Delivery) -> bool:
        """Schedule an event without a history entry; return False if too many wait."""
        with self._changed:
            if len(self._told) >= MOST_TOLD:
                return False
            self._told.append(delivery)
            self._start()
        return True

    def _start(self) -> None:
        self._changed.notify_all()
        if self._thread is None and self._closing_until is None:
            name = f"agentforge-webhook-{self._sender.webhook.name}"
            self._thread = threading.Thread(target=self._run, name=name, daemon=True)
            self._thread.start()

    def close(self, timeout_s: float) -> bool:
        """End the thread, after the first try of everything saved here, or after the timeout.

        Args:
            timeout_s: How long to wait, in seconds.

        Returns:
            Whether something that was saved here still waits.
        """
        with self._changed:
            limit = timeout_s if self._has_own else min(timeout_s, BACKLOG_S)
            self._closing_until = time.monotonic() + limit
            self._changed.notify_all()
            thread = self._thread
        if thread is None:
            return False
        thread.join(limit)
        with self._changed:
            return self._saved > 0 and (self._saved > self._tried or self._next_due is not None)

    @property
    def _has_own(self) -> bool:
        return self._saved > self._tried or bool(self._told)

    def _run(self) -> None:
        while True:
            with self._changed:
                saved, at_all, sessions = self._saved, self._looks_at_all, self._sessions
                self._looks_at_all, self._sessions = False, set()
            found = self._deliver(None if at_all or not sessions else sessions)
            self._deliver_told()
            with self._changed:
                self._next_due = found.next_due
                if found.busy:
                    self._looks_at_all |= at_all or not sessions
                    self._sessions |= sessions
                elif not found.lags and not self._is_over():
                    self._tried = saved
                if not self._goes_on(found):
                    return

    def _deliver(self, only: set[str] | None) -> Round:
        try:
            return self._sender.deliver(only=only, stop=self._is_over)
        except Exception as error:  # noqa: BLE001 (else the thread would end unnoticed)
            self._log.error(
                "webhook.sender_failed", webhook=self._sender.webhook.name, error=str(error)
            )
            is_away = isinstance(error, AgentForgeError) and error.retryable
            wait_s = self._away_s if is_away else _LONGEST_WAIT_S
            return Round(next_due=self._clock().timestamp() + wait_s)

    def _deliver_told(self) -> None:
        while self._told and not self._is_over():
            delivery = self._told.popleft()
            answer = self._sender.send_once(delivery)
            if not answer.taken:
                self._sender.say("warning", "webhook.not_told", delivery, error=answer.in_words)

    def _goes_on(self, found: Round) -> bool:
        """Wait until there is something to do; return False when the thread has to end."""
        if self._closing_until is not None:
            if self._is_over() or not self._has_own:
                return False
            return self._wait(_BUSY_PAUSE_S) if found.busy or found.lags else True
        if found.busy:
            return self._wait(_BUSY_PAUSE_S)
        if self._told or self._sessions or self._looks_at_all or found.next_due is None:
            is_asked = self._told or self._sessions or self._looks_at_all
            return True if is_asked else self._wait(None)
        left = found.next_due - self._clock().timestamp()
        return self._wait(min(max(left, 0.0), _LONGEST_WAIT_S))

    def _wait(self, seconds: float | None) -> bool:
        if self._closing_until is not None:
            left = max(self._closing_until - time.monotonic(), 0.0)
            seconds = left if seconds is None else min(seconds, left)
        self._changed.wait(seconds)
        return True

    def _is_over(self) -> bool:
        until = self._closing_until
        return until is not None and (time.monotonic() >= until)


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
