"""Limits on HTTP clients: time for a request, and how many sessions may stay open.

A client that sends a head or a body one byte at a time would hold a connection indefinitely, and
connections are limited. Each limit is for the complete head or the complete body; more bytes do not
extend it. Answers have no time limit: a call may wait for a person.

The 2025 protocol gives each client a session, and clients that vanish leave theirs behind. The SDK
refuses new clients at its limit until old sessions have been idle for half an hour; here the
session that has been idle longest makes room. Its client, if it returns, gets the 404 on which the
protocol requires it to begin a new session. A session with a running request or an open listening
stream is never ended, so the limit is exceeded only while each session holds a connection.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final

import anyio
import h11
from attrs import define, field
from starlette.types import ASGIApp, Message, Receive, Scope, Send
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


SESSION_HEADER: Final = b"mcp-session-id"


@define(eq=False)
class HttpSessions:
    """ASGI application around the SDK's that ends the sessions idle longest.

    Attributes:
        app: The SDK's application.
        max_sessions: The most sessions there may be while one of them is idle.
    """

    app: ASGIApp
    max_sessions: int
    _under_way: OrderedDict[str, int] = field(factory=OrderedDict, init=False)

    @property
    def session_ids(self) -> list[str]:
        """The sessions, the least recently used first."""
        return list(self._under_way)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one exchange, note its session, and end idle sessions above the limit."""
        used = _value(scope["headers"])
        self._begin(used, known=used in self._under_way)

        async def watched(message: Message) -> None:
            nonlocal used
            if message["type"] == "http.response.start":
                if used is None and message["status"] < 400:
                    used = _value(message.get("headers", ()))
                    self._begin(used, known=used is not None)
                elif message["status"] == 404 or (
                    scope["method"] == "DELETE" and message["status"] < 400
                ):
                    self._under_way.pop(used or "", None)
            await send(message)

        try:
            await self.app(scope, receive, watched)
        finally:
            self._end(used)
            with anyio.CancelScope(shield=True):
                await self._make_room(scope)

    def _begin(self, session_id: str | None, *, known: bool) -> None:
        if session_id is not None and known:
            self._under_way[session_id] = self._under_way.get(session_id, 0) + 1
            self._under_way.move_to_end(session_id)

    def _end(self, session_id: str | None) -> None:
        if session_id is not None and session_id in self._under_way:
            self._under_way[session_id] -= 1
            self._under_way.move_to_end(session_id)

    async def _make_room(self, scope: Scope) -> None:
        excess = len(self._under_way) - self.max_sessions
        idle = [name for name, exchanges in self._under_way.items() if exchanges <= 0]
        for session_id in idle[: max(excess, 0)]:
            del self._under_way[session_id]
            _log.info("mcp.http_session_evicted", sessions=len(self._under_way))
            await self.app(_end_of(session_id, scope), _no_body, _ignored)


def _value(headers: Any) -> str | None:
    found = [value for name, value in headers if name.lower() == SESSION_HEADER]
    return found[0].decode("latin-1") if found else None


def _end_of(session_id: str, scope: Scope) -> Scope:
    """Return the request by which a client, with the same `Host`, ends its session."""
    hosts = [(name, value) for name, value in scope["headers"] if name == b"host"]
    return {
        "type": "http",
        "method": "DELETE",
        "path": "/mcp",
        "query_string": b"",
        "headers": [*hosts, (SESSION_HEADER, session_id.encode("latin-1"))],
    }


async def _no_body() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _ignored(_: Message) -> None:
    return None
