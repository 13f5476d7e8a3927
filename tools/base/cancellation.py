"""Ending what a thread does, from another thread: one token, which every wait of the thread obeys.

    token = CancelToken()
    with cancellable(token):            # in the thread
        manager.run_phase(code)         # raises OperationCancelled soon after token.cancel()

What waits or runs for long looks at the token of its thread: code in the sandbox or in a jail,
programs, answers of a person, agents behind HTTP. What changes files does not: a save that has
begun is finished. So a cancelled operation leaves what a killed worker leaves, never more.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class OperationCancelled(BaseException):
    """The thread's token was cancelled; raised where the operation waited, or would have begun.

    Like `KeyboardInterrupt` no `Exception`: what handles failures must not take it for one. What
    was running is not recorded.
    """

    def __init__(self) -> None:
        super().__init__("the operation was cancelled; what was running is not recorded")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (), vars(self)  # copies, and other processes, call it as all others do


class CancelToken:
    """Ends every operation it was given to, from any thread; once cancelled it stays so.

    A sandbox's execution stops within a tenth of a second and its result says
    `trapped == "cancelled"`. One token may end several operations.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cancelled = False
        self._callbacks: list[Callable[[], object]] = []

    def cancel(self) -> None:
        """End what runs under this token, and what is started under it later."""
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
        """Have something called if this token is, or until the block ends becomes, cancelled.

        Args:
            callback: Called in the thread that cancels, before `cancel` returns, and never after
                the block was left; must be quick, raise nothing and not use the token.
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
        """Have an event set if this token is, or until the block ends becomes, cancelled."""
        with self.calling(event.set):
            yield

    def __repr__(self) -> str:
        return f"CancelToken(cancelled={self.cancelled})"


_current: ContextVar[CancelToken | None] = ContextVar("agentforge_cancel_token", default=None)


def current_token() -> CancelToken | None:
    """Return the token that ends what this thread does; None where nothing does."""
    return _current.get()


def is_cancelled() -> bool:
    """Return whether this thread's operation was cancelled."""
    token = _current.get()
    return token is not None and token.cancelled


def check_cancelled() -> None:
    """Return if this thread's operation may go on.

    Raises:
        OperationCancelled: It was cancelled.
    """
    if is_cancelled():
        raise OperationCancelled


@contextmanager
def cancellable(token: CancelToken) -> Iterator[None]:
    """Have what the block does end when a token is cancelled."""
    former = _current.set(token)
    try:
        yield
    finally:
        _current.reset(former)


@contextmanager
def shielded() -> Iterator[None]:
    """Have what the block does go on whatever is cancelled: it puts right what was left halfway."""
    former = _current.set(None)
    try:
        yield
    finally:
        _current.reset(former)


@contextmanager
def on_cancel(callback: Callable[[], object]) -> Iterator[None]:
    """Have something called if this thread's operation is cancelled; see `CancelToken.calling`."""
    token = _current.get()
    if token is None:
        yield
        return
    with token.calling(callback):
        yield


def cancellable_sleep(seconds: float) -> None:
    """Wait for some seconds.

    Raises:
        OperationCancelled: This thread's operation was cancelled before they were over.
    """
    cancelled = threading.Event()
    with on_cancel(cancelled.set):
        cancelled.wait(seconds)
    check_cancelled()
