"""The findings of `agentforge doctor`."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TypeAlias

from attrs import frozen


class Status(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@frozen
class Finding:
    """The result of one check.

    Attributes:
        status: How it ended.
        message: What was found.
        advice: What to do about it, or None.
    """

    status: Status
    message: str
    advice: str | None = None


Check: TypeAlias = (
    tuple[str, Callable[[], Finding | None]] | tuple[str, Callable[[], Finding | None], str]
)
"""A check by its name: it returns None where there is nothing to check. Where advice is beside it,
an error of the library, or a value that it refuses, is a finding with that advice."""


def ok(message: str) -> Finding:
    """Return a finding that asks for nothing."""
    return Finding(Status.OK, message)


def warn(message: str, advice: str) -> Finding:
    """Return a finding that is worth attention."""
    return Finding(Status.WARN, message, advice)


def fail(message: str, advice: str) -> Finding:
    """Return a finding that keeps sessions from working."""
    return Finding(Status.FAIL, message, advice)
