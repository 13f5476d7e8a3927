"""MCP over streamable HTTP: the guarded application, the socket, and the server."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from typing import Any, Final

import anyio
import uvicorn
from mcp.server.mcpserver import MCPServer
from mcp_types import INVALID_REQUEST
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ....base.event_log import get_logger
from ...connection_room import ConnectionRoom
from ..calls import CancelScopes
from ..errors import AddressUnavailable
from ..lines import MAX_MESSAGE_BYTES
from ..server import mark_exchange
from .http_guard import HttpGuard, HttpRefusal, HttpSettings, transport_security
from .http_limits import BodyTooSlow, HttpSessions, in_time, protocol_with

PATH: Final = "/mcp"
MAX_CONNECTIONS: Final = 512
STOP_S: Final = 3
"""How long connections may take to end when the server stops, in seconds."""
_DEAD_PEER_S: Final = 30
"""After how many seconds a peer that answers no packet counts as dead."""
_DEAD_PEER: Final = {
    "TCP_KEEPIDLE": _DEAD_PEER_S // 3,
    "TCP_KEEPALIVE": _DEAD_PEER_S // 3,  # macOS's name of the first
    "TCP_KEEPINTVL": _DEAD_PEER_S // 3,
    "TCP_KEEPCNT": 2,
    "TCP_USER_TIMEOUT": _DEAD_PEER_S * 1000,
}
"""The options by which a dead peer is noticed; no system has all of them."""
_SHOWN_CHARS: Final = 200

_log = get_logger("agentforge.mcp")


async def _listen(
    app: ASGIApp, listeners: CancelScopes, scope: Scope, receive: Receive, send: Send
) -> None:
    """Serve a client's listening stream until the client or the server closes it."""
    begun = False

    async def send_on(message: Message) -> None:
        nonlocal begun
        begun = True
        await send(message)

    with listeners.scope() as stream:
        await app(scope, receive, send_on)
    if stream.cancelled_caught and begun:
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def guarded(
    app: ASGIApp,
    guard: HttpGuard,
    listeners: CancelScopes | None = None,
    room: ConnectionRoom | None = None,
) -> ASGIApp:
    """Return an application behind a guard, with a mark on each exchange that it lets through.

    `listeners` collects the clients' listening streams, to be closed when the server stops; `room`
    limits the connections on which no request has been let through yet.
    """
    open_streams = listeners if listeners is not None else CancelScopes()

    async def guarded_app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return
        refusal = guard.refusal(scope["headers"])
        if refusal is None and scope["path"].rstrip("/") != PATH:
            refusal = HttpRefusal(
                404, f"there is nothing here; the server is at {PATH}", scope["path"]
            )
        if room is not None:
            room.heard(scope.get("client"), has_key=refusal is None)
        if refusal is not None:
            _log.warning(
                "mcp.request_refused", status=refusal.status, given=refusal.given[:_SHOWN_CHARS]
            )
            await _answer_of(refusal)(scope, receive, send)
            return
        scope = {**scope, "headers": _for_sdk(scope["headers"])}
        receive = in_time(receive, guard.settings.body_timeout_s)
        over = mark_exchange(scope)
        try:
            if scope["method"] == "GET":
                await _listen(app, open_streams, scope, receive, send)
            else:
                await app(scope, receive, send)
        except BodyTooSlow as error:
            _log.warning("mcp.request_refused", status=408, given="a body that came too slowly")
            await _answer_of(HttpRefusal(408, str(error)))(scope, receive, send)
        finally:
            over.set()

    return guarded_app


def _for_sdk(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Drop the header that requests lost events again, and lower the case of names.

    No events are stored here, a case in which the SDK would not answer at all; without the header
    the client gets a new stream. The SDK compares names by case.
    """
    return [
        (name, value.lower() if name in {b"host", b"origin"} else value)
        for name, value in headers
        if name != b"last-event-id"
    ]


def _answer_of(refusal: HttpRefusal) -> JSONResponse:
    error = {"code": INVALID_REQUEST, "message": refusal.message}
    asks = {"www-authenticate": "Bearer"} if refusal.status == 401 else {}
    return JSONResponse(
        {"jsonrpc": "2.0", "id": None, "error": error},
        refusal.status,
        headers={"connection": "close", **asks},
    )


@contextmanager
def listening(settings: HttpSettings) -> Iterator[socket.socket]:
    """Listen at the settings' address.

    A peer that vanished silently is noticed after half a minute, so that its questions do not wait
    for the system's quarter of an hour.

    Raises:
        AddressUnavailable: The system refused the address.
    """
    with ExitStack() as opened:
        try:
            found = socket.getaddrinfo(
                settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            family, kind, protocol, _, address = found[0]
            listener = opened.enter_context(socket.socket(family, kind, protocol))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in _DEAD_PEER.items():
                if hasattr(socket, option):
                    listener.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
            listener.bind(address)
            listener.listen(128)
        except OSError as error:
            raise AddressUnavailable(
                settings.host, settings.port, error.strerror or str(error)
            ) from error
        yield listener


def url_of(settings: HttpSettings, port: int) -> str:
    """Return the address that clients on this machine use."""
    host = settings.host
    if host in {"0.0.0.0", "::"}:  # noqa: S104 (compared, not bound)
        host = "127.0.0.1"
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{PATH}"


class HttpServer(uvicorn.Server):
    """A harness server over streamable HTTP: guarded, within time limits, with limited sessions.

    It leaves signals to its caller.
    """

    def __init__(
        self, server: MCPServer[Any], settings: HttpSettings, listener: socket.socket
    ) -> None:
        """Prepare to serve at a listening socket, as the settings say.

        The SDK's limit on sessions is above ours: sessions in use are not ended for new ones, and
        each of them holds a connection. The protocol's time limit on heads is shorter than the
        room's, and answers with a message.
        """
        self._settings, self._listener = settings, listener
        self._port = int(listener.getsockname()[1])
        server.streamable_http_app(
            max_request_body_size=MAX_MESSAGE_BYTES,
            max_sessions=settings.max_sessions + MAX_CONNECTIONS,
            transport_security=transport_security(settings, self._port),
        )
        self._manager = server.session_manager
        self._listening_streams = CancelScopes()
        room = ConnectionRoom(head_timeout_s=2 * settings.head_timeout_s)
        app = guarded(
            HttpSessions(self._manager.handle_request, settings.max_sessions),
            HttpGuard(settings=settings, port=self._port),
            self._listening_streams,
            room,
        )
        super().__init__(
            uvicorn.Config(
                app,
                http=room.watched(protocol_with(settings.head_timeout_s)),
                lifespan="off",
                ws="none",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                limit_concurrency=MAX_CONNECTIONS,
                timeout_graceful_shutdown=STOP_S,
            )
        )

    @property
    def url(self) -> str:
        """The address that clients on this machine use."""
        return url_of(self._settings, self._port)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        """Serve while the block runs, and until `stop`."""
        async with self._manager.run(), anyio.create_task_group() as group:
            group.start_soon(self.serve, [self._listener])
            yield

    def stop(self) -> None:
        """Stop accepting requests, and close the clients' listening streams."""
        self.should_exit = True
        self._listening_streams.stop()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture no signals."""
        yield
