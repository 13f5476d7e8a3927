"""HTTP sessions of clients: above the limit, the least recently used ones end.

The 2025 protocol gives each client a session, and clients that vanish leave theirs behind. The SDK
refuses new clients at its limit until old sessions have been idle for half an hour; here the
session that has been idle longest makes room. Its client, if it returns, gets the 404 on which the
protocol requires it to begin a new session. A session with a running request or an open listening
stream is never ended, so the limit is exceeded only while each session holds a connection.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final

import anyio
from attrs import define, field
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ....base.event_log import get_logger

SESSION_HEADER: Final = b"mcp-session-id"

_log = get_logger("agentforge.mcp")


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
