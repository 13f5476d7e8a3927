"""What the asynchronous face takes turns at: a manager, and the threads of short calls."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import cache
from typing import TYPE_CHECKING, Final, TypeVar
from weakref import WeakKeyDictionary

from attrs import define

from ...harness import SessionManager
from .thread_call import call_in_thread

if TYPE_CHECKING:
    from anyio import CapacityLimiter, Lock
    from anyio.lowlevel import RunVar

SHORT_CALLS: Final = 40
"""How many short calls of one event loop are in threads at the same time."""

_T = TypeVar("_T")


@cache
def _limiters() -> RunVar[CapacityLimiter]:
    """Return what has the limiter of short calls of each event loop."""
    from anyio.lowlevel import RunVar

    return RunVar("agentforge_short_calls")


@cache
def _locks() -> RunVar[WeakKeyDictionary[SessionManager, Lock]]:
    """Return what has the locks of managers of each event loop."""
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
    """Return a lock among the tasks of an event loop, which come in their order."""
    from anyio import Lock

    return Lock()


@define
class _Block:
    """A block that has a manager's turn, and the turns within it."""

    manager: SessionManager
    lock: Lock
    outer: _Block | None
    is_over: bool = False


_current: Final[ContextVar[_Block | None]] = ContextVar("agentforge_turns_block", default=None)


class Turns:
    """Has calls made in threads, at the same time: of what is thread-safe."""

    async def call(self, work: Callable[[], _T], *, name: str, waits: bool = False) -> _T:
        """Make a call; see `ManagerTurns.call`."""
        if waits:
            return await call_in_thread(work, name=name)
        async with _limiter():
            return await call_in_thread(work, name=name)


class ManagerTurns(Turns):
    """Has one call at a time made with a manager, in the order in which they were awaited.

    A manager is not thread-safe: everything in an event loop that calls methods of the same one in
    threads shares its turns, whatever object it calls them by.
    """

    def __init__(self, manager: SessionManager) -> None:
        self.manager: Final = manager

    async def call(self, work: Callable[[], _T], *, name: str, waits: bool = False) -> _T:
        """Make a call when it is its turn.

        Args:
            work: The call.
            name: What it is, for the thread and the log.
            waits: Whether it may take as long as code, an agent or a person does. It then takes no
                place among the short calls.
        """
        async with self._lock():
            return await super().call(work, name=name, waits=waits)

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[ManagerTurns]:
        """Have the manager's turn for a block; calls from within it are made one after another.

        A task that the block starts belongs to it as long as it lasts.
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
