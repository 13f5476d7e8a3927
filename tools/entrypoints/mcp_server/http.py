"""MCP over streamable HTTP: on loopback, and only for those who ask for this server by its name.

A web page can make a browser send requests to 127.0.0.1, and DNS can be made to point a foreign
name there (DNS rebinding). So every request must name this server in `Host`, and one that a web
page sent (it has an `Origin`) must come from a page of this server or of an origin that was allowed
by name.
"""

from __future__ import annotations

import hmac
import ipaddress
import json
import os
import socket
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import anyio
import uvicorn
from attrs import define, field, frozen
from attrs.validators import ge, gt
from mcp.server.mcpserver import MCPServer
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...event_log import get_logger
from .client_disconnect import mark_exchange
from .errors import (
    AddressUnavailable,
    NotLoopback,
    TokenRefused,
    TokenRequired,
)
from .http_sessions import HttpSessions
from .http_times import (
    BODY_TIMEOUT_S,
    HEAD_TIMEOUT_S,
    BodyTooSlow,
    in_time,
    protocol_with,
)
from .stdio import MAX_MESSAGE_BYTES

PATH: Final = "/mcp"
DEFAULT_PORT: Final = 8137
MAX_SESSIONS: Final = 256
"""How many HTTP sessions there may be before idle ones end."""
MAX_CONNECTIONS: Final = 512
STOP_S: Final = 3
"""How long connections may take to end when the server stops, in seconds."""
_DEAD_PEER_S: Final = 30
"""After how many seconds a peer that answers no packet is taken for dead."""
_SHOWN_CHARS: Final = 200
_MIN_TOKEN_CHARS: Final = 16
_MAX_TOKEN_BYTES: Final = 4096

_log = get_logger("agentforge.mcp")


