"""Accepts or refuses requests by their headers alone, before any part of the body is read.

A request that reads or changes a session needs the key in a custom header. A page of another origin
can't send that header without CORS permission, which is never given, so the key alone keeps foreign
pages out; the checks of host and origin are a second barrier.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from attrs import frozen
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...base.event_log import get_logger
from ..connection_room import ConnectionRoom
from ..loopback import KEY_HEADER, PageKey, is_own_name, origin_of, page_headers

NEEDS_KEY: Final = ("/view/", "/do/", "/events", "/code")
"""Prefixes of paths that need the key. All other paths serve no session data: the empty page, its
assets and the exchange of codes."""
MAX_BODY_BYTES: Final = 1 << 20
_READING: Final = frozenset({"GET", "HEAD"})
_OWN_SITES: Final = frozenset({"same-origin", "none"})
_SHOWN_CHARS: Final = 200

_log = get_logger("agentforge.ui")

HEADERS: Final = page_headers(
    "script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'"
)


@frozen
class PageRefusal:
    """The response to a refused request.

    Attributes:
        status: The HTTP status.
        message: The text for the browser.
    """

    status: int
    message: str


def refusal_of(
    key: PageKey, method: str, path: str, headers: Iterable[tuple[bytes, bytes]]
) -> PageRefusal | None:
    """Return the refusal of a request, or None if it is accepted.

    Args:
        key: The key that a request must present.
        method: The request's method.
        path: The request's path.
        headers: The request's headers; names in lower case.
    """
    found = Headers(raw=list(headers))
    hosts = found.getlist("host")
    if len(hosts) != 1 or not is_own_name(hosts[0]):
        return PageRefusal(421, "This server answers to the names of this machine only.")
    origins = found.getlist("origin")
    foreign = any(site not in _OWN_SITES for site in found.getlist("sec-fetch-site"))
    needs_key = path.startswith(NEEDS_KEY)
    if (
        len(origins) > 1
        or (origins and origins[0] != origin_of(hosts[0]))
        or (foreign and (method not in _READING or needs_key))
    ):
        return PageRefusal(403, "Only this server's own pages may ask for this.")
    if method not in _READING and not origins:
        return PageRefusal(403, "A request that changes something has to say which page it is of.")
    if needs_key and not has_key(key, found):
        return PageRefusal(
            401,
            "The key is missing or is not the one of this start. Press Enter in the terminal "
            "where `agentforge ui` runs, and open the address that it prints.",
        )
    return _body_refusal(found)


def has_key(key: PageKey, headers: Headers) -> bool:
    """Return whether a request presents the key in exactly one header."""
    given = headers.getlist(KEY_HEADER)
    return len(given) == 1 and key.is_shown(given[0])


def _body_refusal(headers: Headers) -> PageRefusal | None:
    lengths = headers.getlist("content-length")
    if any(not one.isdecimal() or len(one) > 9 or int(one) > MAX_BODY_BYTES for one in lengths):
        return PageRefusal(413, f"A form may have {MAX_BODY_BYTES:,} bytes.")
    return None


def guarded(app: ASGIApp, key: PageKey, room: ConnectionRoom) -> ASGIApp:
    """Wrap an application so that refused requests never reach it.

    Every response gets the security headers of a page. WebSocket connections are closed.

    Args:
        app: The application.
        key: The key that a request must present.
        room: Is notified of every request, and of whether it presents the key.
    """

    async def guarded_app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        room.heard(scope.get("client"), has_key=has_key(key, Headers(scope=scope)))
        refusal = refusal_of(key, scope["method"], scope["path"], scope["headers"])
        if refusal is not None:
            _log.warning(
                "ui.request_refused",
                status=refusal.status,
                method=scope["method"],
                path=scope["path"][:_SHOWN_CHARS],
            )
            text, shown = f"{refusal.message}\n", {"connection": "close", **HEADERS}
            refused = PlainTextResponse(text, refusal.status, headers=shown)
            await refused(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *_ENCODED]}
            await send(message)

        with suppress(ClientDisconnect):  # no one left to respond to
            await app(scope, receive, send_with_headers)

    return guarded_app


_ENCODED: Final = tuple((name.lower().encode(), value.encode()) for name, value in HEADERS.items())
