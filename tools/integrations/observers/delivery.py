"""One event's delivery to one receiver: its form, its signature, and its retries; pure.

Body and headers follow Standard Webhooks (https://www.standardwebhooks.com), so that a receiver can
verify them with a library in any language.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from attrs import frozen

from ...harness.feed_port import LeftEvent
from ...harness.views.entry_events import EntryEvent

ID_HEADER: Final = "webhook-id"
TIMESTAMP_HEADER: Final = "webhook-timestamp"
SIGNATURE_HEADER: Final = "webhook-signature"
FIRST_PAUSE_S: Final = 5.0
LONGEST_PAUSE_S: Final = 3_600.0
_ENCODED_SECRET: Final = "whsec_"  # noqa: S105 (the prefix of secrets in base64)
_GONE: Final = 410
_WORTH_WAITING: Final = frozenset({0, 408, 425, 429})
"""Statuses that mean that the receiver can accept nothing now; 0 stands for no answer."""
_REDIRECTS: Final = range(300, 400)
_FAULTS_OF_IT: Final = 500


@frozen(kw_only=True)
class WebhookResponse:
    """A receiver's answer.

    Attributes:
        status: The status code; 0 without an answer.
        problem: What went wrong, without an answer; otherwise empty.
        wait_s: The requested waiting time, in seconds, or None.
    """

    status: int
    problem: str = ""
    wait_s: float | None = None

    @property
    def taken(self) -> bool:
        """Whether it accepted the delivery."""
        return self.status // 100 == 2

    @property
    def refuses_for_good(self) -> bool:
        """Whether it will never accept it: it is no longer a receiver."""
        return self.status == _GONE

    @property
    def is_down(self) -> bool:
        """Whether it accepts no delivery at all now."""
        return self.status in _WORTH_WAITING or self.status >= _FAULTS_OF_IT

    @property
    def in_words(self) -> str:
        """The answer in words, or why there was none."""
        if self.status == 0:
            return self.problem
        if self.status in _REDIRECTS:
            return f"it answered {self.status}, and redirects are not followed"
        return f"it answered {self.status}"


@frozen(kw_only=True)
class Delivery:
    """An event for a receiver.

    Attributes:
        id: Identifies the event to the receiver; the same at each try.
        event: The event, as `SessionEvent.to_dict` returns it.
        created: When it happened, in seconds since the epoch.
    """

    id: str
    event: Mapping[str, Any]
    created: float

    @classmethod
    def of_document(cls, delivery_id: str, event: Mapping[str, Any]) -> Delivery:
        """Return the delivery of a stored event; one without a time counts as the oldest."""
        try:
            created = datetime.fromisoformat(str(event.get("timestamp"))).timestamp()
        except ValueError:
            created = 0.0
        return cls(id=delivery_id, event=event, created=created)

    @property
    def session_id(self) -> str | None:
        """The event's session, or None."""
        found = self.event.get("session_id")
        return found if isinstance(found, str) else None

    @property
    def kind(self) -> str:
        """The event's name."""
        return str(self.event.get("type", ""))

    @property
    def body(self) -> bytes:
        """The request body: the same bytes at each try."""
        return json.dumps(self.event, separators=(",", ":")).encode()

    def headers(self, secrets: Iterable[str], *, now: float) -> dict[str, str]:
        """Return the headers of one try.

        Args:
            secrets: The secrets to sign with; unsigned if there are none.
            now: The time, in seconds since the epoch; receivers refuse old requests.

        Raises:
            ValueError: A secret can't be read.
        """
        stamp = str(int(now))
        signatures = [signature(one, self.id, stamp, self.body) for one in secrets]
        found = {
            "Content-Type": "application/json",
            "User-Agent": "agentforge",
            ID_HEADER: self.id,
            TIMESTAMP_HEADER: stamp,
        }
        if signatures:
            found[SIGNATURE_HEADER] = " ".join(signatures)
        return found


def pause_s(tries: int, answer: WebhookResponse, *, chance: float) -> float:
    """Return how long to wait for the next try after a failed one, in seconds.

    Args:
        tries: The number of earlier tries.
        answer: The result of this try.
        chance: From 0 to 1, so that simultaneous failures are not retried simultaneously.
    """
    found = min(FIRST_PAUSE_S * 2.0 ** min(tries, 20), LONGEST_PAUSE_S) * (0.5 + chance / 2)
    if answer.wait_s is not None:
        found = max(found, min(answer.wait_s, LONGEST_PAUSE_S))
    return found


def signature(secret: str, delivery_id: str, stamp: str, body: bytes) -> str:
    """Return the signature of a delivery: HMAC-SHA256 over its id, its time and its body.

    Args:
        secret: The secret; the part after a `whsec_` prefix is base64.
        delivery_id: The delivery's id.
        stamp: The time of the try, in whole seconds since the epoch.
        body: The request body.

    Raises:
        ValueError: The secret starts with `whsec_` but is not valid base64.
    """
    key = secret.encode()
    if secret.startswith(_ENCODED_SECRET):
        try:
            key = base64.b64decode(secret.removeprefix(_ENCODED_SECRET), validate=True)
        except binascii.Error:
            raise ValueError("the secret begins with whsec_ and is not in base64") from None
    signed = f"{delivery_id}.{stamp}.".encode() + body
    return f"v1,{base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()}"


@frozen(kw_only=True)
class Round:
    """The result of one round of deliveries to a receiver.

    Attributes:
        delivered: How many deliveries were accepted.
        failed: How many were not, and wait.
        given_up: How many are not tried any more.
        next_due: When the next one may be sent, in seconds since the epoch; None if none waits.
        busy: Whether another process delivers.
        lags: Whether something saved can't be read yet.
        problem: Why the last one was not accepted, or None.
    """

    delivered: int = 0
    failed: int = 0
    given_up: int = 0
    next_due: float | None = None
    busy: bool = False
    lags: bool = False
    problem: str | None = None


@frozen(kw_only=True)
class Backlog:
    """What waits for a receiver.

    Attributes:
        deliveries: The deliveries.
        next_try: When a rejected delivery is sent again, in seconds since the epoch, or None.
        problem: Why one was not accepted, or None.
    """

    deliveries: tuple[Delivery, ...] = ()
    next_try: float | None = None
    problem: str | None = None


@frozen(kw_only=True)
class Behind:
    """A session's events after some entry.

    Attributes:
        is_readable: Whether the session can be read now, if it exists.
        is_there: Whether it exists.
        events: The events, in order.
    """

    is_readable: bool = True
    is_there: bool = False
    events: tuple[EntryEvent, ...] = ()


def delivery_of(found: EntryEvent | LeftEvent) -> Delivery:
    """Return the delivery of an event."""
    if isinstance(found, EntryEvent):
        return Delivery(
            id=found.id, event=found.event.to_dict(), created=found.event.at.timestamp()
        )
    return Delivery.of_document(found[1], found[2])
