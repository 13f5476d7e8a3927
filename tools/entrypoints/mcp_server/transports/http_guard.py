"""Guard of the HTTP server: answers requests that use its name, and its token if it has one.

A web page can make a browser send requests to 127.0.0.1, and DNS can be made to point a foreign
name there (DNS rebinding). So every request must name this server in `Host`, and a request from a
web page (it has an `Origin`) must come from a page of this server or of an explicitly allowed
origin.
"""

from __future__ import annotations

import hmac
import ipaddress
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from attrs import field, frozen
from attrs.validators import ge, gt
from mcp.server.transport_security import TransportSecuritySettings
from starlette.datastructures import Headers

from ..errors import NotLoopback, TokenRefused, TokenRequired
from .http_limits import BODY_TIMEOUT_S, HEAD_TIMEOUT_S

DEFAULT_PORT: Final = 8137
MAX_SESSIONS: Final = 256
"""The most HTTP sessions there may be before idle ones end."""
_MIN_TOKEN_CHARS: Final = 16
_MAX_TOKEN_BYTES: Final = 4096


def _lower(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(value.lower() for value in values)


def is_loopback(host: str) -> bool:
    """Return whether an address is reachable from this machine alone."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


@frozen(kw_only=True)
class HttpSettings:
    """Address of the server, and the requests that it answers.

    Attributes:
        host: The address to listen at.
        port: The TCP port; 0 for any free one.
        allow_remote: Whether the address may be reachable from other machines.
        allowed_hosts: Further accepted values of `Host`, with or without a port.
        allowed_origins: Origins of web pages that may send requests, as "https://app.example".
        token: The bearer token that clients must send, or None.
        max_sessions: The most HTTP sessions before the least recently used idle one ends.
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
class HttpRefusal:
    """Refusal of a request.

    Attributes:
        status: The HTTP status.
        message: The reason, for the client.
        given: The value in the request that caused it, for the log.
    """

    status: int
    message: str
    given: str = ""


def transport_security(settings: HttpSettings, port: int) -> TransportSecuritySettings:
    """Return the accepted names and origins at a port, in lower case."""
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
class HttpGuard:
    """Decides from a request's headers whether it is answered.

    Attributes:
        settings: The server's settings.
        port: The port at which it listens.
        security: The accepted names and origins, in the SDK's form.
    """

    settings: HttpSettings
    port: int
    security: TransportSecuritySettings = field(init=False)

    @security.default
    def _named_in_settings(self) -> TransportSecuritySettings:
        return transport_security(self.settings, self.port)

    def refusal(self, headers: Iterable[tuple[bytes, bytes]]) -> HttpRefusal | None:
        """Return why a request with these headers is refused, or None.

        Args:
            headers: Pairs of a lower-case name and a value.
        """
        named = Headers(raw=list(headers)).getlist
        hosts, origins, tokens = named("host"), named("origin"), named("authorization")
        if len(hosts) != 1 or hosts[0].lower() not in self.security.allowed_hosts:
            return HttpRefusal(
                421,
                "this server does not answer to that Host; use the address it was started with, "
                "or start it with --allowed-host NAME",
                ", ".join(hosts),
            )
        if len(origins) > 1 or (
            origins and origins[0].lower() not in self.security.allowed_origins
        ):
            return HttpRefusal(
                403,
                "requests of web pages from that Origin are refused; allow it by starting the "
                "server with --allowed-origin ORIGIN",
                ", ".join(origins),
            )
        expected = self.settings.token
        if expected is not None and not (
            len(tokens) == 1
            and hmac.compare_digest(tokens[0].encode(), f"Bearer {expected}".encode())
        ):
            return HttpRefusal(401, "the header 'Authorization: Bearer TOKEN' is missing or wrong")
        return None


def _has_port(host: str) -> bool:
    return host.rpartition("]")[2].count(":") == 1


def read_token(path: Path) -> str:
    """Read an access token from a file that only its owner may read.

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
