"""Where a question session stands, and the words for it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class SessionStatus(StrEnum):
    """Where a question session stands."""

    PENDING = "pending"
    COMPLETED = "completed"
    REJECTED = "rejected"
    TIMED_OUT = "timed_out"
    ABANDONED = "abandoned"

    @property
    def is_terminal(self) -> bool:
        """Whether it has ended, for good."""
        return self is not SessionStatus.PENDING

    @property
    def word(self) -> str:
        """What a person reads for it, as in a list; files and programs have the value."""
        return _WORDS[self]

    @property
    def phrase(self) -> str:
        """The same, as the end of a sentence that begins with the session."""
        return _PHRASES[self]


_WORDS: Final[Mapping[SessionStatus, str]] = MappingProxyType(
    {
        SessionStatus.PENDING: "waiting",
        SessionStatus.COMPLETED: "answered",
        SessionStatus.REJECTED: "rejected",
        SessionStatus.TIMED_OUT: "timed out",
        SessionStatus.ABANDONED: "abandoned",
    }
)
_PHRASES: Final[Mapping[SessionStatus, str]] = MappingProxyType(
    {
        SessionStatus.PENDING: "is waiting for an answer",
        SessionStatus.COMPLETED: "was answered",
        SessionStatus.REJECTED: "was rejected",
        SessionStatus.TIMED_OUT: "has timed out: nobody answered in time",
        SessionStatus.ABANDONED: "was abandoned: nobody waits for the answer any more",
    }
)
