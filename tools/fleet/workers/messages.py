"""The lines that a worker and its session processes write to each other: one JSON object each.

The worker writes once where the sessions are and what it is allowed, and then which one to run. A
process writes its log events, that it has claimed the session, and finally how the run ended.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum
from typing import Any, Final

from attrs import asdict, frozen

from ...workflows.workflow import RunRetry

MAX_LINE_BYTES: Final = 1 << 20
MAX_REASON_CHARS: Final = 2000


class Ending(Enum):
    """How a look at a session ended."""

    COMPLETED = "completed"
    """The session is complete."""
    PAUSED = "paused"
    """It is paused, and continues when a person or a program resumes it."""
    MAY_PASS = "may_pass"  # noqa: S105 (no password)
    """It is paused for a reason that may pass by itself."""
    FENCED = "fenced"
    """Another worker has it; this one's unsaved work was discarded."""
    ABSENT = "absent"
    """It does not exist, or has ended."""
    BUSY = "busy"
    """It is being run outside the fleet."""
    NOT_ALLOWED = "not_allowed"
    """Its work needs what this worker's person did not allow it; the session is unchanged."""
    UNAVAILABLE = "unavailable"
    """The store, the disk or a lock failed in a way that may pass; the session is unchanged."""
    STOPPED = "stopped"
    """It was stopped; what was running is not recorded."""
    FAILED = "failed"
    """An error that will not pass by itself. The session is paused, where that could be saved."""


@frozen(kw_only=True)
class Look:
    """How a look at a session ended, and what it did.

    Attributes:
        ending: How.
        reason: Why, in words, or None.
        cause: Why a run stopped, as its history records it, or None.
        tokens: The tokens it spent.
        phases: The duration of each phase that was finished, in seconds, by name; once for each
            time.
        retry: The retry policy of the session's workflow; None if unknown.
        needs: What the worker was not allowed, as the name of the allowed workers' queue, or None.
        after_s: In how many seconds the session goes on by itself, or None.
    """

    ending: Ending
    reason: str | None = None
    cause: str | None = None
    tokens: int = 0
    phases: tuple[tuple[str, float], ...] = ()
    retry: RunRetry | None = None
    needs: str | None = None
    after_s: float | None = None


def encode(message: Mapping[str, Any]) -> bytes:
    """Encode a message as a line."""
    return json.dumps(message, default=str).encode() + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    """Decode a line to a message.

    Raises:
        ValueError: It is not a message.
    """
    try:
        return dict(json.loads(line).items())
    except AttributeError as error:
        raise ValueError("a message is an object") from error


def look_message(look: Look) -> dict[str, Any]:
    """Convert a look to a message."""
    plain = asdict(look)
    plain["ending"] = look.ending.value
    plain["reason"] = None if look.reason is None else look.reason[:MAX_REASON_CHARS]
    return {"look": plain}


def look_of(message: Mapping[str, Any]) -> Look:
    """Convert a message to a look.

    Raises:
        ValueError: The message is not a look.
    """
    try:
        given = dict(message["look"])
        retry = given["retry"]
        given |= {
            "ending": Ending(given["ending"]),
            "phases": tuple((str(name), float(seconds)) for name, seconds in given["phases"]),
            "retry": None if retry is None else RunRetry(**retry),
        }
        return Look(**given)
    except (KeyError, TypeError) as error:
        raise ValueError(f"no look: {error}") from error
