"""Tools that a server offers."""

from __future__ import annotations

from enum import Enum
from typing import Final

from attrs import frozen

from .errors import UnknownToolSet


class ToolSet(Enum):
    """Set of tools that are offered together."""

    SESSIONS = "sessions"
    CODE = "code"
    QUESTIONS = "questions"
    WORKSPACES = "workspaces"

    @classmethod
    def named(cls, names: str) -> frozenset[ToolSet]:
        """Return the sets with these comma-separated names.

        Raises:
            UnknownToolSet: There is no set of a name.
        """
        known = [one.value for one in cls]
        given = [one.strip() for one in names.split(",")]
        unknown = [one for one in given if one not in known]
        if unknown:
            raise UnknownToolSet(unknown[0], known)
        return frozenset(cls(one) for one in given)


@frozen(kw_only=True)
class Offer:
    """Selection of the tools that a server offers.

    Attributes:
        sets: The sets of tools.
        read_only: Whether it offers only tools that change nothing.
    """

    sets: frozenset[ToolSet] = frozenset(ToolSet)
    read_only: bool = False


EVERYTHING: Final = Offer()
