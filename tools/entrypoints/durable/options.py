"""What a caller sets for a step or a session: retries, budgets and reservations."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypedDict

from ...base.clock import Clock, utc_now
from ...base.settings.spending import Amount, Limit

if TYPE_CHECKING:
    from pathlib import Path

    from ...harness import QuestionChannel, SessionObserver
    from ...harness.session_ports import LocalSessions

_MICRO: Final = 1_000_000


class Retry(NamedTuple):
    """How often a step is tried, and the waits between.

    Attributes:
        attempts: How often at the most, 1 or more.
        wait_s: The wait after the first attempt, in seconds.
        factor: How much longer each further wait is.
        most_wait_s: The longest wait, in seconds.
        on: The exceptions after which it is tried again.
    """

    attempts: int = 1
    wait_s: float = 1.0
    factor: float = 2.0
    most_wait_s: float = 60.0
    on: tuple[type[Exception], ...] = (Exception,)

    def wait_after(self, attempts: int) -> float:
        """Return the wait after a number of attempts, in seconds."""
        wait = self.wait_s
        for _ in range(attempts - 1):
            if wait >= self.most_wait_s:
                break
            wait *= self.factor
        return min(wait, self.most_wait_s)


class Budget(NamedTuple):
    """The most that may be spent; None where there is no limit.

    Attributes:
        tokens: In tokens.
        usd: In US dollars.
    """

    tokens: int | None = None
    usd: float | None = None

    @property
    def limit(self) -> Limit:
        """It as the limit of a log."""
        return Limit(self.tokens, None if self.usd is None else micro_usd(self.usd))


class Spend(NamedTuple):
    """What one call may cost at the most.

    Attributes:
        tokens: In tokens.
        usd: In US dollars.
    """

    tokens: int = 0
    usd: float = 0.0

    @property
    def amount(self) -> Amount:
        """It as an amount of a log."""
        return Amount(self.tokens, micro_usd(self.usd))


class SessionTerms(NamedTuple):
    """What a caller of `session` asked for; see there."""

    workflow: str
    key: str | Callable[..., str] | None = None
    budget: Budget = Budget()
    goal: str | None = None
    title: str | None = None
    tags: Iterable[str] = ()
    inputs: object = None
    returns: object | None = None
    store: LocalSessions | Path | str | None = None
    wait_s: float = 0.0
    patience_s: float | None = None
    channel: QuestionChannel | None = None
    observers: Iterable[SessionObserver] = ()
    clock: Clock = utc_now
    sleep: Callable[[float], Any] | None = None


class StepOptions(NamedTuple):
    """How one step runs.

    Attributes:
        retry: How often it is tried.
        timeout_s: How long an attempt may take, in seconds; None for any time.
        spend: What an attempt may cost; None if it reserves nothing.
        budget: The limit of what it costs with all that is inside it; None for no limit.
        final: The exceptions that are recorded, so that the step is not run again.
        kind: The type of its result; None if it is not known.
    """

    retry: Retry = Retry()
    timeout_s: float | None = None
    spend: Amount | None = None
    budget: Limit | None = None
    final: tuple[type[Exception], ...] = ()
    kind: object | None = None


class StepGiven(TypedDict, total=False):
    """How a caller wants a step to run; each may be omitted.

    Attributes:
        retry: How often it is tried, or how exactly; once by default.
        timeout: How long an attempt may take, in seconds. A function that is no coroutine function
            goes on in its thread, which can't be stopped: its result is discarded, and what it
            spends is charged.
        spend: What an attempt may cost, at most: reserved before it, given back after it.
        budget: The most that the step may cost with the steps inside it.
        final: Exceptions that are results: recorded and raised as `StepFailed` at every start.
        returns: The type of the result; by default the annotation of the function.
    """

    retry: int | Retry
    timeout: float | None
    spend: int | Spend | None
    budget: int | Budget | None
    final: tuple[type[Exception], ...]
    returns: object | None


def step_options(given: StepGiven, kind: object | None) -> StepOptions:
    """Return what a caller gave, checked.

    Raises:
        TypeError: It is not among these options.
        ValueError: A number is out of its range.
    """
    unknown = given.keys() - StepGiven.__annotations__
    if unknown:
        raise TypeError(
            f"a step has no option {', '.join(sorted(unknown))}; it was not called. Keywords of "
            "its function go into it with functools.partial"
        )
    retry, timeout = given.get("retry", 1), given.get("timeout")
    spend, budget = given.get("spend"), given.get("budget")
    tries = Retry(retry) if isinstance(retry, int) else retry
    reserved = Spend(spend) if isinstance(spend, int) else spend
    bound = Budget(budget) if isinstance(budget, int) else budget
    if tries.attempts < 1 or tries.wait_s < 0 or tries.factor < 1:
        raise ValueError(f"retry: expected 1 attempt or more, and waits of 0 s or more: {tries}")
    if timeout is not None and timeout <= 0:
        raise ValueError(f"timeout: expected more than 0 s, got {timeout}")
    for name, amount in (("spend", reserved), ("budget", bound)):
        if amount is not None and any(one is not None and one < 0 for one in amount):
            raise ValueError(f"{name}: expected 0 or more, got {amount}")
    return StepOptions(
        tries,
        timeout,
        None if reserved is None else reserved.amount,
        None if bound is None else bound.limit,
        given.get("final", ()),
        kind,
    )


def micro_usd(usd: float) -> int:
    """Return an amount of US dollars in millionths."""
    return round(usd * _MICRO)
