"""Make asynchronous methods of synchronous ones, with the same parameters and docstrings.

The calls of one manager run one at a time, and few short calls run at once.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from contextvars import ContextVar
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, ParamSpec, Self, TypeVar
from weakref import WeakKeyDictionary

from attrs import define

from ...harness import SessionManager
from ...harness.events.event_feed import EventFeed
from .thread_call import call_in_thread

if TYPE_CHECKING:
    from anyio import CapacityLimiter, Lock
    from anyio.lowlevel import RunVar

    from ...harness.views.entry_events import EntryEvent


class AsyncEventFeed(AsyncIterator["EntryEvent"]):
    """Asynchronous iterator over the events of sessions; waits for each next event.

    Gives the guarantees of `EventFeed`. An event found while the waiting task is being cancelled
    is not lost: the next call returns it.

    Args:
        feed: The feed to read, in threads.
    """

    def __init__(self, feed: EventFeed) -> None:
        self._feed = feed
        self._found: list[EntryEvent] = []
        self._cursor = feed.cursor

    @property
    def cursor(self) -> str:
        """The position after the last event returned; see `EventFeed.cursor`."""
        return self._cursor if self._found else self._feed.cursor

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> EntryEvent:
        """Return the next event, waiting for it; see `EventFeed.__next__`."""
        if not self._found:
            self._cursor = self._feed.cursor
            await call_in_thread(self._read, name="events")
        if not self._found:
            raise StopAsyncIteration
        return self._found.pop()

    def _read(self) -> None:
        self._found.extend([one for one in [next(self._feed, None)] if one is not None])


SHORT_CALLS: Final = 40
"""The maximum number of short calls that one event loop runs in threads at the same time."""

_T = TypeVar("_T")


@cache
def _limiters() -> RunVar[CapacityLimiter]:
    """Return the variable that holds each event loop's limiter of short calls."""
    from anyio.lowlevel import RunVar

    return RunVar("agentforge_short_calls")


@cache
def _locks() -> RunVar[WeakKeyDictionary[SessionManager, Lock]]:
    """Return the variable that holds each event loop's locks of managers."""
    from anyio.lowlevel import RunVar

    return RunVar("agentforge_manager_locks")


def _limiter() -> CapacityLimiter:
    from anyio import CapacityLimiter

    found = _limiters().get(None)
    if found is None:
        found = CapacityLimiter(SHORT_CALLS)
        _limiters().set(found)
    return found


def _new_lock() -> Lock:
    """Return a fair lock for the tasks of an event loop."""
    from anyio import Lock

    return Lock()


@define
class _Block:
    """Block that holds a manager's turn, with the lock for the calls inside it."""

    manager: SessionManager
    lock: Lock
    outer: _Block | None
    is_over: bool = False


_current: Final[ContextVar[_Block | None]] = ContextVar("agentforge_turns_block", default=None)


class Turns:
    """Runs calls in threads, at the same time; for objects that are thread-safe."""

    async def call(self, work: Callable[[], _T], *, name: str, waits: bool = False) -> _T:
        """Run a call; see `ManagerTurns.call`."""
        if waits:
            return await call_in_thread(work, name=name)
        async with _limiter():
            return await call_in_thread(work, name=name)


class ManagerTurns(Turns):
    """Runs the calls to a manager one at a time, in the order in which they were awaited.

    A manager is not thread-safe: all objects in an event loop that call the same manager in
    threads share its turns.
    """

    def __init__(self, manager: SessionManager) -> None:
        self.manager: Final = manager

    async def call(self, work: Callable[[], _T], *, name: str, waits: bool = False) -> _T:
        """Run a call when its turn comes, and return its result.

        Args:
            work: The call.
            name: The name of the thread, also used in the log.
            waits: Whether the call may wait for code, an agent or a person. It then does not count
                against the limit of short calls.
        """
        async with self._lock():
            return await super().call(work, name=name, waits=waits)

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[ManagerTurns]:
        """Hold the manager's turn for a block; calls inside the block run one after another.

        Calls of a task started in the block count as inside until the block ends.
        """
        async with self._lock():
            block = _Block(self.manager, _new_lock(), outer=_current.get())
            former = _current.set(block)
            try:
                yield self
            finally:
                block.is_over = True
                _current.reset(former)

    def _lock(self) -> Lock:
        block = _current.get()
        while block is not None:
            if block.manager is self.manager and not block.is_over:
                return block.lock
            block = block.outer
        locks = _locks().get(None)
        if locks is None:
            locks = WeakKeyDictionary()
            _locks().set(locks)
        return locks.setdefault(self.manager, _new_lock())


