"""anyio, loaded when it is needed, and the one way from another thread back into an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ...base.errors import ExtraMissing


def require_anyio() -> None:
    """Return if anyio is there in a version that serves.

    Raises:
        ExtraMissing: It is not.
    """
    try:
        from anyio.lowlevel import EventLoopToken  # noqa: F401 (from 4.11 on)
    except ImportError as error:
        raise ExtraMissing("the asynchronous face", "anyio 4.11 or newer", "async") from error


def caller_of_this_loop() -> Callable[[Callable[[], object]], object]:
    """Return what has a call made in the loop that runs now, soon, from any thread.

    It raises RuntimeError where the loop has ended since.
    """
    from anyio.lowlevel import current_token

    native: Any = current_token().native_token
    if isinstance(native, asyncio.AbstractEventLoop):
        return native.call_soon_threadsafe
    soon: Callable[[Callable[[], object]], object] = native.run_sync_soon
    return soon
