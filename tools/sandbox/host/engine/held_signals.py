"""Signals while a guest runs on the main thread: their handlers run only where they may raise.

Python runs a signal's handler on the main thread, at the first instruction after it was delivered.
While a guest computes that is the entry of a callback of the engine's, before anything there can
catch what the handler raises, as `KeyboardInterrupt`. `ctypes` then returns to the engine whatever
lies on the stack, and the engine takes it for the address of a trap. So the handlers are replaced
by one that takes note and raises nothing, and run where a callback looks at its clock.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from types import FrameType
from typing import Any, Final

_Handler = Callable[[int, FrameType | None], Any]

_NUMBERS: Final = sorted(map(int, signal.valid_signals()))
_C: Final = import_module("_signal")
_get: Final[Callable[[int], Any]] = _C.getsignal
_set: Final[Callable[[int, Any], Any]] = _C.signal
"""What `signal` wraps, without its enums: with them each turn takes 40 microseconds longer."""


class HeldSignals:
    """The handlers of the process's signals, while a guest runs on its main thread.

    On any other thread nothing is held: handlers never run there.
    """

    def __init__(self) -> None:
        self.pending: Final[list[int]] = []
        self._handlers: dict[int, _Handler] = {}

    def hold(self) -> None:
        """Have every handler that is Python's wait until `deliver`.

        Raises:
            BaseException: What a handler raised before it was replaced; all are.
        """
        if threading.get_ident() != threading.main_thread().ident:
            return
        found = zip(_NUMBERS, map(_get, _NUMBERS), strict=True)
        self._handlers.update((number, one) for number, one in found if callable(one))
        _install(dict.fromkeys(self._handlers, self._note))

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.pending.append(number)

    def deliver(self) -> None:
        """Run the handlers of what came meanwhile.

        Raises:
            BaseException: What a handler raised; those after it wait for the next call.
        """
        while self.pending:
            number = self.pending.pop(0)
            self._handlers[number](number, None)

    def release(self) -> None:
        """Have every handler run as before; what came meanwhile waits for `deliver`.

        Raises:
            BaseException: What a handler raised that ran at once; all are as before.
        """
        _install(self._handlers)

    @contextlib.contextmanager
    def released(self) -> Iterator[None]:
        """Run code of the caller's within a callback, which a handler may interrupt as ever."""
        if not self._handlers:
            yield
            return
        self.release()
        try:
            self.deliver()
            yield
        finally:
            self.hold()


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
