"""Time limits on requests that arrive slowly, so that slow clients can't hold all connections.

A client that sends a head or a body one byte at a time would hold a connection indefinitely, and
connections are limited. Each limit is for the complete head or the complete body; more bytes do not
extend it. Answers have no time limit: a call may wait for a person.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

import anyio
import h11
from starlette.types import Message, Receive
from uvicorn.protocols.http.h11_impl import H11Protocol

from ....base.errors import AgentForgeError
from ....base.event_log import get_logger

HEAD_TIMEOUT_S: Final = 10.0
"""Time limit in seconds for a request's head from its first byte, and for a new connection until
it."""
BODY_TIMEOUT_S: Final = 60.0
"""Time limit in seconds for a request's body."""

_log = get_logger("agentforge.mcp")


class BodyTooSlow(AgentForgeError):
    """The body of a request did not arrive in time; the request was not processed."""

    message = "the request's body did not arrive in time; it was not acted on"


def protocol_with(head_timeout_s: float) -> type[H11Protocol]:
    """Return uvicorn's protocol with a time limit on a request's head."""

    class TimedProtocol(H11Protocol):
        """Closes a connection whose next request's head is not complete in time."""

        _head_timer: asyncio.TimerHandle | None = None

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self._expect_head()

        def connection_lost(self, exc: Exception | None) -> None:
            self._head_came()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.conn.their_state is h11.IDLE:
                self._expect_head()
            else:
                self._head_came()

        def _expect_head(self) -> None:
            if self._head_timer is None:
                self._head_timer = self.loop.call_later(head_timeout_s, self._too_slow)

        def _head_came(self) -> None:
            if self._head_timer is not None:
                self._head_timer.cancel()
                self._head_timer = None

        def _too_slow(self) -> None:
            self._head_timer = None
            if self.transport.is_closing() or self.conn.their_state is not h11.IDLE:
                return
            _log.warning("mcp.request_refused", status=408, given="a head that came too slowly")
            self.transport.write(
                b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n"
            )
            self.transport.close()

    return TimedProtocol


def in_time(
    receive: Receive, timeout_s: float, *, now: Callable[[], float] = anyio.current_time
) -> Receive:
    """Return a receiver of a request's messages that limits the time for its body.

    Args:
        receive: Receives the messages without a limit.
        timeout_s: How long the body may take from now on, in seconds.
        now: The event loop's time.

    Returns:
        A receiver that raises `BodyTooSlow` if the body is not complete in time.
    """
    until = now() + timeout_s
    whole = False

    async def receive_in_time() -> Message:
        nonlocal whole
        if whole:
            return await receive()
        if now() > until:  # received messages are taken without a pause
            raise BodyTooSlow
        with anyio.CancelScope(deadline=until):
            message = await receive()
            whole = message["type"] != "http.request" or not message.get("more_body", False)
            return message
        raise BodyTooSlow

    return receive_in_time
