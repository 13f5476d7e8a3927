"""What serving a guest costs its host: work, which the guest pays, and memory, up to a limit."""

# Annotations are evaluated here: each field's would be compiled if it were a text.

import errno
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ..engine.clock import TurnEnded

if TYPE_CHECKING:
    from ..engine.engine import Instance

OUT_OF_FILE_CALLS: Final = "out of file calls"

FUEL_OF_A_NAME: Final = 4000
FUEL_OF_A_STEP: Final = 200

STEPS_AT_ONCE: Final = 128
"""So many steps are paid, and the clock looked at, at once; a plain path has no more names."""

BYTES_OF_A_STEP: Final = 1 << 13
"""So many bytes that the host copies or fills with zeros are a step."""


def _nothing() -> None:
    """No one is told of a refusal."""


class Upkeep:
    """Counts what the host does and holds for one guest.

    A step is a component of a path that is walked, an entry of a directory that is looked at, or as
    much. Memory is held before it is allocated.

    Args:
        payer: The instance that pays; None for what serves no guest, or all of them.
        file_calls: The most calls on names of files in one turn; None for no limit.

    Attributes:
        file_calls: How many there were.
        held: The bytes that are held.
        most: The most of them; None for no limit.
        refused: Called when there is no room.
    """

    def __init__(self, payer: "Instance | None" = None, file_calls: int | None = None) -> None:
        self._payer = payer
        self._most_file_calls = file_calls
        self._steps = 0
        self.file_calls = 0
        self.held = 0
        self.most: int | None = None
        self.refused: Callable[[], object] = _nothing

    # ---------------------------------------------------------- work

    def begin_turn(self) -> None:
        """Count for another turn."""
        self._steps = self.file_calls = 0

    def count_file_call(self, count: int = 1) -> None:
        """Count a call that has the host look for a name, or as much as so many do.

        Raises:
            TurnEnded: There were as many as there may be, or the fuel is used up.
        """
        self.file_calls += count
        if self._most_file_calls is not None and self.file_calls > self._most_file_calls:
            self.file_calls = self._most_file_calls
            raise TurnEnded(OUT_OF_FILE_CALLS)
        if self._payer is not None:
            self._payer.charge(count * FUEL_OF_A_NAME)

    def work(self, steps: int = 1) -> None:
        """Count steps that are about to be done; `STEPS_AT_ONCE` are as much as a file call.

        Raises:
            TurnEnded: The turn is due, or there is not so much fuel or so many calls left.
        """
        self._steps += steps
        if self._steps >= STEPS_AT_ONCE and self._payer is not None:
            calls, self._steps = divmod(self._steps, STEPS_AT_ONCE)
            self.look()
            self.count_file_call(calls)
            self._payer.charge(calls * STEPS_AT_ONCE * FUEL_OF_A_STEP)

    def look(self) -> None:
        """End the turn if it is due; for work that the guest does not cause, and so does not pay.

        Raises:
            TurnEnded: It is.
        """
        if self._payer is not None:
            self._payer.clock.check()

    # ---------------------------------------------------------- memory

    @property
    def left(self) -> int | None:
        """How many bytes more may be held; None for no limit."""
        return None if self.most is None else max(0, self.most - self.held)

    def require(self, count: int, number: int = errno.ENOMEM) -> None:
        """Make sure that so many bytes may be held.

        Args:
            count: How many.
            number: How that is refused.

        Raises:
            OSError: There is no room for them.
        """
        if self.most is not None and self.held + count > self.most:
            self.refused()
            raise OSError(number, os.strerror(number))

    def hold(self, count: int, number: int = errno.ENOMEM) -> None:
        """Hold so many bytes, or refuse as `require` does."""
        self.require(count, number)
        self.held += count

    def hold_name(self, count: int) -> None:
        """Hold so many bytes of a name; a quarter of all is left for what lists and removes names.

        Raises:
            OSError: There is no room for them (ENOSPC).
        """
        self.require(count + (self.most or 0) // 4, errno.ENOSPC)
        self.held += count

    def release(self, count: int) -> None:
        """Hold so many bytes less."""
        self.held -= count