def _lower(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(value.lower() for value in values)


def is_loopback(host: str) -> bool:
    """Return whether an address is reached from this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


@frozen(kw_only=True)
class HttpSettings:
    """Where the server listens and whom it answers.

    Attributes:
        host: The address to listen at.
        port: The TCP port; 0 takes a free one.
        allow_remote: Whether the address may be one that other machines reach.
        allowed_hosts: Further names that `Host` may have, with or without a port.
        allowed_origins: Origins of web pages that may send requests, as "https://app.example".
        token: What clients must bring as a bearer token, or None.
        max_sessions: How many HTTP sessions there may be before the least recently used idle one
            ends.
        head_timeout_s: How long the head of a request may take, in seconds.
        body_timeout_s: How long the body of a request may take, in seconds.

    Raises:
        NotLoopback: The address is not loopback and `allow_remote` is False.
        TokenRequired: `allow_remote` is True and there is no token.
    """

    host: str = "127.0.0.1"
    port: int = DEFAULT_PORT
    allow_remote: bool = False
    allowed_hosts: tuple[str, ...] = field(default=(), converter=_lower)
    allowed_origins: tuple[str, ...] = field(default=(), converter=_lower)
    token: str | None = field(default=None, repr=False)
    max_sessions: int = field(default=MAX_SESSIONS, validator=ge(1))
    head_timeout_s: float = field(default=HEAD_TIMEOUT_S, validator=gt(0))
    body_timeout_s: float = field(default=BODY_TIMEOUT_S, validator=gt(0))

    def __attrs_post_init__(self) -> None:
        if self.allow_remote and not self.token:
            raise TokenRequired(self.host)
        if not self.allow_remote and not is_loopback(self.host):
            raise NotLoopback(self.host)


@frozen
class Refusal:
    """Why a request is not answered.

    Attributes:
        status: The HTTP status.
        message: What the client is told.
        given: What the client sent that led to it, for the log.
    """

    status: int
    message: str
    given: str = ""


def transport_security(settings: HttpSettings, port: int) -> TransportSecuritySettings:
    """Return which names and origins are answered at a port, in lower case."""
    own = settings.host.lower()
    names = ("127.0.0.1", "localhost", "[::1]", f"[{own}]" if ":" in own else own)
    hosts = [f"{name}:{port}" for name in names] + (list(names) if port == 80 else [])
    for allowed in settings.allowed_hosts:
        hosts += [allowed] if _has_port(allowed) else [allowed, f"{allowed}:{port}"]
    return TransportSecuritySettings(
        allowed_hosts=hosts,
        allowed_origins=[*settings.allowed_origins, *(f"http://{host}" for host in hosts)],
    )


@frozen(kw_only=True)
class Guard:
    """Decides from a request's headers whether it is answered.

    Attributes:
        settings: Whom the server answers.
        port: The port it listens at.
        security: The names and origins that are answered, as the SDK is told of them.
    """

    settings: HttpSettings
    port: int
    security: TransportSecuritySettings = field(init=False)

    @security.default
    def _named_in_settings(self) -> TransportSecuritySettings:
        return transport_security(self.settings, self.port)

    def refusal(self, headers: Iterable[tuple[bytes, bytes]]) -> Refusal | None:
        """Return why a request with these headers is refused, or None.

        Args:
            headers: Names in lower case, and values.
        """
        found: dict[bytes, list[str]] = {b"host": [], b"origin": [], b"authorization": []}
        for name, value in headers:
            if name in found:
                found[name].append(value.decode("latin-1"))
        hosts, origins, tokens = found[b"host"], found[b"origin"], found[b"authorization"]
        if len(hosts) != 1 or hosts[0].lower() not in self.security.allowed_hosts:
            return Refusal(
                421,
                "this server does not answer to that Host; use the address it was started with, "
                "or start it with --allowed-host NAME",
                ", ".join(hosts),
            )
        if len(origins) > 1 or (
            origins and origins[0].lower() not in self.security.allowed_origins
        ):
            return Refusal(
                403,
                "requests of web pages from that Origin are refused; allow it by starting the "
                "server with --allowed-origin ORIGIN",
                ", ".join(origins),
            )
        expected = self.settings.token
        if expected is not None and not (
            len(tokens) == 1 and _same(tokens[0], f"Bearer {expected}")
        ):
            return Refusal(401, "the header 'Authorization: Bearer TOKEN' is missing or wrong")
        return None


def _has_port(host: str) -> bool:
    return host.rpartition("]")[2].count(":") == 1


def _same(given: str, expected: str) -> bool:
    return hmac.compare_digest(given.encode(), expected.encode())


@define
class Listeners:
    """Streams on which clients listen for what a server may say of itself, without having asked.

    They stay open for as long as their clients like; a server that stops closes them.
    """

    _scopes: set[anyio.CancelScope] = field(factory=set, init=False)

    def close(self) -> None:
        """Close them all."""
        for scope in self._scopes:
            scope.cancel()

    async def serve(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a client listen until it, or the server, closes the stream."""
        begun = False

        async def send_on(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        listening_scope = anyio.CancelScope()
        self._scopes.add(listening_scope)
        try:
            with listening_scope:
                await app(scope, receive, send_on)
        finally:
            self._scopes.discard(listening_scope)
        if listening_scope.cancelled_caught and begun:
            await send({"type": "http.response.body", "body": b"", "more_body": False})


def guarded(app: ASGIApp, guard: Guard, listeners: Listeners | None = None) -> ASGIApp:
    """Put a guard before an application, and mark each exchange that it lets through.

    Args:
        app: The application.
        guard: Decides which requests it gets.
        listeners: Keeps the streams that clients listen on.
    """
    open_streams = listeners if listeners is not None else Listeners()

    async def guarded_app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return
        refusal = guard.refusal(scope["headers"])
        if refusal is None and scope["path"].rstrip("/") != PATH:
            told = f"there is nothing here; the server is at {PATH}"
            refusal = Refusal(404, told, scope["path"])
        if refusal is not None:
            _log.warning(
                "mcp.request_refused", status=refusal.status, given=refusal.given[:_SHOWN_CHARS]
            )
            await _refuse(refusal, send)
            return
        scope = {**scope, "headers": _for_sdk(scope["headers"])}
        receive = in_time(receive, guard.settings.body_timeout_s)
        over = mark_exchange(scope)
        try:
            if scope["method"] == "GET":
                await open_streams.serve(app, scope, receive, send)
            else:
                await app(scope, receive, send)
        except BodyTooSlow as error:
            _log.warning("mcp.request_refused", status=408, given="a body that came too slowly")
            await _refuse(Refusal(408, str(error)), send)
        finally:
            over.set()

    return guarded_app


def _for_sdk(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """Leave out the request to send again what a broken stream lost, and spell names as we do.

    No events are kept here, for which the SDK has no answer at all; without the header the client
    gets a new stream. The SDK compares names by case.
    """
    return [
        (name, value.lower() if name in {b"host", b"origin"} else value)
        for name, value in headers
        if name != b"last-event-id"
    ]


async def _refuse(refusal: Refusal, send: Send) -> None:
    error = {"code": -32600, "message": refusal.message}
    body = json.dumps({"jsonrpc": "2.0", "id": None, "error": error}).encode()
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        (b"connection", b"close"),
    ]
    if refusal.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def read_token(path: Path) -> str:
    """Read an access token from a file that nobody else may read.

    Raises:
        TokenRefused: The file is missing, others may read it, or it holds no token.
    """
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | os.O_NONBLOCK)
        try:
            mode = os.fstat(fd).st_mode
            if not stat.S_ISREG(mode):
                raise TokenRefused(path, "it is no regular file")
            if mode & 0o077:
                raise TokenRefused(path, f"others may read it (mode {mode & 0o777:04o})")
            text = os.read(fd, _MAX_TOKEN_BYTES).decode("ascii").strip()
        finally:
            os.close(fd)
    except OSError as error:
        raise TokenRefused(path, error.strerror or str(error)) from error
    except UnicodeDecodeError:
        raise TokenRefused(path, "it holds characters that are not ASCII") from None
    if len(text) < _MIN_TOKEN_CHARS or not text.isprintable() or " " in text:
        raise TokenRefused(path, f"it must hold one token of {_MIN_TOKEN_CHARS} characters or more")
    return text


@contextmanager
def listening(settings: HttpSettings) -> Iterator[socket.socket]:
    """Listen at the settings' address.

    A peer that vanished without a word is noticed after half a minute, so that its questions do
    not wait for the system's quarter of an hour.

    Raises:
        AddressUnavailable: The system refused.
    """
    try:
        found = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, kind, protocol, _, address = found[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise AddressUnavailable(
            settings.host, settings.port, error.strerror or str(error)
        ) from error
    with listener:
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, _DEAD_PEER_S // 3)
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, _DEAD_PEER_S // 3)
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 2)
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _DEAD_PEER_S * 1000)
            listener.bind(address)
            listener.listen(128)
        except OSError as error:
            raise AddressUnavailable(
                settings.host, settings.port, error.strerror or str(error)
            ) from error
        yield listener


