"""The identity of steps: the function that calls them, their order and their ordinals there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import Final, NamedTuple

from ...base.settings.spending import Amount, Limit
from ...harness.steps.entries import step_path
from ...harness.steps.errors import NestedStep


class CallPlace(NamedTuple):
    """The place of a call in its program.

    Attributes:
        scope: The path of the step whose function calls; empty for the program itself.
        call: The number of the call in that scope, from 0.
        path: The path of what is called: "outline#1", "outer#1/inner#2".
    """

    scope: str
    call: int
    path: str


class CallScope:
    """The calls of one run of a function, counted. Usable from any thread.

    Args:
        path: The path of the function's step; empty for the program itself.
        names: The names of that step and of those around it.
    """

    def __init__(self, path: str = "", names: frozenset[str] = frozenset()) -> None:
        self.path = path
        self.names = names
        self._lock = Lock()
        self._calls = 0
        self._ordinals: Counter[str] = Counter()

    def take(self, name: str, count: int = 1) -> list[CallPlace]:
        """Return the places of the next calls, which all have one name.

        Raises:
            InvalidStepName: The name is invalid.
            NestedStep: The function is that of a step of this name.
        """
        if name in self.names:
            raise NestedStep(name=name, path=self.path)
        with self._lock:
            first, before = self._calls, self._ordinals[name]
            places = [
                CallPlace(self.path, first + one, step_path(self.path, name, before + one + 1))
                for one in range(max(count, 1))
            ][:count]
            self._calls += count
            self._ordinals[name] += count
        return places

    def peek(self, name: str) -> CallPlace:
        """Return the place of the next call, if it has this name, without taking it."""
        path = step_path(self.path, name, self._ordinals[name] + 1)
        return CallPlace(self.path, self._calls, path)


class StepAccount:
    """What the function of a step charged while its result was awaited. Usable from any thread.

    Attributes:
        is_open: Whether it is still awaited.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._spent: Amount | None = None
        self.is_open = True

    def charge(self, amount: Amount) -> bool:
        """Charge an amount; return False if the account is closed."""
        with self._lock:
            if self.is_open:
                self._spent = amount.plus(self._spent or Amount())
            return self.is_open

    def close(self) -> Amount | None:
        """Close the account and return what was charged; None if nothing ever was."""
        with self._lock:
            self.is_open = False
            return self._spent


class Frame(NamedTuple):
    """One run of a step's function.

    Attributes:
        owner: The session that the step is of.
        path: The step's path.
        scope: The calls within.
        account: What the function charges.
        key: The idempotency key of the step.
        budget: The limit of what the step costs with all that is inside it; None for no limit.
        outer: The run around it, of any session; None for none.
    """

    owner: object
    path: str
    scope: CallScope
    account: StepAccount
    key: str
    budget: Limit | None
    outer: Frame | None


_running: Final[ContextVar[Frame | None]] = ContextVar("agentforge_step", default=None)


def running_frame(owner: object) -> Frame | None:
    """Return the run of a session's step that this code is a part of, or None."""
    frame = _running.get()
    while frame is not None and frame.owner is not owner:
        frame = frame.outer
    return frame


@contextmanager
def entered(frame: Frame) -> Iterator[None]:
    """Make the block a part of a run."""
    former = _running.set(frame)
    try:
        yield
    finally:
        _running.reset(former)
