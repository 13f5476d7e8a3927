"""The status of a question session, and the words for it."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class SessionStatus(StrEnum):
    """The status of a question session."""

    PENDING = "pending"
    COMPLETED = "completed"
    REJECTED = "rejected"
    TIMED_OUT = "timed_out"
    ABANDONED = "abandoned"

    @property
    def is_terminal(self) -> bool:
        """Whether it is final."""
        return self is not SessionStatus.PENDING

    @property
    def word(self) -> str:
        """The word for people, as in a list; files and programs use the value."""
        return _WORDS[self]

    @property
    def phrase(self) -> str:
        """The same, as the end of a sentence whose subject is the session."""
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
