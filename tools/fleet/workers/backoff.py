"""Waits between attempts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from attrs import field, frozen, validators

_JITTER: Final = 0.2
"""The maximum fraction by which a wait is shortened at random, so that many do not end at once."""


@frozen(kw_only=True)
class Backoff:
    """Waits that grow, up to a limit, in seconds.

    Attributes:
        wait_s: The first.
        factor: The ratio of each to the one before.
        at_most_s: The longest.
    """

    wait_s: float = field(validator=validators.ge(0))
    factor: float = field(default=2.0, validator=validators.ge(1))
    at_most_s: float = field(default=600.0, validator=validators.ge(0))

    def wait(self, failures: int, random: Callable[[], float]) -> float:
        """Return how long to wait after a number of failures in a row.

        Args:
            failures: The number, 1 or more.
            random: Returns a number from 0 up to 1.
        """
        exponent = min(failures - 1, 64)  # further powers exceed any limit
        longest = min(self.wait_s * self.factor**exponent, self.at_most_s)
        return longest * (1 - _JITTER * random())
