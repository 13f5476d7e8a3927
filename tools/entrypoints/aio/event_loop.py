"""Load anyio on demand, and call back into an event loop from another thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ...base.errors import ExtraMissing


def require_anyio() -> None:
    """Require anyio in a sufficient version.

    Raises:
        ExtraMissing: anyio is not installed, or too old.
    """
    try:
        from anyio.lowlevel import EventLoopToken  # noqa: F401 (from 4.11 on)
    except ImportError as error:
        raise ExtraMissing("the asynchronous face", "anyio 4.11 or newer", "async") from error


def caller_of_this_loop() -> Callable[[Callable[[], object]], object]:
    """Return a function that schedules a call in the running loop, from any thread.

    The function raises RuntimeError once the loop has ended.
    """
    from anyio.lowlevel import current_token

    native: Any = current_token().native_token
    if isinstance(native, asyncio.AbstractEventLoop):
        return native.call_soon_threadsafe
    soon: Callable[[Callable[[], object]], object] = native.run_sync_soon
    return soon
