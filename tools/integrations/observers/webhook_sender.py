"""Delivers events from a store's histories to one receiver: in order, with retries."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any, Final

from attrs import define, evolve, field

from ...base.clock import Clock, utc_now
from ...base.errors import AgentForgeError
from ...base.files import WriteError
from ...base.settings.webhooks import Webhook
from ...harness.feed_port import (
    NOTHING_WAITS,
    Feed,
    LeftEvent,
    Receiver,
    ReceiverState,
    SessionFeeds,
    Waiting,
    is_chosen,
)
from ...harness.views.entry_events import EntryEvent
from ...harness.views.session_page import InvalidCursor
from .delivery import Backlog, Behind, Delivery, Round, WebhookResponse, delivery_of, pause_s
from .http_post import Post, post

BEGIN_S: Final = 10.0
"""How long to wait for another process that sets up the same receiver, in seconds."""
LAGS_S: Final = 0.25
"""How soon to look again for saved data that can't be read yet, in seconds."""
UNREADABLE_S: Final = 60.0
"""How soon to look again at a session that can't be read, in seconds."""


@define(eq=False)
class WebhookSender:
    """Delivers the events of a store's sessions to one receiver.

    The receiver's cursor is in the store, after what it accepted: whichever process is killed, and
    when, the next one that delivers sends what was saved. A new receiver gets what happens after it
    was first named. A session's events are sent in order: while one waits, the later ones do. A
    receiver that is down (no answer, 408, 425, 429, 5xx) is left alone until the next try is due,
    after 5 seconds at first and up to an hour, or what `Retry-After` requests. An event that is not
    accepted within `Webhook.kept_s` of its first try, or is answered with 410, is given up, and
    logged.

    Args:
        webhook: The receiver.
        sessions: The sessions.
        log: A structlog logger.
        environment: The variables with its secrets, and possibly its address.
        send: Sends one request.
        clock: The time.
        chance: Returns numbers from 0 to 1.
    """

    webhook: Webhook
    sessions: SessionFeeds
    log: Any = field(kw_only=True)
    _environment: Mapping[str, str] = field(default=os.environ, kw_only=True)
    _send: Post = field(default=post, kw_only=True)
    _clock: Clock = field(default=utc_now, kw_only=True)
    _chance: Callable[[], float] = field(default=random.random, kw_only=True)
    is_chosen: Callable[[str], bool] = field(init=False)
    _receiver: Receiver = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.is_chosen = is_chosen(self.webhook.events)
        self._receiver = self.sessions.receiver(self.webhook.name)

    @property
    def where(self) -> str:
        """The place of the receiver's cursor, for messages."""
        return self._receiver.where

    def begin(self) -> None:
        """Start deliveries of what happens from now on, unless they have started before.

        Raises:
            DurableError: The store refused.
        """
        if self._receiver.read() is None:
            with self._receiver.held(timeout_s=BEGIN_S) as free:
                if free:
                    self._state()

    def _state(self) -> ReceiverState:
        """Return the receiver's state, creating it here for a new one. The receiver is locked."""
        kept = self._receiver.read()
        if kept is not None:
            try:
                state, _ = self._opened(kept)
            except (ValueError, InvalidCursor) as error:
                self.log.warning("webhook.begun_anew", webhook=self.webhook.name, error=str(error))
            else:
                if state.events == self.webhook.events:
                    return state
                state.events = self.webhook.events
                self._receiver.keep(state.encoded())
                return state
        state = ReceiverState(cursor=self.sessions.end_of_feed(), events=self.webhook.events)
        self._receiver.keep(state.encoded())
        return state

    def _opened(self, kept: bytes) -> tuple[ReceiverState, Feed]:
        """Parse a saved state, and open the feed at its cursor.

        Raises:
            ValueError: It is not a receiver's state.
            InvalidCursor: Its cursor does not belong to these sessions.
        """
        state = ReceiverState.decoded(kept)
        return state, self.sessions.open_feed(state.cursor)

    def deliver(
        self,
        *,
        at_once: bool = False,
        only: Collection[str] | None = None,
        stop: Callable[[], bool] = lambda: False,
    ) -> Round:
        """Send what is due, one delivery at a time.

        Args:
            at_once: Whether to send what is not due yet, too.
            only: The sessions that changed, if known.
            stop: Returns whether to stop sending.

        Raises:
            DurableError: The store refused; accepted deliveries may be sent again.
        """
        with self._receiver.held() as free:
            if not free:
                return Round(busy=True)
            state = self._state()
            feed = self.sessions.open_feed(state.cursor)
            return _Delivering(self, state, feed, self._receiver, at_once, stop).round(only)

    def backlog(self) -> Backlog:
        """Return what waits for the receiver, without sending or saving anything."""
        kept = self._receiver.read()
        if kept is None:
            return Backlog()
        try:
            state, feed = self._opened(kept)
        except (ValueError, InvalidCursor) as error:
            return Backlog(problem=f"its cursor can't be used ({error}); it begins anew")
        found: list[EntryEvent | LeftEvent] = list(self._left_of(state))
        for session_id, waiting in state.waiting.items():
            found += self.behind(session_id, waiting.after).events
        found += [one for one in feed.look() if one.event.session_id not in state.waiting]
        last = max(state.waiting.values(), key=lambda one: one.not_before, default=None)
        return Backlog(
            deliveries=tuple(made for made in map(delivery_of, found) if self.is_chosen(made.kind)),
            next_try=min((one.not_before for one in state.waiting.values()), default=None),
            problem=None if last is None else last.problem,
        )

    def _left_of(self, state: ReceiverState) -> Iterator[LeftEvent]:
        for session_id, events in self._receiver.left().items():
            waiting = state.waiting.get(session_id)
            yield from (one for one in events if waiting is None or one[0] > waiting.after)

    def behind(self, session_id: str, after: int) -> Behind:
        """Return a session's events after this many entries."""
        try:
            found = self.sessions.entry_events(session_id, after)
        except AgentForgeError as error:
            self.log.debug("webhook.session_unreadable", session_id=session_id, error=str(error))
            return Behind(is_readable=False)
        return Behind(is_there=found is not None, events=tuple(found or ()))

    def send_once(self, delivery: Delivery) -> WebhookResponse:
        """Send a delivery, once, and return the receiver's answer."""
        try:
            address = self.webhook.address(self._environment)
            headers = delivery.headers(self.webhook.secrets(self._environment), now=self.now())
        except ValueError as error:
            return WebhookResponse(status=0, problem=str(error))
        return self._send(address, delivery.body, headers, timeout_s=self.webhook.timeout_s)

    def next_try(self, tries: int, answer: WebhookResponse) -> float:
        """Return when a rejected delivery is sent again, in seconds since the epoch."""
        return self.now() + pause_s(tries, answer, chance=self._chance())

    def now(self) -> float:
        """Return the time, in seconds since the epoch."""
        return self._clock().timestamp()

    def say(self, level: str, what: str, delivery: Delivery, **more: object) -> None:
        """Log the result of a delivery."""
        about = {"delivery": delivery.id, "observed": delivery.kind}
        about |= {"session_id": delivery.session_id or ""}
        getattr(self.log, level)(what, webhook=self.webhook.name, **about, **more)


