"""The run of a step: reserve, call, record; and what its exceptions mean."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime
from functools import partial
from itertools import count
from typing import Any, Final, NamedTuple

from ...base.settings.spending import Amount, Limit
from ...harness.errors import HarnessError
from ...harness.steps.codec import check_kind, decode, encode
from ...harness.steps.entries import name_in
from ...harness.steps.errors import LeadLost, ResultNotKept, StepFailed, StepTimeout
from ...harness.steps.step_log import OWN
from .core import SessionCore, StepBody
from .flows import Flow, Io, Pause, Run, bound
from .options import StepOptions
from .scopes import CallPlace, CallScope, Frame, StepAccount, running_frame
from .usage import usage_of

_REASON_CHARS: Final = 500


class Attempt(NamedTuple):
    """One attempt at a step.

    Attributes:
        place: The step.
        frame: The run of its function.
        number: Which attempt, from 1.
        started: When it started.
    """

    place: CallPlace
    frame: Frame
    number: int
    started: datetime


def step(
    core: SessionCore,
    place: CallPlace,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    options: StepOptions,
) -> Flow[Any]:
    """Return the result of a step: the recorded one, or that of a run."""
    record = core.recorded(place)
    if record is not None:
        return (yield from core.replayed(record, options.kind))
    check_kind(options.kind, step=place.path)
    outer = running_frame(core)
    names = (core.root if outer is None else outer.scope).names | {name_in(place.path)}
    key = core.key_of(place.path)
    work = bound(function, args, key)
    for number in count(1):
        scope, account = CallScope(place.path, names), StepAccount()
        frame = Frame(core, place.path, scope, account, key, options.budget, outer)
        yield Io(core.look)
        yield Io(partial(reserve, core, frame, options.spend))
        attempt = Attempt(place, frame, number, core.clock())
        try:
            value = yield Run(work, frame, options.timeout_s, core.session_id)
        except GeneratorExit:
            raise
        except BaseException as error:
            yield Io(partial(_record_failure, core, attempt, error, options))
            if not _is_tried_again(error, number, options):
                raise
            yield Pause(options.retry.wait_after(number))
        else:
            return (yield Io(partial(_record_result, core, attempt, value, options)))
    raise AssertionError


def reserve(core: SessionCore, frame: Frame, amount: Amount | None) -> None:
    """Reserve what a call may cost; one that names no cost is refused once all is overspent.

    Raises:
        BudgetReached: A budget does not cover it.
    """
    bounds = [] if core.budget == Limit() else [(OWN, core.budget)]
    within: Frame | None = frame
    while within is not None:
        if within.owner is core and within.budget is not None:
            bounds.append((within.path, within.budget))
        within = within.outer
    if amount is not None or _is_overspent(core, bounds):
        amount = amount or Amount()
        held = core.log.history.held()
        core.terms.limits.require(frame.path, core.spent_by_root(), held, amount)
        core.log.reserve(frame.path, amount, limits=bounds)


def _is_overspent(core: SessionCore, bounds: Iterable[tuple[str, Limit]]) -> bool:
    left = [*core.left()]
    for path, limit in bounds:
        if path != OWN:
            used = core.log.history.inside.get(path, Amount())
            pairs = zip(limit, used, strict=True)
            left += [None if most is None else most - one for most, one in pairs]
    return any(one is not None and one < 0 for one in left)


def _record_result(
    core: SessionCore, attempt: Attempt, value: object, options: StepOptions
) -> object:
    """Record a result and return it as it is read back, so that no run differs from another."""
    path = attempt.place.path
    spent = attempt.frame.account.close()
    if spent is None:
        usage = usage_of(value)
        spent = Amount() if usage is None else usage.amount
    try:
        body = StepBody(*encode(value, options.kind, workspace=core.workspace, step=path))
        result = decode(*body, options.kind, workspace=core.workspace, step=path)
    except ResultNotKept as error:
        raise _failed_for_good(core, attempt, error, spent) from error
    core.record(attempt.place, body, spent, attempt.started, attempt.number)
    return result


def _record_failure(
    core: SessionCore, attempt: Attempt, error: BaseException, options: StepOptions
) -> None:
    """Record a failed attempt with its cost; raise if that is final."""
    spent, path = attempt.frame.account.close() or Amount(), attempt.place.path
    ours = _is_ours(error)
    if isinstance(error, LeadLost):
        return
    if not ours and isinstance(error, options.final):
        raise _failed_for_good(core, attempt, error, spent) from error
    if not ours or spent != Amount() or path in core.log.history.reserved:
        text = ": ".join(_described(error))
        call, started = attempt.place.call, attempt.started
        core.log.attempt_failed(path, call, error=text, spent=spent, started=started)
        core.write_if_due(spent)


def _failed_for_good(
    core: SessionCore, attempt: Attempt, error: BaseException, spent: Amount
) -> StepFailed:
    name, reason = _described(error)
    body = StepBody.failed(name, reason)
    core.record(attempt.place, body, spent, attempt.started, attempt.number)
    path = attempt.place.path
    return StepFailed(core.session_id, path=path, error_type=name, reason=reason)


def _is_tried_again(error: BaseException, attempts: int, options: StepOptions) -> bool:
    retry = options.retry
    return (
        not _is_ours(error)
        and attempts < retry.attempts
        and isinstance(error, Exception)
        and isinstance(error, retry.on)
    )


def _is_ours(error: BaseException) -> bool:
    """Return whether an exception is about the session itself: neither retried nor final."""
    return isinstance(error, HarnessError) and not isinstance(error, StepTimeout)


def _described(error: BaseException) -> tuple[str, str]:
    """Return the qualified name of an exception's class, and its text."""
    kind = type(error)
    place = "" if kind.__module__ == "builtins" else f"{kind.__module__}."
    text = str(error)[:_REASON_CHARS].encode("utf-8", "backslashreplace").decode()
    return f"{place}{kind.__qualname__}", text
