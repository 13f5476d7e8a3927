"""Delivers what waits for one receiver: in order, again where it was not taken, in a thread."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from attrs import frozen

from ..clock import Clock, utc_now
from ..durable import WriteError
from ..project.webhooks import Webhook
from .delivery import Answer, Delivery
from .http_post import Post, post
from .outbox import Outbox

_BUSY_PAUSE_S: Final = 0.25
"""How soon to look again for an outbox that another process delivers from, in seconds."""
_LONGEST_WAIT_S: Final = 300.0


@frozen(kw_only=True)
class Round:
    """What became of one look at an outbox.

    Attributes:
        delivered: How many deliveries were taken.
        failed: How many were not, and wait.
        given_up: How many were forgotten.
        next_due: When the next one may be sent, in seconds since the epoch; None where none waits.
        busy: Whether another process delivers.
        problem: Why the last one was not taken, or None.
    """

    delivered: int = 0
    failed: int = 0
    given_up: int = 0
    next_due: float | None = None
    busy: bool = False
    problem: str | None = None


class WebhookSender:
    """Delivers what is in the outbox of one receiver.

    The deliveries of a session are sent in their order: while one waits, those after it do. A
    receiver that takes nothing now (no answer, 408, 425, 429, 5xx) is left alone until the next try
    is due, after 5 seconds at first and up to an hour, or what `Retry-After` asks for. What was
    not taken within `Webhook.kept_s`, or is answered with 410, is forgotten, and logged.

    Args:
        webhook: The receiver.
        outbox: What waits for it.
        log: A structlog logger.
        environment: Where its secrets are, and perhaps its address.
        send: Sends one request.
        clock: The time.
        chance: Gives numbers from 0 to 1.
    """

    def __init__(
        self,
        webhook: Webhook,
        outbox: Outbox,
        *,
        log: Any,
        environment: Mapping[str, str],
        send: Post = post,
        clock: Clock = utc_now,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.webhook: Final = webhook
        self.outbox: Final = outbox
        self._log = log
        self._environment = environment
        self._send = send
        self._clock = clock
        self._chance = chance

    def deliver(self, *, at_once: bool = False, stop: Callable[[], bool] = lambda: False) -> Round:
        """Send what is due, one after the other.

        Args:
            at_once: Whether to send what is not due yet, too.
            stop: Whether to send no more.
        """
        with self.outbox.delivering() as free:
            return self._deliver(at_once=at_once, stop=stop) if free else Round(busy=True)

    def _deliver(self, *, at_once: bool, stop: Callable[[], bool]) -> Round:
        delivered = failed = given_up = 0
        due: list[float] = []
        held: set[str | None] = set()
        problem = None
        for name, delivery in self.outbox.waiting():
            if stop():
                break
            if delivery is None or (delivery.session_id in held and delivery.session_id):
                continue
            if delivery.not_before > self._now() and not at_once:
                held.add(delivery.session_id)
                due.append(delivery.not_before)
                continue
            answer = self._answer(delivery)
            if answer.taken:
                self.outbox.remove(name)
                delivered += 1
                self._log.debug("webhook.delivered", **self._about(delivery))
            elif answer.refuses_for_good or self._is_too_old(delivery):
                self.outbox.remove(name)
                given_up += 1
                self._log.warning(
                    "webhook.given_up", **self._about(delivery), error=answer.in_words
                )
            else:
                waits = delivery.failed(answer, now=self._now(), chance=self._chance())
                self._put_back(name, waits)
                failed += 1
                problem = answer.in_words
                held.add(delivery.session_id)
                due.append(waits.not_before)
                self._log.info("webhook.failed", **self._about(waits), error=problem)
                if answer.is_down and not at_once:
                    break
        return Round(
            delivered=delivered,
            failed=failed,
            given_up=given_up,
            next_due=min(due, default=None),
            problem=problem,
        )

    def send_once(self, delivery: Delivery) -> Answer:
        """Send a delivery that is not kept, as a test of the receiver is."""
        return self._answer(delivery)

    def _answer(self, delivery: Delivery) -> Answer:
        try:
            address = self.webhook.address(self._environment)
            headers = delivery.headers(self.webhook.secrets(self._environment), now=self._now())
        except ValueError as error:
            return Answer(status=0, problem=str(error))
        return self._send(address, delivery.body, headers, timeout_s=self.webhook.timeout_s)

    def _put_back(self, name: str, waits: Delivery) -> None:
        try:
            self.outbox.put_back(name, waits)
        except WriteError as error:  # it waits as it was, and is sent again too soon
            self._log.warning("webhook.not_noted", **self._about(waits), error=str(error))

    def _is_too_old(self, delivery: Delivery) -> bool:
        return self._now() - delivery.created >= self.webhook.kept_s

    def _now(self) -> float:
        return self._clock().timestamp()

    def _about(self, delivery: Delivery) -> dict[str, object]:
        return {
            "webhook": self.webhook.name,
            "delivery": delivery.id,
            "observed": delivery.kind,
            "session_id": delivery.session_id,
            "tries": delivery.tries,
        }


class SenderThread:
    """Has a sender deliver in the background while the process lives.

    The thread begins with the first `wake`. It keeps no process from ending: what it has not
    delivered waits in the outbox for the next one.

    Args:
        sender: The sender.
        log: A structlog logger.
        clock: The time.
    """

    def __init__(self, sender: WebhookSender, *, log: Any, clock: Clock = utc_now) -> None:
        self._sender = sender
        self._log = log
        self._clock = clock
        self._changed = threading.Condition()
        self._fresh: set[str] = set()
        self._is_woken = False
        self._closing_until: float | None = None
        self._thread: threading.Thread | None = None

    def wake(self, name: str | None = None) -> None:
        """Have what waits delivered.

        Args:
            name: What was added to the outbox just now; the close waits for its first try.
        """
        with self._changed:
            if name is not None:
                self._fresh.add(name)
            self._is_woken = True
            self._changed.notify_all()
            if self._thread is None and self._closing_until is None:
                self._thread = threading.Thread(
                    target=self._run, name=f"agentforge-webhook-{self._sender.webhook.name}"
                )
                self._thread.daemon = True
                self._thread.start()

    def close(self, timeout_s: float) -> int:
        """End the thread, once what was added here had its first try, or the time is over.

        Args:
            timeout_s: How long to wait, in seconds.

        Returns:
            How many of those that were added here wait still, for the next process.
        """
        with self._changed:
            self._closing_until = time.monotonic() + timeout_s
            self._changed.notify_all()
            thread = self._thread
        if thread is None:
            return 0
        thread.join(timeout_s)
        with self._changed:
            self._forget_delivered()
            return len(self._fresh)

    def _forget_delivered(self) -> None:
        self._fresh.intersection_update(self._sender.outbox.names())

    def _run(self) -> None:
        while True:
            with self._changed:
                self._is_woken = False
            try:
                found = self._sender.deliver(stop=self._is_over)
            except Exception as error:  # noqa: BLE001 (a thread's end would be seen by nobody)
                self._log.error(
                    "webhook.sender_failed", webhook=self._sender.webhook.name, error=str(error)
                )
                found = Round(next_due=self._clock().timestamp() + _LONGEST_WAIT_S)
            if not self._goes_on(found):
                return

    def _goes_on(self, found: Round) -> bool:
        """Wait until there is something to do; return False when the thread has to end."""
        with self._changed:
            self._forget_delivered()
            if self._closing_until is not None:
                more = self._is_woken or (found.busy and bool(self._fresh))
                if not more or self._is_over():
                    return False
                return self._is_woken or self._wait(_BUSY_PAUSE_S)
            if self._is_woken:
                return True
            if found.busy:
                return self._wait(_BUSY_PAUSE_S)
            if found.next_due is None:
                return self._wait(None)
            left = found.next_due - self._clock().timestamp()
            return self._wait(min(max(left, 0.0), _LONGEST_WAIT_S))

    def _wait(self, seconds: float | None) -> bool:
        if self._closing_until is not None:
            left = self._closing_until - time.monotonic()
            seconds = left if seconds is None else min(seconds, left)
        self._changed.wait(seconds)
        return True

    def _is_over(self) -> bool:
        until = self._closing_until
        return until is not None and time.monotonic() >= until
