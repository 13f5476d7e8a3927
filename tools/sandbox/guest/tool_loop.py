"""The event loop that awaits what host functions return; one for each turn."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Awaitable, Callable
from typing import Any


class CallSkipped(Exception):
    """A call was given up before it started."""


class ToolLoop:
    """An event loop on its own thread, which starts with the first awaitable."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    def run(self, awaitable: Awaitable[Any], may_begin: Callable[[], bool]) -> Any:
        """Await something on the loop; return its result or raise its exception.

        Args:
            awaitable: What a function returned.
            may_begin: Called on the loop before the start; False skips it.

        Raises:
            Skipped: It was not started.
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
        """Cancel what still runs and stop the loop; never wait."""
        with self._lock:
            self._closed = True
            if self._loop is not None:
                with contextlib.suppress(RuntimeError):  # it has ended
                    self._loop.call_soon_threadsafe(self._loop.stop)

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._closed:
                raise CallSkipped
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
    """Await something; pass on every exception, even one that would end the loop."""
    try:
        if may_begin():
            ended.set_result(await awaitable)
        else:
            _close(awaitable)
            ended.set_exception(CallSkipped())
    except GeneratorExit as error:
        ended.set_exception(error)
        raise
    except BaseException as error:  # noqa: BLE001 (raised again in the waiting thread)
        ended.set_exception(error)


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    """Run the loop until it is stopped and all its tasks have ended."""
    try:
        with contextlib.suppress(BaseException):  # a function's own task may raise anything
            loop.run_forever()
        with contextlib.suppress(BaseException):
            loop.run_until_complete(asyncio.sleep(0))  # callbacks still queued become tasks
            tasks = asyncio.all_tasks(loop)
            for task in tasks:
                task.cancel()
            if tasks:
                loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
            loop.run_until_complete(loop.shutdown_asyncgens())
    finally:
        loop.close()


def _close(awaitable: object) -> None:
    """Close an object that will never be awaited, which avoids a warning."""
    close = getattr(awaitable, "close", None)
    if callable(close):
        with contextlib.suppress(Exception):
            close()
