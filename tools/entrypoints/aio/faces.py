"""Methods of a synchronous class as methods of an asynchronous one: same parameters, same words."""

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
"""How many results an iteration has read ahead of its caller, at most."""

_S = TypeVar("_S")
_P = ParamSpec("_P")
_R = TypeVar("_R")


def in_thread(
    method: Callable[Concatenate[_S, _P], _R], *, waits: bool = False
) -> Callable[Concatenate[Any, _P], Coroutine[Any, Any, _R]]:
    """Return a method as a coroutine function that runs it in a thread when it is its turn.

    Args:
        method: The method of the synchronous class.
        waits: As of `ManagerTurns.call`.
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
    """Return a method that gives a context manager as one that gives an asynchronous one.

    It has the manager's turn from its beginning to its end. Its end is never cut off: what is
    cancelled within the block leaves by the context manager's own way for a block that raised.
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
    """Return a method that gives an iterator as one that gives an asynchronous iterator."""

    @functools.wraps(method)
    def iterate(face: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> AsyncIterator[_R]:
        start = functools.partial(method, face._wrapped, *args, **kwargs)
        return Prefetching(start, face._turns, name=method.__name__)

    return iterate


def fed(
    method: Callable[Concatenate[_S, _P], EventFeed],
) -> Callable[Concatenate[Any, _P], AsyncEventFeed]:
    """Return a method that gives a feed as one that gives an asynchronous feed.

    It takes no turn of the manager: other calls go on while the next event is awaited.
    """

    @functools.wraps(method)
    def follow(face: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> AsyncEventFeed:
        return AsyncEventFeed(method(face._wrapped, *args, **kwargs))

    return follow


class Prefetching(Generic[_R]):
    """An iterator that is read in threads, some results at a time; other calls come in between.

    A class and no asynchronous generator: one that is left before its end has nothing to close in
    the loop.
    """

    def __init__(self, start: Callable[[], Iterator[_R]], turns: Turns, *, name: str) -> None:
        """Read nothing yet.

        Args:
            start: Makes the iterator, in a thread.
            turns: Whose turn a read takes.
            name: What it is, for the thread and the log.
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