def url_of(settings: HttpSettings, port: int) -> str:
    """The address that clients on this machine use."""
    host = settings.host
    if host in {"0.0.0.0", "::"}:  # noqa: S104 (compared, not bound)
        host = "127.0.0.1"
    return f"http://{f'[{host}]' if ':' in host else host}:{port}{PATH}"


def session_manager(
    server: MCPServer[Any], settings: HttpSettings, *, port: int
) -> StreamableHTTPSessionManager:
    """Make what keeps the SDK's HTTP sessions.

    Its limit lies above ours: sessions in use are not ended for new ones, and each of them holds a
    connection.
    """
    server.streamable_http_app(
        max_request_body_size=MAX_MESSAGE_BYTES,
        max_sessions=settings.max_sessions + MAX_CONNECTIONS,
        transport_security=transport_security(settings, port),
    )
    return server.session_manager


def application(
    app: ASGIApp, settings: HttpSettings, *, port: int, listeners: Listeners | None = None
) -> ASGIApp:
    """Put the guard, the time limits and the limit on sessions before the SDK's application.

    Args:
        app: The SDK's application.
        settings: Whom the server answers, and the limits.
        port: The port it listens at.
        listeners: Keeps the streams that clients listen on.
    """
    guard = Guard(settings=settings, port=port)
    return guarded(HttpSessions(app, settings.max_sessions), guard, listeners)


class HttpServer(uvicorn.Server):
    """A uvicorn server that leaves signals to its caller."""

    def __init__(self, app: ASGIApp, *, head_timeout_s: float = HEAD_TIMEOUT_S) -> None:
        """Make a server of an application; nothing listens yet.

        Args:
            app: The application.
            head_timeout_s: How long the head of a request may take, in seconds.
        """
        super().__init__(
            uvicorn.Config(
                app,
                http=protocol_with(head_timeout_s),
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

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield
