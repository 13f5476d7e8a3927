"""The event loop on which what functions of the host return is awaited; one for each turn."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Awaitable, Callable
from typing import Any


class Skipped(Exception):
    """A call was given up before it began."""


class ToolLoop:
    """A loop on a thread of its own, which is started for the first that is to be awaited."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    def run(self, awaitable: Awaitable[Any], may_begin: Callable[[], bool]) -> Any:
        """Await something on the loop, and return what it gives or raise what it raises.

        Args:
            awaitable: What a function returned.
            may_begin: Asked on the loop, before it begins.

        Raises:
            Skipped: It did not begin.
        """
        ended: concurrent.futures.Future[Any] = concurrent.futures.Future()
        waiting = _awaited(awaitable, may_begin, ended)
        try:
            asyncio.run_coroutine_threadsafe(waiting, self._started())
        except BaseException:
            waiting.close()
            _close(awaitable)
            raise
        return ended.result()

    def close(self) -> None:
        """Have what still runs cancelled, and the loop end; never waits."""
        with self._lock:
            self._closed = True
            if self._loop is not None:
                with contextlib.suppress(RuntimeError):  # it has ended
                    self._loop.call_soon_threadsafe(self._loop.stop)

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._closed:
                raise Skipped
            if self._loop is None:
                loop = asyncio.new_event_loop()
                thread = threading.Thread(
                    target=_serve, args=(loop,), name="sandbox-tool-loop", daemon=True
                )
                try:
                    thread.start()
                except BaseException:
                    loop.close()
                    raise
                self._loop = loop
            return self._loop


async def _awaited(
    awaitable: Awaitable[Any],
    may_begin: Callable[[], bool],
    ended: concurrent.futures.Future[Any],
) -> None:
    """Await something; whatever it raises, even what would end the loop, is told where it is."""
    try:
        if may_begin():
            ended.set_result(await awaitable)
        else:
            _close(awaitable)
            ended.set_exception(Skipped())
    except GeneratorExit as error:
        ended.set_exception(error)
        raise
    except BaseException as error:  # noqa: BLE001 (raised again where it is waited for)
        ended.set_exception(error)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """The life of a loop: until it is stopped, and until all that it runs has ended."""
    try:
        with contextlib.suppress(BaseException):  # a task of a function's own may raise anything
            loop.run_forever()
        with contextlib.suppress(BaseException):
            loop.run_until_complete(asyncio.sleep(0))  # what was handed over becomes a task
            tasks = asyncio.all_tasks(loop)
            for task in tasks:
                task.cancel()
            if tasks:
                loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


def _close(awaitable: object) -> None:
    """Close what will never be awaited, so that nobody is warned of it."""
    close = getattr(awaitable, "close", None)
    if callable(close):
        with contextlib.suppress(Exception):
            close()
