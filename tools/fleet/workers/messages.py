"""The lines that a worker and its session processes write to each other: one JSON object each.

The worker writes where the sessions are and what it is allowed, once, and then which one to run. A
process writes what it logs meanwhile, that it has claimed the session, and then how the run ended.
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
    """It is paused, and goes on when a person or a program has it go on."""
    MAY_PASS = "may_pass"  # noqa: S105 (no password)
    """It is paused for a reason that may pass by itself."""
    FENCED = "fenced"
    """Another worker has it; what this one had not saved was thrown away."""
    ABSENT = "absent"
    """It is not there, or has ended."""
    BUSY = "busy"
    """Somebody runs it outside the fleet."""
    NOT_ALLOWED = "not_allowed"
    """Its work needs what this worker's person did not allow it; the session is as it was."""
    UNAVAILABLE = "unavailable"
    """The store, the disk or a lock failed in a way that may pass; the session is as it was."""
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
        cause: Why a run stopped, as its history says, or None.
        tokens: What it spent, in tokens.
        phases: How long each phase took that was finished, in seconds, by name; as often as it was.
        retry: How the session's workflow wants to be attempted again; None where it is not known.
        needs: What the worker was not allowed, as the queue of those that are has it, or None.
    """

    ending: Ending
    reason: str | None = None
    cause: str | None = None
    tokens: int = 0
    phases: tuple[tuple[str, float], ...] = ()
    retry: RunRetry | None = None
    needs: str | None = None


def encode(message: Mapping[str, Any]) -> bytes:
    """Return a message as a line."""
    return json.dumps(message, default=str).encode() + b"\n"


def decode(line: bytes) -> dict[str, Any]:
    """Return the message of a line.

    Raises:
        ValueError: It is none.
    """
    try:
        return dict(json.loads(line).items())
    except AttributeError as error:
        raise ValueError("a message is an object") from error


def look_message(look: Look) -> dict[str, Any]:
    """Return how a look ended, as a message."""
    plain = asdict(look)
    plain["ending"] = look.ending.value
    plain["reason"] = None if look.reason is None else look.reason[:MAX_REASON_CHARS]
    return {"look": plain}


def look_of(message: Mapping[str, Any]) -> Look:
    """Return how a look ended.

    Raises:
        ValueError: The message does not say it.
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
