"""Work on a thread of its own, awaited without blocking the event loop."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


async def on_its_own_thread(
    work: Callable[[contextlib.ExitStack], _T], stop: threading.Event, *, name: str
) -> _T:
    """Do work on a new thread and return what it returns.

    Args:
        work: What to do. It is given a stack for what is to be done on the thread once the
            result, or what was raised, is on its way.
        stop: Set when the awaiting task is cancelled.
        name: The thread's name.

    Raises:
        asyncio.CancelledError: The task was cancelled; the work has ended.
        BaseException: What the work raised.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[_T] = loop.create_future()

    def settle(outcome: Callable[[], None]) -> None:
        if not future.done():
            outcome()

    def run() -> None:
        with contextlib.ExitStack() as afterwards:
            try:
                outcome = functools.partial(future.set_result, work(afterwards))
            except BaseException as error:  # noqa: BLE001 (carried to the awaiting task)
                outcome = functools.partial(future.set_exception, error)
            with contextlib.suppress(RuntimeError):  # the loop was closed over our head
                loop.call_soon_threadsafe(settle, outcome)

    thread = threading.Thread(target=run, name=name, daemon=True)
    thread.start()
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        stop.set()
        while not future.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([future])
        if not future.cancelled():
            future.exception()  # seen: the cancellation is what is told
        raise
