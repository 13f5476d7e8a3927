"""Runs blocking calls for asynchronous callers; each has ended when its caller continues."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


async def in_thread(call: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
    """Run a blocking call in a thread of the loop's pool.

    A cancelled caller continues only when the call has ended: what it wrote is complete, and
    nothing is written later in the background.
    """
    task = asyncio.ensure_future(asyncio.to_thread(call, *args, **kwargs))
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError as error:
            if task.cancelled():
                raise
            cancelled = cancelled or error
        except BaseException:
            if cancelled is None:
                raise
    if cancelled is not None:
        raise cancelled
    return task.result()
