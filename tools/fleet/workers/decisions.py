"""Decides how a job continues after its look at a session; pure, the worker acts on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from attrs import frozen

from ...workflows.workflow import RunRetry
from .messages import Ending, Look
from .settings import Backoff, FleetSettings

_QUIET: Final = frozenset({Ending.COMPLETED, Ending.PAUSED, Ending.FENCED, Ending.ABSENT})
_USUAL: Final = RunRetry()


@frozen
class Done:
    """The job has succeeded; a later event enqueues another."""


@frozen
class LookAgain:
    """Another job looks at the session later.

    Attributes:
        after_s: The delay in seconds.
    """

    after_s: float


@frozen
class GiveUp:
    """The job has failed. The session is paused, or is to be.

    Attributes:
        reason: Why.
        pause: Whether it is still to be paused.
    """

    reason: str
    pause: bool


Decision = Done | LookAgain | GiveUp


def counts_as_failure(look: Look) -> bool:
    """Return whether a look counts among those in a row that did not get a phase passed."""
    return look.ending in {Ending.MAY_PASS, Ending.UNAVAILABLE}


def decide_after_refusal(
    refusals: int | None, settings: FleetSettings, random: Callable[[], float]
) -> Decision:
    """Decide about a job whose session needs what this worker is not allowed.

    The next look waits in the queue of the workers that are allowed it: immediately if none of them
    had the session yet; if one of them refuses it all the same, after an ever longer delay.

    Args:
        refusals: How many workers of that queue refused it; None: the fleet no longer works on it.
        settings: The worker's.
        random: Returns a number from 0 up to 1.
    """
    if refusals is None:
        return Done()
    return LookAgain(0.0 if refusals == 0 else settings.refused.wait(refusals, random))


def decide(
    look: Look, failures: int, settings: FleetSettings, random: Callable[[], float]
) -> Decision:
    """Decide about a job after its look.

    Args:
        look: How its look ended.
        failures: How many looks in a row did not get the phase passed, including this one.
        settings: The worker's.
        random: Returns a number from 0 up to 1.
    """
    if look.ending in _QUIET:
        return Done() if look.after_s is None else LookAgain(look.after_s)
    if look.ending is Ending.FAILED:
        return GiveUp(look.reason or "it failed", pause=False)
    if look.ending is Ending.STOPPED:
        return LookAgain(0.0)
    if look.ending is Ending.BUSY:
        return LookAgain(Backoff(wait_s=settings.busy_s).wait(1, random))
    retry = look.retry or _USUAL
    if failures <= retry.attempts:
        waits = Backoff(wait_s=retry.wait_s, factor=retry.factor, at_most_s=retry.at_most_s)
        return LookAgain(waits.wait(failures, random))
    return _after_the_last(look, retry, random)


def _after_the_last(look: Look, retry: RunRetry, random: Callable[[], float]) -> Decision:
    if look.ending is Ending.MAY_PASS:
        return Done()  # it is paused, with its reason, as after any other stop
    # A long outage of the store is no fault of the session, which stays unchanged.
    return LookAgain(Backoff(wait_s=retry.at_most_s).wait(1, random))


def decide_after_crash(
    ended: str, failures: int, settings: FleetSettings, random: Callable[[], float]
) -> Decision:
    """Decide about a job whose session's process ended by itself.

    Args:
        ended: How, in words.
        failures: How many looks in a row did not get the phase passed, including this one.
        settings: The worker's.
        random: Returns a number from 0 up to 1.
    """
    if failures < settings.crashes:
        return LookAgain(settings.crash.wait(failures, random))
    return GiveUp(
        f"the process that ran it {ended}, {failures} times in a row in this phase", pause=True
    )
