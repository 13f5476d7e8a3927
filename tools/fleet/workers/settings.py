"""All settings of a fleet's worker."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from attrs import Attribute, field, frozen, validators

from ...harness.submission import DEFAULT_QUEUE, is_queue

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


LIMIT_HEARTBEATS: Final = 5
"""The default number of missed heartbeats after which others take a worker's sessions over."""
MAINTENANCE_QUEUE: Final = "agentforge-maint"

_RECONNECT: Final = Backoff(wait_s=0.5, factor=2.0, at_most_s=10.0)
_CRASH: Final = Backoff(wait_s=0.5, factor=2.0, at_most_s=60.0)
_REFUSED: Final = Backoff(wait_s=10.0, factor=2.0, at_most_s=600.0)


def _positive(_instance: object, attribute: Attribute[Any], value: float) -> None:
    if not value > 0:
        raise ValueError(f"{attribute.name}: {value} is not above 0")


def _names(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(values)


def _queues(_instance: object, _attribute: object, value: tuple[str, ...]) -> None:
    for name in value:
        if not is_queue(name) or name == MAINTENANCE_QUEUE:
            raise ValueError(f"queue: {name[:40]!r} is no name of a queue")


@frozen(kw_only=True)
class FleetSettings:
    """The settings of a worker. Times are in seconds.

    Attributes:
        concurrency: How many sessions it runs at once, each in a process of its own.
        queues: The queues that it takes jobs from.
        allowed: What its person allows submitters, as queue names of such sessions.
        heartbeat_s: The interval of its heartbeats.
        limit_s: The time without a heartbeat after which others take its sessions over; the same
            for all workers of a fleet.
        poll_s: The interval of polls for jobs and stops without a notification.
        grace_s: How long sessions may continue after a request to stop; then they are handed back.
        stop_s: How long a session's process may take to stop before it is killed.
        give_up_s: How long it tries to reach the store before it ends with an error.
        reconnect: The waits between these attempts.
        crashes: How often a session's process may end by itself, in a row and in one phase, before
            the session is paused.
        crash: The session's waits after each; also how long the worker takes no sessions if its
            processes end before they have one.
        refused: The waits of a session that another allowed worker refused.
        busy_s: The wait before another look at a session that is run outside the fleet.
        jobs_kept_hours: How long ended jobs are retained, in hours.
        sweep_at: When sessions that lost their job are searched for, in cron syntax with seconds as
            a sixth field; None for never.
        prune_at: When ended sessions are pruned, in cron syntax; None for never.
    """

    concurrency: int = field(default=1, validator=_positive)
    queues: tuple[str, ...] = field(default=(DEFAULT_QUEUE,), converter=_names, validator=_queues)
    allowed: tuple[str, ...] = field(default=(), converter=_names)
    heartbeat_s: float = field(default=2.0, validator=_positive)
    limit_s: float = field(default=10.0, validator=_positive)
    poll_s: float = field(default=5.0, validator=_positive)
    grace_s: float = field(default=60.0, validator=validators.ge(0))
    stop_s: float = field(default=5.0, validator=_positive)
    give_up_s: float = field(default=300.0, validator=_positive)
    reconnect: Backoff = _RECONNECT
    crashes: int = field(default=10, validator=_positive)
    crash: Backoff = _CRASH
    refused: Backoff = _REFUSED
    busy_s: float = field(default=5.0, validator=_positive)
    jobs_kept_hours: float = field(default=72.0, validator=_positive)
    sweep_at: str | None = "* * * * * */10"
    prune_at: str | None = "15 3 * * *"

    def __attrs_post_init__(self) -> None:
        if self.limit_s < 2 * self.heartbeat_s:
            raise ValueError(
                f"limit: {self.limit_s:g} s is less than two heartbeats of {self.heartbeat_s:g} s"
            )

    @property
    def served(self) -> tuple[str, ...]:
        """The queues that it takes jobs from, including those for what it is allowed."""
        also = [f"{queue}@{needs}" for queue in self.queues for needs in self.allowed]
        return (*self.queues, *also)

    @property
    def maintenance_poll_s(self) -> float:
        """The interval of polls for maintenance."""
        return min(1.0, self.heartbeat_s)
