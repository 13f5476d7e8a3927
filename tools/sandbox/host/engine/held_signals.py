"""Signals while an execution runs on the main thread: their handlers run only where they may raise.

Python runs a signal's handler on the main thread, at the first instruction after it was delivered.
Two places can't bear what a handler raises there, as `KeyboardInterrupt`:

- The entry of a callback of the engine's, before anything there can catch it. `ctypes` then returns
  to the engine whatever lies on the stack, and the engine takes it for the address of a trap.
- A step of Python's between taking a lock or a slot and the block that gives it back. It would be
  taken for as long as the process lives.

So the handlers are replaced by one that takes note and raises nothing, and run where an execution
waits, where a guest's clock is looked at, and in the caller's own code.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from types import FrameType
from typing import Any, Final, TypeVar

_T = TypeVar("_T")
_Handler = Callable[[int, FrameType | None], Any]

_NUMBERS: Final = sorted(map(int, signal.valid_signals()))
_C: Final = import_module("_signal")
_get: Final[Callable[[int], Any]] = _C.getsignal
_set: Final[Callable[[int, Any], Any]] = _C.signal
"""What `signal` wraps, without its enums: with them each execution takes 40 microseconds longer."""


class HeldSignals:
    """The handlers of the process's signals, while an execution runs on its main thread.

    On any other thread nothing is held: handlers never run there.
    """

    def __init__(self) -> None:
        self.pending: Final[list[int]] = []
        self._handlers: dict[int, _Handler] = {}

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Have every handler that is Python's wait until `deliver`, or until the block ends.

        Within a block that holds them already, nothing changes.

        Raises:
            BaseException: What a handler raised, before the block or after it; all are as before.
        """
        if self._handlers or not _on_main_thread():
            yield
            return
        try:
            self._hold()
            yield
        finally:
            self._release()
            self.deliver()

    def interruptible(self, call: Callable[[], _T]) -> _T:
        """Within `held`, make a call that a handler may interrupt: of the caller's code, or a wait.

        No context manager: interrupted between its own steps, it would hold again when it is
        collected, whenever that is.
        """
        if not self._handlers or not _on_main_thread():
            return call()
        try:
            self._release()
            self.deliver()
            return call()
        finally:
            self._hold()

    def deliver(self) -> None:
        """Run the handlers of what came meanwhile; on another than the main thread, nothing.

        Raises:
            BaseException: What a handler raised; those after it wait for the next call.
        """
        while self.pending and _on_main_thread():
            number = self.pending.pop(0)
            handler = self._handlers.get(number) or _get(number)
            if callable(handler):
                handler(number, None)

    def _hold(self) -> None:
        """Replace the handlers; what one of them raises meanwhile is raised once all are."""
        found = zip(_NUMBERS, map(_get, _NUMBERS), strict=True)
        self._handlers = {number: one for number, one in found if callable(one)}
        _install(dict.fromkeys(self._handlers, self._note))

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.pending.append(number)

    def _release(self) -> None:
        """Put the handlers back; what one of them raises meanwhile is raised once all are."""
        handlers, self._handlers = self._handlers, {}
        _install(handlers)


SIGNALS: Final = HeldSignals()
"""Those of this process."""


def _on_main_thread() -> bool:
    return threading.get_ident() == threading.main_thread().ident


def _install(handlers: Mapping[int, _Handler]) -> None:
    """Set handlers; what one of those before raises is raised once all are set."""
    left, raised = list(handlers.items()), None
    while left:
        try:
            while left:
                _set(*left[-1])
                left.pop()
        except BaseException as error:  # noqa: BLE001 (raised below)
            raised = error
    if raised is not None:
        raise raised
