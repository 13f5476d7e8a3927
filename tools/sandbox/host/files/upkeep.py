"""The host's cost of serving a guest: work, which the guest pays, and limited memory."""

# No deferred annotations here: as strings, each field's would have to be compiled.

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
"""Steps charged, and clock checks made, at once; a plain path has no more names."""

BYTES_OF_A_STEP: Final = 1 << 13
"""Bytes that the host copies or zeroes per step."""


def _nothing() -> None:
    """Ignore a refusal."""


class Upkeep:
    """Counts what the host does and holds for one guest.

    A step is a walked path component, a directory entry looked at, or comparable work. Memory is
    reserved before it is allocated.

    Args:
        payer: The instance that pays; None for what serves no guest, or all of them.
        file_calls: The most calls on names of files in one turn; None for no limit.

    Attributes:
        file_calls: How many there were.
        held: The reserved bytes.
        most: Their limit; None for no limit.
        refused: Called when a reservation is refused.
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

    def begin_turn(self, file_calls: int = 0) -> None:
        """Start counting for another turn, from the calls that count as made before it."""
        self._steps, self.file_calls = 0, file_calls

    def count_file_call(self, count: int = 1) -> None:
        """Count a call that makes the host look up a name, or comparable work.

        Raises:
            TurnEnded: The limit is reached, or the fuel is used up.
        """
        self.file_calls += count
        if self._most_file_calls is not None and self.file_calls > self._most_file_calls:
            self.file_calls = self._most_file_calls
            raise TurnEnded(OUT_OF_FILE_CALLS)
        if self._payer is not None:
            self._payer.charge(count * FUEL_OF_A_NAME)

    def work(self, steps: int = 1) -> None:
        """Count steps about to be done; `STEPS_AT_ONCE` of them equal a file call.

        Raises:
            TurnEnded: The turn is due, or fuel or calls are used up.
        """
        self._steps += steps
        if self._steps >= STEPS_AT_ONCE and self._payer is not None:
            calls, self._steps = divmod(self._steps, STEPS_AT_ONCE)
            self.look()
            self.count_file_call(calls)
            self._payer.charge(calls * STEPS_AT_ONCE * FUEL_OF_A_STEP)

    def look(self) -> None:
        """End the turn if it is due; for work the guest does not cause and does not pay for.

        Raises:
            TurnEnded: The turn is due.
        """
        if self._payer is not None:
            self._payer.clock.check()

    # ---------------------------------------------------------- memory

    @property
    def left(self) -> int | None:
        """The number of bytes that may still be reserved; None for no limit."""
        return None if self.most is None else max(0, self.most - self.held)

    def require(self, count: int, number: int = errno.ENOMEM) -> None:
        """Check that this many bytes may be reserved.

        Args:
            count: The number of bytes.
            number: The errno of a refusal.

        Raises:
            OSError: The limit does not allow them.
        """
        if self.most is not None and self.held + count > self.most:
            self.refused()
            raise OSError(number, os.strerror(number))

    def hold(self, count: int, number: int = errno.ENOMEM) -> None:
        """Reserve bytes, or refuse as `require` does."""
        self.require(count, number)
        self.held += count

    def hold_name(self, count: int) -> None:
        """Reserve bytes for a name; leave a quarter for listing and removing names.

        Raises:
            OSError: There is no room for them (ENOSPC).
        """
        self.require(count + (self.most or 0) // 4, errno.ENOSPC)
        self.held += count

    def release(self, count: int) -> None:
        """Release reserved bytes."""
        self.held -= count
