"""Findings of `agentforge doctor`."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TypeAlias

from attrs import frozen


class Status(StrEnum):
    """Outcome of a check."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@frozen
class Finding:
    """Result of one check.

    Attributes:
        status: The outcome.
        message: What was found.
        advice: What to do about it, or None.
    """

    status: Status
    message: str
    advice: str | None = None


Check: TypeAlias = (
    tuple[str, Callable[[], Finding | None]] | tuple[str, Callable[[], Finding | None], str]
)
"""Named check; it returns None if there is nothing to check. With advice beside it, an error of the
library, or a value that it refuses, becomes a finding with that advice."""


def ok(message: str) -> Finding:
    """Return a finding that needs no action."""
    return Finding(Status.OK, message)


def warn(message: str, advice: str) -> Finding:
    """Return a finding that needs attention."""
    return Finding(Status.WARN, message, advice)


def fail(message: str, advice: str) -> Finding:
    """Return a finding that prevents sessions from working."""
    return Finding(Status.FAIL, message, advice)
