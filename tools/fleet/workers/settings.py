"""What a worker of the fleet is set to, in one place."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from attrs import Attribute, field, frozen, validators

from ...harness.submission import DEFAULT_QUEUE, is_queue
from .backoff import Backoff

LIMIT_HEARTBEATS: Final = 5
"""How many heartbeats a worker may miss before others take its sessions over, by default."""
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
    """What a worker does, and how long it waits for what. Times are in seconds.

    Attributes:
        concurrency: How many sessions it runs at once, each in a process of its own.
        queues: The queues that it takes jobs of.
        allowed: What its person allows those who submit, as the queues of such sessions have it.
        heartbeat_s: How often it says that it is alive.
        limit_s: After how long without a heartbeat others take its sessions over; all workers of
            a fleet agree on it.
        poll_s: How often it looks for jobs and stops where no notification came.
        grace_s: How long sessions may go on once it was asked to stop; then they are handed back.
        stop_s: How long a session's process may take to stop before it is killed.
        give_up_s: How long it tries to reach the store before it ends with an error.
        reconnect: How it waits between these attempts.
        crashes: How often a session's process may end by itself, in a row and in one phase, before
            the session is paused.
        crash: How long the session waits after each; and how long the worker takes no sessions
            where its processes end before they have one.
        refused: How long a session waits that another worker of those that may was not allowed.
        busy_s: After how long a session is looked at again that is run outside the fleet.
        jobs_kept_hours: How long jobs that have ended are kept, in hours.
        sweep_at: When sessions that lost their job are looked for, as cron has it with seconds as a
            sixth field; None for never.
        prune_at: When ended sessions are pruned, as cron has it; None for never.
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
        """The queues whose jobs it takes: also of sessions that need what it is allowed."""
        also = [f"{queue}@{needs}" for queue in self.queues for needs in self.allowed]
        return (*self.queues, *also)

    @property
    def maintenance_poll_s(self) -> float:
        """How often it looks for maintenance to do."""
        return min(1.0, self.heartbeat_s)
