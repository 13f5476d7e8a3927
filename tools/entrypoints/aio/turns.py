"""Turns of asynchronous calls: one at a time per manager, and a limit on short calls."""

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
