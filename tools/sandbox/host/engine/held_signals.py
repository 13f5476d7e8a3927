"""Hold signals while the main thread runs an execution: handlers run only where they may raise.

Python runs a signal handler on the main thread, at the first instruction after delivery. In two
places an exception from a handler, such as `KeyboardInterrupt`, does damage:

- On entry to an engine callback, before anything there can catch it. `ctypes` then returns
  whatever is on the stack, and the engine takes it for the address of a trap.
- Between acquiring a lock or a slot and entering the block that releases it. It would stay
  acquired for the life of the process.

So the handlers are replaced by one that records the signal and raises nothing. The real ones run
where an execution waits, where a guest's clock is checked, and in the caller's own code.
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
"""What `signal` wraps, without its enums, which add 40 microseconds to each execution."""


class HeldSignals:
    """The process's signal handlers while an execution runs on the main thread.

    On other threads nothing is held: handlers never run there.
    """

    def __init__(self) -> None:
        self.pending: Final[list[int]] = []
        self._handlers: dict[int, _Handler] = {}

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Defer all Python signal handlers until `deliver`, or until the block ends.

        Nested blocks change nothing.

        Raises:
            BaseException: What a handler raised, before or after the block; all handlers are
                restored.
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
        """Within `held`, make a call that handlers may interrupt: the caller's code, or a wait.

        Not a context manager: interrupted between its own steps, it would hold again whenever it is
        garbage-collected.
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
        """Run the handlers of signals received meanwhile; does nothing off the main thread.

        Raises:
            BaseException: What a handler raised; the handlers after it wait for the next call.
        """
        while self.pending and _on_main_thread():
            number = self.pending.pop(0)
            handler = self._handlers.get(number) or _get(number)
            if callable(handler):
                handler(number, None)

    def _hold(self) -> None:
        """Replace the handlers; raise what one of them raises only once all are replaced."""
        found = zip(_NUMBERS, map(_get, _NUMBERS), strict=True)
        self._handlers = {number: one for number, one in found if callable(one)}
        _install(dict.fromkeys(self._handlers, self._note))

    def _note(self, number: int, _frame: FrameType | None) -> None:
        self.pending.append(number)

    def _release(self) -> None:
        """Restore the handlers; raise what one of them raises only once all are restored."""
        handlers, self._handlers = self._handlers, {}
        _install(handlers)


SIGNALS: Final = HeldSignals()
"""The one instance of this process."""


def _on_main_thread() -> bool:
    return threading.get_ident() == threading.main_thread().ident


def _install(handlers: Mapping[int, _Handler]) -> None:
    """Set handlers; raise what a previous one raises only once all are set."""
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
