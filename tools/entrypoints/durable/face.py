"""What the synchronous and the asynchronous session show alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from functools import partial
from html import escape
from itertools import islice
from pathlib import Path
from typing import Any, Final, Union

from ...base.settings.spending import Amount
from ...harness.domain.history_events import dollars
from ...harness.session_domain import SessionState
from ...harness.steps.codec import result_kind
from .core import SessionCore
from .flows import Run, bound
from .options import Budget, StepGiven, StepOptions, micro_usd, step_options
from .scopes import CallPlace, CallScope, running_frame
from .usage import usage_of

_SHOWN: Final = 50
_COLUMNS: Final = ("step", "outcome", "tokens", "time", "attempts")


class SessionFace:
    """A durable session: its steps run once, and what they cost is in its budget."""

    def __init__(
        self,
        core: SessionCore,
        *,
        sleep: Callable[[float], Any],
        returns: object | None,
        opened_part: Callable[..., Any],
    ) -> None:
        self._core = core
        self._sleep = sleep
        self._returns = returns
        self._opened_part = partial(opened_part, core)

    @property
    def id(self) -> str:
        """The session's id, for `agentforge show` and the other commands."""
        return self._core.session_id

    @property
    def key(self) -> str:
        """The caller's key, which leads to this session."""
        return self._core.terms.key

    @property
    def state(self) -> SessionState:
        """Its state, as it was last seen."""
        return SessionState.COMPLETED if self.finished else self._core.session.state

    @property
    def finished(self) -> bool:
        """Whether the program's result is recorded; then no step runs any more."""
        return self._core.finished

    @property
    def result(self) -> Any:
        """The recorded result of a finished program; None before."""
        return self._core.result(self._returns)

    @property
    def budget(self) -> Budget:
        """What is left of its budget; negative if more was spent."""
        tokens, left = self._core.left()
        return Budget(tokens, None if left is None else left / 1_000_000)

    @property
    def idempotency_key(self) -> str:
        """The key of the running step: the same at each attempt, in every process.

        Raises:
            LookupError: No step of this session runs here.
        """
        frame = running_frame(self._core)
        if frame is None:
            raise LookupError("idempotency_key: no step of this session runs here")
        return frame.key

    @property
    def workspace(self) -> Path:
        """The session's folder for files, ready for use."""
        with self._core.managed() as manager:
            return manager.workspace_path()

    def spend(self, usage: object, *, usd: float | None = None) -> None:
        """Charge what was spent: tokens, or what an SDK returned with a response.

        Within a step it is recorded with that step, in one write. Outside of one it is a step of
        its own, so that a restart does not charge it twice. It is charged over the budget, too.

        Args:
            usage: A number of tokens, a usage object or a response.
            usd: The cost in US dollars; by default the one of the response, or by the model's
                price.

        Raises:
            TypeError: It is no usage.
        """
        amount = _amount_of(usage, usd)
        core, frame = self._core, running_frame(self._core)
        if frame is None:
            [place] = core.root.take("spend")
            if core.recorded(place) is None:
                core.look()
                core.note(place, spent=amount)
        elif not frame.account.charge(amount):
            core.charge_late(frame.path, amount)

    def _repr_html_(self) -> str:
        return _as_html(self._core, self.state, self.budget)

    # --------------------------------------------------------------------------- for both faces

    def _places(self, name: str, count: int = 1) -> list[CallPlace]:
        return self._core.scope().take(name, count)

    def _options(self, name: str, function: Callable[..., Any], given: StepGiven) -> StepOptions:
        kind = given.get("returns")
        return step_options(given, result_kind(function, step=name) if kind is None else kind)

    def _until(self, seconds: float) -> datetime:
        return self._core.clock() + timedelta(seconds=seconds)


def raced(core: SessionCore, functions: Sequence[Callable[[], Any]]) -> list[Run]:
    """Return the runs of a race's functions, each with a scope of its own in the running step."""
    frame = running_frame(core)
    runs: list[Run] = []
    if frame is None:
        return runs
    for number, function in enumerate(functions, 1):
        path = f"{frame.path}/racer#{number}"
        scope, key = CallScope(path, frame.scope.names), core.key_of(path)
        own = frame._replace(scope=scope, key=key, budget=None, outer=frame)
        runs.append(Run(bound(function, (), key), own, None, core.session_id))
    return runs


def kind_of_race(functions: Sequence[Callable[..., object]], name: str) -> object | None:
    """Return the type that the result of a race has; None if it is not known."""
    kinds = [result_kind(one, step=name) for one in functions]
    if any(one is None for one in kinds):
        return None
    return Union[tuple(kinds)]  # noqa: UP007 (of any number)


def _amount_of(usage: object, usd: float | None) -> Amount:
    given = None if usd is None else micro_usd(usd)
    if isinstance(usage, int) and not isinstance(usage, bool):
        if usage < 0:
            raise ValueError(f"spend: expected 0 tokens or more, got {usage}")
        return Amount(usage, given or 0)
    found = usage_of(usage)
    if found is None:
        raise TypeError(f"spend: {type(usage).__name__} is no usage; give a number of tokens")
    return found.amount if given is None else found.amount._replace(micro_usd=given)


def _as_html(core: SessionCore, state: SessionState, budget: Budget) -> str:
    """Return a session as HTML; every text of it is escaped."""
    history = core.log.history
    total, spent = core.session.token_budget.total_budget, history.sums.spent
    head = f"{core.session_id}: {state.value}, {budget.tokens:,} of {total:,} tokens left"
    if spent.micro_usd:
        head += f", {dollars(spent.micro_usd)} spent"
    rows = [
        (
            one.path,
            one.outcome,
            f"{one.spent.tokens:,}",
            f"{one.took_us / 1e6:.2f} s",
            str(one.attempts),
        )
        for one in islice(history.records(), max(0, len(history) - _SHOWN), None)
    ]
    lines = ["<table>", f"<caption>{escape(head)}</caption>", _row("th", _COLUMNS)]
    lines += [_row("td", row) for row in rows]
    return "\n".join([*lines, "</table>"])


def _row(tag: str, cells: tuple[str, ...]) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(one)}</{tag}>" for one in cells) + "</tr>"