PREFETCHED: Final = 64
"""The maximum number of results an iteration reads ahead of its caller."""

_S = TypeVar("_S")
_P = ParamSpec("_P")
_R = TypeVar("_R")


def in_thread(
    method: Callable[Concatenate[_S, _P], _R], *, waits: bool = False
) -> Callable[Concatenate[Any, _P], Coroutine[Any, Any, _R]]:
    """Return a coroutine function that runs a method in a thread when its turn comes.

    Args:
        method: The method of the synchronous class.
        waits: See `ManagerTurns.call`.
    """

    @functools.wraps(method)
    async def call(face: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        work = functools.partial(method, face._wrapped, *args, **kwargs)
        turns: Turns = face._turns
        return await turns.call(work, name=method.__name__, waits=waits)

    return call


def in_turn(
    method: Callable[Concatenate[_S, _P], AbstractContextManager[_R]],
) -> Callable[Concatenate[Any, _P], AbstractAsyncContextManager[_R]]:
    """Return an asynchronous form of a method that returns a context manager.

    The context holds the manager's turn from entry to exit. Its exit always completes: a
    cancellation inside the block passes through the context manager's own `__exit__`, as any
    other exception does.
    """

    @functools.wraps(method)
    @asynccontextmanager
    async def enter(face: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> AsyncIterator[_R]:
        from anyio import CancelScope

        work = functools.partial(method, face._wrapped, *args, **kwargs)
        async with face._turns.kept() as turns:
            context = await turns.call(work, name=method.__name__)
            with CancelScope(shield=True):
                value = await turns.call(context.__enter__, name=method.__name__)
            leave = functools.partial(context.__exit__, None, None, None)
            try:
                yield value
            except BaseException as error:
                leave = functools.partial(context.__exit__, type(error), error, None)
                raise
            finally:
                with CancelScope(shield=True):
                    await turns.call(leave, name=method.__name__)

    return enter


def iterated(
    method: Callable[Concatenate[_S, _P], Iterator[_R]],
) -> Callable[Concatenate[Any, _P], AsyncIterator[_R]]:
    """Return an asynchronous form of a method that returns an iterator."""

    @functools.wraps(method)
    def iterate(face: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> AsyncIterator[_R]:
        start = functools.partial(method, face._wrapped, *args, **kwargs)
        return Prefetching(start, face._turns, name=method.__name__)

    return iterate


def fed(
    method: Callable[Concatenate[_S, _P], EventFeed],
) -> Callable[Concatenate[Any, _P], AsyncEventFeed]:
    """Return an asynchronous form of a method that returns a feed.

    The feed takes no turn of the manager: other calls run while the next event is awaited.
    """

    @functools.wraps(method)
    def follow(face: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> AsyncEventFeed:
        return AsyncEventFeed(method(face._wrapped, *args, **kwargs))

    return follow


class Prefetching(Generic[_R]):
    """Asynchronous iterator that reads batches of results in threads; other calls run in between.

    A class rather than an asynchronous generator, so that an iteration left early has nothing to
    close in the loop.
    """

    def __init__(self, start: Callable[[], Iterator[_R]], turns: Turns, *, name: str) -> None:
        """Store the arguments; no read yet.

        Args:
            start: Creates the iterator, in a thread.
            turns: Each read takes one of these turns.
            name: The name of the thread, also used in the log.
        """
        self._start = start
        self._turns = turns
        self._name = name
        self._found: Iterator[_R] | None = None
        self._ahead: deque[_R] = deque()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> _R:
        if not self._ahead:
            self._ahead.extend(await self._turns.call(self._read, name=self._name))
        if not self._ahead:
            raise StopAsyncIteration
        return self._ahead.popleft()

    def _read(self) -> list[_R]:
        if self._found is None:
            self._found = self._start()
        return list(islice(self._found, PREFETCHED))
