"""Run a guest where the stack suffices: on the caller's thread, or on a dedicated one."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TypeVar

from . import native
from .held_signals import SIGNALS
from .loaded_engine import HOST_ROOM, WASM_STACK

if TYPE_CHECKING:
    import queue

_T = TypeVar("_T")

_NEEDED: Final = WASM_STACK + HOST_ROOM
_THREAD_STACK: Final = _NEEDED + HOST_ROOM
_MOST_KEPT: Final = 8

_making: Final = threading.Lock()


class _GuestThread:
    """A thread with a large stack that runs one piece of work after another."""

    def __init__(self) -> None:
        import queue  # imported late: most processes need no such thread

        self._work: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        with _making:  # the size is process-wide, so reset it at once
            before = threading.stack_size(_THREAD_STACK)
            try:
                thread = threading.Thread(target=self._run, name="sandbox-guest", daemon=True)
                thread.start()
            finally:
                threading.stack_size(before)

    def _run(self) -> None:
        while (work := self._work.get()) is not None:
            work()

    def end(self) -> None:
        """Stop the thread once its current work is done."""
        self._work.put(None)

    def do(self, work: Callable[[], _T], interrupted: Callable[[], object]) -> _T:
        """Run work on the thread and return its result."""
        working = threading.Lock()
        results: list[_T] = []
        errors: list[BaseException] = []

        def run() -> None:
            try:
                results.append(work())
            except BaseException as error:  # noqa: BLE001 (raised in the waiting thread)
                errors.append(error)
            working.release()

        def wait() -> None:
            with working:
                pass

        context = contextvars.copy_context()
        working.acquire()  # no Event: a handler that raises during its entry leaves it locked
        try:
            self._work.put(lambda: context.run(run))
            SIGNALS.interruptible(wait)
        except BaseException:  # Ctrl-C: end the guest before passing the exception on
            interrupted()
            wait()
            raise
        if errors:
            raise errors[0]
        return results[0]


_idle: Final[list[_GuestThread]] = []
_resting: Final = threading.Lock()


def with_room(work: Callable[[], _T], interrupted: Callable[[], object]) -> _T:
    """Run work that enters a guest on a stack that is large enough.

    Args:
        work: The work.
        interrupted: Called if the calling thread is interrupted while another runs the work; makes
            the work end soon.

    Raises:
        BaseException: What the work raised.
    """
    left = native.stack_left()
    if left is not None and left >= _NEEDED:
        return work()
    with _resting:
        thread = _idle.pop() if _idle else None
    thread = thread or _GuestThread()
    try:
        return thread.do(work, interrupted)
    finally:
        with _resting:
            kept = len(_idle) < _MOST_KEPT
            if kept:
                _idle.append(thread)
        if not kept:
            thread.end()
