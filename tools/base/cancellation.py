"""Cancel a thread's work from another thread: one token, checked by every wait of the thread.

    token = CancelToken()
    with cancellable(token):            # in the thread
        manager.run_phase(code)         # raises OperationCancelled soon after token.cancel()

Whatever waits or runs for long checks its thread's token: code in the sandbox or in a jail,
programs, answers of a person, agents behind HTTP. What changes files does not: a save that has
started is finished. So a cancelled operation leaves what a killed worker leaves, never more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class OperationCancelled(BaseException):
    """The thread's token was cancelled; raised where the operation waits or would have started.

    Like `KeyboardInterrupt` no `Exception`: handlers of failures must not catch it. The operation
    that was running is not recorded.
    """

    def __init__(self) -> None:
        super().__init__("the operation was cancelled; what was running is not recorded")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (), vars(self)  # copying and pickling call the class with no arguments


class CancelToken:
    """Cancels every operation that runs under it, from any thread; cancellation is permanent.

    A sandbox's execution stops within a tenth of a second and its result says
    `trapped == "cancelled"`. One token may cancel several operations.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancelled = False
        self._callbacks: list[Callable[[], object]] = []

    def cancel(self) -> None:
        """Cancel what runs under this token, and what is started under it later."""
        with self._lock:
            self._cancelled = True
            for callback in self._callbacks:
                callback()

    @property
    def cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._cancelled

    @contextmanager
    def calling(self, callback: Callable[[], object]) -> Iterator[None]:
        """Call `callback` on cancellation: at once if already cancelled, else until the block ends.

        Args:
            callback: Called in the cancelling thread, before `cancel` returns, and never after the
                block ended; must be quick, raise nothing and not use the token.
        """
        with self._lock:
            self._callbacks.append(callback)
            if self._cancelled:
                callback()
        try:
            yield
        finally:
            with self._lock:
                self._callbacks.remove(callback)

    @contextmanager
    def watching(self, event: threading.Event) -> Iterator[None]:
        """Set `event` on cancellation: at once if already cancelled, else until the block ends."""
        with self.calling(event.set):
            yield

    def __repr__(self) -> str:
        return f"CancelToken(cancelled={self.cancelled})"


_current: ContextVar[CancelToken | None] = ContextVar("agentforge_cancel_token", default=None)


def current_token() -> CancelToken | None:
    """Return the token that cancels this thread's work, or None."""
    return _current.get()


def is_cancelled() -> bool:
    """Return whether this thread's operation was cancelled."""
    token = _current.get()
    return token is not None and token.cancelled


def check_cancelled() -> None:
    """Raise if this thread's operation was cancelled.

    Raises:
        OperationCancelled: It was cancelled.
    """
    if is_cancelled():
        raise OperationCancelled


@contextmanager
def cancellable(token: CancelToken) -> Iterator[None]:
    """Run the block under a token: cancelling the token ends the block's work."""
    former = _current.set(token)
    try:
        yield
    finally:
        _current.reset(former)


@contextmanager
def shielded() -> Iterator[None]:
    """Shield the block from cancellation, for cleanup of half-finished work."""
    former = _current.set(None)
    try:
        yield
    finally:
        _current.reset(former)


@contextmanager
def on_cancel(callback: Callable[[], object]) -> Iterator[None]:
    """Call `callback` if this thread's operation is cancelled; see `CancelToken.calling`."""
    token = _current.get()
    if token is None:
        yield
        return
    with token.calling(callback):
        yield


def cancellable_sleep(seconds: float) -> None:
    """Sleep.

    Raises:
        OperationCancelled: This thread's operation was cancelled during the sleep.
    """
    cancelled = threading.Event()
    with on_cancel(cancelled.set):
        cancelled.wait(seconds)
    check_cancelled()
