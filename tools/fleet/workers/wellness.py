"""Whether the session processes of a worker live long enough to claim a session.

A process that ends before it has claimed its session gives no information about it: the machine is
short of memory or descriptors, or the installation is broken. Such a worker takes no sessions for a
while, ever longer, and starts a process without one before it takes the next.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from attrs import define, field

from ...base.event_log import get_logger
from .children import ChildEnded
from .settings import FleetSettings

_log = get_logger("agentforge.fleet")


@define(eq=False)
class Wellness:
    """The state of one worker's processes.

    Args:
        settings: The worker's.
        start: Starts a process that waits for a session; raises `ChildEnded`.
        random: Returns a number from 0 up to 1.
        monotonic: The clock, in seconds.
    """

    _settings: FleetSettings
    _start: Callable[[], Awaitable[object]]
    _random: Callable[[], float] = field(kw_only=True)
    _monotonic: Callable[[], float] = field(kw_only=True)
    _in_a_row: int = field(default=0, init=False)
    _until: float = field(default=float("-inf"), init=False)
    _how: str | None = field(default=None, init=False)

    @property
    def problem(self) -> str | None:
        """Why the worker takes no sessions, in words; None if it does."""
        if self._how is None:
            return None
        return (
            f"its session processes end before they have a session ({self._how}, "
            f"{self._in_a_row} in a row); it takes none until one lives"
        )

    def ended(self, how: str) -> float:
        """Record a process that ended before it had its session; return how long none is taken.

        Failures until then count as one.
        """
        now = self._monotonic()
        if now >= self._until:
            self._in_a_row += 1
            self._until = now + self._settings.crash.wait(self._in_a_row, self._random)
        self._how = how
        wait = max(0.0, self._until - now)
        _log.error("fleet.worker.unwell", how=how, in_a_row=self._in_a_row, after_s=round(wait, 3))
        return wait

    def lived(self) -> None:
        """Record that a process had its session."""
        self._in_a_row, self._until, self._how = 0, float("-inf"), None

    async def may_take(self) -> bool:
        """Return whether the worker may take a session now; after a failure, test a process."""
        if self._how is None:
            return True
        if self._monotonic() < self._until:
            return False
        try:
            await self._start()
        except ChildEnded as ended:
            self.ended(ended.how)
            return False
        _log.info("fleet.worker.well", after=self._in_a_row)
        self._how = None  # the count stays until one has a session
        return True
