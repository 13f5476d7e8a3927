"""Blocking work for an event loop, on a thread of its own."""

from __future__ import annotations

import contextlib
import contextvars
import functools
import threading
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


async def on_new_thread(work: Callable[[contextlib.ExitStack], _T], stop: threading.Event) -> _T:
    """Run work on a new thread; return its result or raise its exception.

    Args:
        work: Gets a stack for what the thread does after the result was handed over.
        stop: Set when the awaiting task is cancelled; the cancellation is raised after the work
            has ended.
    """
    import asyncio  # loading it takes as long as a first execution

    loop = asyncio.get_running_loop()
    future: asyncio.Future[_T] = loop.create_future()

    def settle(outcome: Callable[[], None]) -> None:
        if not future.done():
            outcome()

    def run() -> None:
        with contextlib.ExitStack() as afterwards:
            try:
                outcome = functools.partial(future.set_result, work(afterwards))
            except BaseException as error:  # noqa: BLE001 (raised in the awaiting task)
                outcome = functools.partial(future.set_exception, error)
            with contextlib.suppress(RuntimeError):  # the loop was closed meanwhile
                loop.call_soon_threadsafe(settle, outcome)

    # In the task's own context, so that its trace and its log fields continue on the thread.
    within = contextvars.copy_context()
    threading.Thread(target=within.run, args=(run,), name="sandbox-execution", daemon=True).start()
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        stop.set()
        while not future.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([future])
        if not future.cancelled():
            future.exception()  # mark as retrieved: the cancellation is raised
        raise
