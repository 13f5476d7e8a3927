"""What a program may hold when it is suspended: a kind is code before it, and code after it."""

from __future__ import annotations

from typing import Final

from attrs import frozen

NUMBER: Final = "zz"
"""Replaced by a kind's number in its program, so that no two share a name."""

ROUND: Final = "kk"
"""Replaced by the number of the suspension that a use comes after."""


@frozen
class Kind:
    """One kind of object or effect.

    Attributes:
        name: Its name.
        setup: Runs before the first suspension.
        use: Runs after each suspension, and prints what a program prints that was not interrupted.
        prelude: Runs at the top level, whatever the style of the program.
        around: The head of a block that all suspensions are in.
        after: Runs after the block, at the end.
        awaits: Whether it needs a coroutine.
        leads: Whether it comes before others: they begin in the directory that it moves to.
    """

    name: str
    setup: str
    use: str
    prelude: str = ""
    around: str = ""
    after: str = ""
    awaits: bool = False
    leads: bool = False

    def text(self, part: str, number: int, suspension: int = 0) -> str:
        """Return one of its parts, as it is in a program."""
        code: str = getattr(self, part)
        return code.strip("\n").replace(NUMBER, str(number)).replace(ROUND, str(suspension))
