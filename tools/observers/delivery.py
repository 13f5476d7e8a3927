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
from typing import Any, Final

from attrs import evolve, frozen

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
        tries: How often it was sent.
        not_before: When it may be sent again, in seconds since the epoch.
        problem: Why it was not taken the last time, or None.
    """

    id: str
    event: Mapping[str, Any]
    created: float
    tries: int = 0
    not_before: float = 0.0
    problem: str | None = None

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

    def failed(self, answer: Answer, *, now: float, chance: float) -> Delivery:
        """Return the delivery as it waits for its next try.

        Args:
            answer: What became of this one.
            now: The time, in seconds since the epoch.
            chance: From 0 to 1, so that those who failed together don't come together again.
        """
        pause_s = min(FIRST_PAUSE_S * 2.0 ** min(self.tries, 20), LONGEST_PAUSE_S)
        pause_s *= 0.5 + chance / 2
        if answer.wait_s is not None:
            pause_s = max(pause_s, min(answer.wait_s, LONGEST_PAUSE_S))
        return evolve(self, tries=self.tries + 1, not_before=now + pause_s, problem=answer.in_words)

    def encoded(self) -> bytes:
        """Return the delivery as it is kept."""
        kept = {
            "id": self.id,
            "created": self.created,
            "tries": self.tries,
            "not_before": self.not_before,
            "problem": self.problem,
            "event": self.event,
        }
        return (json.dumps(kept) + "\n").encode()

    @classmethod
    def decoded(cls, data: bytes) -> Delivery:
        """Read a delivery as it is kept.

        Raises:
            ValueError: It is none.
        """
        try:
            kept = json.loads(data)
            event = kept["event"]
            if not isinstance(event, dict) or not _is_header_value(kept["id"]):
                raise ValueError("it is no delivery")
            return cls(
                id=kept["id"],
                event=event,
                created=float(kept["created"]),
                tries=int(kept["tries"]),
                not_before=float(kept["not_before"]),
                problem=None if kept["problem"] is None else str(kept["problem"]),
            )
        except (KeyError, TypeError, RecursionError) as error:
            raise ValueError(f"it is no delivery: {type(error).__name__}") from error


def _is_header_value(value: object) -> bool:
    return (
        isinstance(value, str) and value.isascii() and value.isprintable() and 0 < len(value) < 99
    )


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
