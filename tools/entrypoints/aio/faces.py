"""Make asynchronous methods of synchronous ones, with the same parameters and docstrings."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from itertools import islice
from typing import Any, Concatenate, Final, Generic, ParamSpec, Self, TypeVar

from ...harness.events.event_feed import EventFeed
from .event_feed import AsyncEventFeed
from .turns import Turns

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
