"""One event on its way to one receiver: its form, its signature, and when it is tried again; pure.

Body and headers are those of Standard Webhooks (https://www.standardwebhooks.com), so that a
receiver can verify them with a library of any language.
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

ID_HEADER: Final = "webhook-id"
TIMESTAMP_HEADER: Final = "webhook-timestamp"
SIGNATURE_HEADER: Final = "webhook-signature"
FIRST_PAUSE_S: Final = 5.0
LONGEST_PAUSE_S: Final = 3_600.0
_ENCODED_SECRET: Final = "whsec_"  # noqa: S105 (what a secret begins with that is in base64)
_GONE: Final = 410
_WORTH_WAITING: Final = frozenset({0, 408, 425, 429})
"""Answers by which the receiver itself can't take anything now; 0 is none."""
_REDIRECTS: Final = range(300, 400)
_FAULTS_OF_IT: Final = 500


@frozen(kw_only=True)
class Answer:
    """What a receiver said.

    Attributes:
        status: The status code; 0 where there was none.
        problem: What went wrong, where there was none; else empty.
        wait_s: How long it asks to wait, in seconds, or None.
    """

    status: int
    problem: str = ""
    wait_s: float | None = None

    @property
    def taken(self) -> bool:
        """Whether it took the delivery."""
        return self.status // 100 == 2

    @property
    def refuses_for_good(self) -> bool:
        """Whether it will never take it: it is no receiver any more."""
        return self.status == _GONE

    @property
    def is_down(self) -> bool:
        """Whether it takes nothing now, whatever it is sent."""
        return self.status in _WORTH_WAITING or self.status >= _FAULTS_OF_IT

    @property
    def in_words(self) -> str:
        """What it said, or why it said nothing."""
        if self.status == 0:
            return self.problem
        if self.status in _REDIRECTS:
            return f"it answered {self.status}, and redirects are not followed"
        return f"it answered {self.status}"


@frozen(kw_only=True)
class Delivery:
    """An event for a receiver.

    Attributes:
        id: By which a receiver knows one that it has had: it is the same at each try.
        event: The event, as `SessionEvent.to_dict` has it.
        created: When it happened, in seconds since the epoch.
    """

    id: str
    event: Mapping[str, Any]
    created: float

    @classmethod
    def of_document(cls, delivery_id: str, event: Mapping[str, Any]) -> Delivery:
        """Make the delivery of an event that was kept; one without a time is older than any."""
        try:
            created = datetime.fromisoformat(str(event.get("timestamp"))).timestamp()
        except ValueError:
            created = 0.0
        return cls(id=delivery_id, event=event, created=created)

    @property
    def session_id(self) -> str | None:
        """The session that it is of, or None."""
        found = self.event.get("session_id")
        return found if isinstance(found, str) else None

    @property
    def kind(self) -> str:
        """What happened, by its name."""
        return str(self.event.get("type", ""))

    @property
    def body(self) -> bytes:
        """What is sent: the same bytes at each try."""
        return json.dumps(self.event, separators=(",", ":")).encode()

    def headers(self, secrets: Iterable[str], *, now: float) -> dict[str, str]:
        """Return the headers of one try.

        Args:
            secrets: What it is signed with; not signed where there are none.
            now: The time, in seconds since the epoch; a receiver refuses what is too old.

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


def pause_s(tries: int, answer: Answer, *, chance: float) -> float:
    """Return how long to wait for the next try of what was not taken, in seconds.

    Args:
        tries: How often it was sent before this time.
        answer: What became of it.
        chance: From 0 to 1, so that those who failed together don't come together again.
    """
    found = min(FIRST_PAUSE_S * 2.0 ** min(tries, 20), LONGEST_PAUSE_S) * (0.5 + chance / 2)
    if answer.wait_s is not None:
        found = max(found, min(answer.wait_s, LONGEST_PAUSE_S))
    return found


def signature(secret: str, delivery_id: str, stamp: str, body: bytes) -> str:
    """Return the signature of a delivery: HMAC-SHA256 over its id, its time and its body.

    Args:
        secret: The secret; one that begins with `whsec_` is in base64.
        delivery_id: The delivery's id.
        stamp: The time of the try, in whole seconds since the epoch.
        body: What is sent.

    Raises:
        ValueError: The secret begins with `whsec_` and is not in base64.
    """
    key = secret.encode()
    if secret.startswith(_ENCODED_SECRET):
        try:
            key = base64.b64decode(secret.removeprefix(_ENCODED_SECRET), validate=True)
        except binascii.Error:
            raise ValueError("the secret begins with whsec_ and is not in base64") from None
    signed = f"{delivery_id}.{stamp}.".encode() + body
    return f"v1,{base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()}"
