"""Flows: what a session does, written once for threads and for event loops.

A flow is a generator. It yields what it needs done, and is resumed with the result or with the
exception; only the one who drives it knows how to wait.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Generator
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

from ...harness.steps.errors import StepTimeout
from .scopes import Frame, entered
from .thread_calls import ThreadCall

T = TypeVar("T")
_KEY: Final = "idempotency_key"


class Io(NamedTuple):
    """A short call that reads or writes: it blocks."""

    call: Callable[[], Any]


class Pause(NamedTuple):
    """A wait."""

    seconds: float


class Run(NamedTuple):
    """A run of a step's function.

    Attributes:
        function: The function, without arguments.
        frame: Its run.
        timeout_s: How long it may take, in seconds; None for any time.
        session_id: The session, for messages.
    """

    function: Callable[[], Any]
    frame: Frame
    timeout_s: float | None
    session_id: str

    @property
    def timeout(self) -> StepTimeout:
        """The error of a run that took longer."""
        return StepTimeout(self.session_id, path=self.frame.path, timeout_s=self.timeout_s or 0.0)


Flow = Generator[Io | Pause | Run, Any, T]


def drive(flow: Flow[T], *, sleep: Callable[[float], object]) -> T:
    """Run a flow in this thread and return its result."""
    try:
        need = next(flow)
        while True:
            try:
                found = _done(need, sleep)
            except BaseException as error:  # noqa: BLE001 (the flow decides)
                need = flow.throw(error)
            else:
                need = flow.send(found)
    except StopIteration as end:
        result: T = end.value
        return result


def _done(need: Io | Pause | Run, sleep: Callable[[float], object]) -> object:
    if isinstance(need, Run):
        return _ran(need)
    return need.call() if isinstance(need, Io) else sleep(need.seconds)


def _ran(run: Run) -> object:
    if run.timeout_s is None:
        return called(run)
    call = ThreadCall(partial(called, run), name=run.frame.path)
    if not call.wait(run.timeout_s):
        raise run.timeout
    return call.result()


def called(run: Run) -> Any:
    """Call a step's function as a part of its run."""
    with entered(run.frame):
        return run.function()


def bound(function: Callable[..., Any], args: tuple[Any, ...], key: str) -> Callable[[], Any]:
    """Return a function with its arguments, and with the idempotency key if it takes that."""
    if _takes_key(function):
        return partial(function, *args, **{_KEY: key})
    return partial(function, *args)


def _takes_key(function: Callable[..., Any]) -> bool:
    code = getattr(function, "__code__", None)
    if code is not None and not hasattr(function, "__wrapped__"):
        first = code.co_argcount
        return _KEY in code.co_varnames[first : first + code.co_kwonlyargcount]
    try:
        parameter = inspect.signature(function).parameters.get(_KEY)
    except (TypeError, ValueError):  # a builtin without one
        return False
    return parameter is not None and parameter.kind is parameter.KEYWORD_ONLY
