"""Calls in threads of their own: with a time limit, side by side, and against each other."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextvars import copy_context
from queue import SimpleQueue
from typing import Generic, TypeVar

from ...base.cancellation import check_cancelled, on_cancel

T = TypeVar("T")
W = TypeVar("W")


class ThreadCall(Generic[T]):
    """A call in a thread of its own, with the context variables of the caller's thread.

    The thread can't be stopped: if nobody waits for the result any more, it is discarded.

    Args:
        work: The call.
        name: The thread's name.
        on_end: Called in the thread when the call has ended.
    """

    def __init__(
        self,
        work: Callable[[], T],
        *,
        name: str,
        on_end: Callable[[ThreadCall[T]], object] = lambda _: None,
    ) -> None:
        self._work = work
        self._on_end = on_end
        self._ended = threading.Event()
        self._woken = threading.Event()
        self.value: T
        self.error: BaseException | None = None
        context = copy_context()
        # A daemon: the end of the process does not wait for a call without a receiver.
        threading.Thread(
            target=context.run, args=(self._run,), name=f"agentforge-{name}", daemon=True
        ).start()

    def _run(self) -> None:
        try:
            self.value = self._work()
        except BaseException as error:  # noqa: BLE001 (raised again where it is awaited)
            self.error = error
        self._ended.set()
        self._woken.set()
        self._on_end(self)

    def wait(self, timeout_s: float) -> bool:
        """Wait for the end of the call; return whether it ended in time.

        Raises:
            OperationCancelled: The waiting thread's operation was cancelled.
        """
        with on_cancel(self._woken.set):
            self._woken.wait(timeout_s)
        if not self._ended.is_set():
            check_cancelled()
        return self._ended.is_set()

    def result(self) -> T:
        """Return the result of an ended call, or raise its exception."""
        if self.error is None:
            return self.value
        try:
            raise self.error
        finally:
            self.error = None  # breaks a cycle: this frame is in its traceback


def ends(works: Sequence[Callable[[], T]], *, name: str) -> Iterator[ThreadCall[T]]:
    """Start calls, each in a thread, and yield them in the order in which they end.

    Raises:
        OperationCancelled: This thread's operation was cancelled; the calls go on.
    """
    ended: SimpleQueue[ThreadCall[T] | None] = SimpleQueue()
    with on_cancel(lambda: ended.put(None)):
        for work in works:
            ThreadCall(work, name=name, on_end=ended.put)
        for _ in works:
            call = ended.get()
            if call is None:
                check_cancelled()
            else:
                yield call


class Rounds(Generic[W, T]):
    """The calls of a map, handed out in order until one fails."""

    def __init__(self, works: Sequence[W], concurrency: int) -> None:
        if concurrency < 1:
            raise ValueError(f"concurrency: expected 1 or more, got {concurrency}")
        self._lock = threading.Lock()
        self._left = iter(enumerate(works))
        self._failed: dict[int, BaseException] = {}
        self._results: dict[int, T] = {}

    def next(self) -> tuple[int, W] | None:
        """Return the number of the next call and the call; None if no more is to be made."""
        with self._lock:
            return None if self._failed else next(self._left, None)

    def ended(self, number: int, result: T) -> None:
        """Store the result of a call."""
        self._results[number] = result

    def failed(self, number: int, error: BaseException) -> None:
        """Store the exception of a call: no more are handed out."""
        with self._lock:
            self._failed[number] = error

    def results(self) -> list[T]:
        """Return the results in order, or raise the first exception in that order."""
        if self._failed:
            try:
                raise self._failed[min(self._failed)]
            finally:
                self._failed = {}  # breaks a cycle: this frame is in its traceback
        return [self._results[number] for number in sorted(self._results)]


def in_rounds(works: Sequence[Callable[[], T]], *, concurrency: int, name: str) -> list[T]:
    """Make calls side by side and return their results in order.

    After a failure no further call is made; those that were started are awaited, since they may
    have cost something, and then the failure is raised.
    """
    rounds: Rounds[Callable[[], T], T] = Rounds(works, concurrency)

    def go_on() -> None:
        while (one := rounds.next()) is not None:
            number, work = one
            try:
                rounds.ended(number, work())
            except BaseException as error:
                rounds.failed(number, error)
                if not isinstance(error, Exception):
                    raise

    if concurrency == 1 or len(works) < 2:
        go_on()
        return rounds.results()
    try:
        for _ in ends([go_on] * min(concurrency, len(works)), name=name):
            pass
    except BaseException as error:
        rounds.failed(-1, error)  # what was not started is not
        raise
    return rounds.results()


def first_result(works: Sequence[Callable[[], T]], *, name: str) -> T:
    """Make calls against each other and return the first result.

    Raises:
        ExceptionGroup: Every call failed.
    """
    errors: list[BaseException] = []
    for call in ends(works, name=name):
        if call.error is None:
            return call.value
        errors.append(call.error)
    raise all_failed(name, errors)


def all_failed(name: str, errors: Sequence[BaseException]) -> BaseExceptionGroup[BaseException]:
    """Return the error of a race that no call won."""
    return BaseExceptionGroup(f"every function of {name} failed", errors)