@define
class _Delivering:
    """One round of deliveries, while the receiver is locked."""

    _sender: WebhookSender
    _state: ReceiverState
    _feed: Feed
    _receiver: Receiver
    _at_once: bool
    _stop: Callable[[], bool]
    _left: dict[str, list[LeftEvent]] = field(init=False)
    _found: Round = field(factory=Round)
    _caught_up: dict[str, int] = field(factory=dict)
    """How far this round delivered waiting sessions, ahead of the feed."""
    _done: set[str] = field(factory=set)
    """Those of them with nothing left to deliver."""
    _unreadable: set[str] = field(factory=set)
    _is_down: bool = False
    _down_until: float = 0.0
    _unkept: bool = False

    def round(self, only: Collection[str] | None) -> Round:
        """Deliver events of removed sessions, waiting ones and new ones; save the progress."""
        self._left = self._receiver.left()
        for session_id in list(self._left):
            if not self._over:
                self._deliver_left(session_id, self._left[session_id])
        for session_id in list(self._state.waiting):
            if not self._over and self._is_due(session_id):
                self._catch_up(session_id)
        for one in self._feed.look(None if only is None else {*only, *self._caught_up}):
            if self._over:
                break
            self._deliver_new(one)
        else:
            if not self._feed.lags:  # it has passed everything delivered to them
                self._forget(self._done)
        if self._unkept:
            self._keep()
        return evolve(self._found, next_due=self._next_due(), lags=self._feed.lags)

    def _next_due(self) -> float | None:
        now, due = self._sender.now(), []
        for session_id, waiting in self._state.waiting.items():
            if session_id not in self._unreadable | self._done:
                due.append(max(waiting.not_before, self._down_until))
        if self._unreadable:
            due.append(now + UNREADABLE_S)
        if self._feed.lags:
            due.append(now + LAGS_S)
        return min(due, default=None)

    @property
    def _over(self) -> bool:
        return self._is_down or self._stop()

    def _is_due(self, session_id: str) -> bool:
        waiting = self._state.waiting.get(session_id)
        return self._at_once or waiting is None or waiting.not_before <= self._sender.now()

    def _deliver_left(self, session_id: str, events: list[LeftEvent]) -> None:
        """Deliver the events of a removed session, and discard them with the last."""
        waiting = self._state.waiting.get(session_id)
        if not self._is_due(session_id):
            return
        found = self._sender.behind(session_id, 0)
        if not found.is_readable:  # it may not have been removed
            self._unreadable.add(session_id)
            return
        for one in () if found.is_there else events:
            if waiting is not None and one[0] <= waiting.after:
                continue
            if self._over or not self._is_over_with(delivery_of(one), session_id, one[0] - 1):
                return
            self._state.waiting[session_id] = NOTHING_WAITS.behind(one[0])
            self._keep()
        self._receiver.forget_left(session_id)
        del self._left[session_id]
        if not found.is_there and self._state.waiting.pop(session_id, None) is not None:
            self._keep()

    def _catch_up(self, session_id: str) -> None:
        """Deliver a session's waiting events: all after the last delivered one."""
        after = self._state.waiting[session_id].after
        found = self._sender.behind(session_id, after)
        if not found.is_readable:
            self._unreadable.add(session_id)
            return
        self._caught_up[session_id] = after
        for one in found.events:
            if self._over or not self._tell(one, session_id):
                return
            if one.is_last:
                self._caught_up[session_id] = one.number
                self._state.waiting[session_id] = NOTHING_WAITS.behind(one.number)
                self._unkept = True
                self._keep_told(one)
        if session_id not in self._left:
            self._done.add(session_id)

    def _forget(self, session_ids: Collection[str]) -> None:
        """Remove sessions from the waiting ones, after everything was delivered."""
        for session_id in session_ids:
            self._unkept |= self._state.waiting.pop(session_id, None) is not None
        self._done = self._done - set(session_ids)

    def _deliver_new(self, one: EntryEvent) -> None:
        session_id = one.event.session_id or ""
        is_told = one.number <= self._caught_up.get(session_id, 0)
        if not is_told and session_id in self._done:
            self._forget({session_id})
        if not is_told and session_id not in self._state.waiting:
            self._tell(one, session_id)
        self._feed.passed(one)
        self._unkept = True
        if not is_told:
            self._keep_told(one)

    def _keep_told(self, one: EntryEvent) -> None:
        """Save the receiver's progress, past the event that it was sent."""
        if one.is_last and self._sender.is_chosen(one.event.name):
            self._keep()

    def _tell(self, one: EntryEvent, session_id: str) -> bool:
        sender = self._sender
        if not (sender.is_chosen(one.event.name) and sender.sessions.is_own(session_id)):
            return True  # events from a clone are not delivered
        return self._is_over_with(delivery_of(one), session_id, one.number - 1)

    def _is_over_with(self, delivery: Delivery, session_id: str, after: int) -> bool:
        """Send a delivery; return False if it, and so the later ones, must wait."""
        sender, found = self._sender, self._found
        answer = sender.send_once(delivery)
        if answer.taken:
            self._found = evolve(found, delivered=found.delivered + 1)
            sender.say("debug", "webhook.delivered", delivery)
            return True
        before = self._state.waiting.get(session_id)
        tries, since = 0, sender.now()
        if before is not None and before.after == after and before.tries:
            tries, since = before.tries, before.since
        if answer.refuses_for_good or sender.now() - since >= sender.webhook.kept_s:
            self._found = evolve(found, given_up=found.given_up + 1)
            sender.say("warning", "webhook.given_up", delivery, error=answer.in_words)
            return True
        self._state.waiting[session_id] = Waiting(
            after=after,
            tries=tries + 1,
            since=since,
            not_before=sender.next_try(tries, answer),
            problem=answer.in_words,
        )
        self._found = evolve(found, failed=found.failed + 1, problem=answer.in_words)
        if answer.is_down and not self._at_once:
            self._is_down, self._down_until = True, self._state.waiting[session_id].not_before
        sender.say("info", "webhook.failed", delivery, tries=tries + 1, error=answer.in_words)
        self._keep()
        return False

    def _keep(self) -> None:
        self._state.cursor = self._feed.cursor
        self._unkept = False
        try:
            self._receiver.keep(self._state.encoded())
        except WriteError as error:  # accepted deliveries are sent once more
            self._sender.log.warning(
                "webhook.not_noted", webhook=self._sender.webhook.name, error=str(error)
            )
