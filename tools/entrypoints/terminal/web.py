"""The same application in a browser, for this machine alone.

textual-serve runs one process of the application for each open page, and accepts every connection.
Here a connection is checked first: the name the server was called by, the page it comes from, and a
key that only the person who started the server has seen. The page itself holds nothing of any
session, so it needs no key; the socket over which all is shown, typed and clicked does.
"""

from __future__ import annotations

import asyncio
import shlex
import signal
import socket
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final
from urllib.parse import parse_qsl

from aiohttp import web
from textual_serve.app_service import AppService
from textual_serve.server import Server

from ...event_log import get_logger
from ..connection_room import ConnectionRoom
from ..enter_key import each_line
from ..loopback import (
    CODE_REFUSED,
    HOST,
    KEY_HEADER,
    PageKey,
    bound,
    is_own_name,
    key_script,
    origin_of,
    page_headers,
)
from .web_page import SCRIPT, page_for

MAX_PAGES: Final = 8
"""How many pages may be open at once: each costs a process."""

_SHUTDOWN_S: Final = 5.0
_STOP_S: Final = 3.0
_HEARTBEAT_S: Final = 15.0
_log = get_logger("agentforge.terminal")
_PROTOCOL: Final = "agentforge.questions"
"""The subprotocol that the socket speaks; the key stands beside it in the same header."""

_OPEN_PATHS: Final = frozenset({"/", "/questions.js", "/key.js", "/key", "/code", "/ws"})
_CHANGING_PATHS: Final = frozenset({"/key", "/code", "/ws"})
"""What a page alone may ask for that is this server's own."""
_MOST_BODY_BYTES: Final = 1024
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class _Terminal(AppService):
    """One process of the application, for one page; it never outlives the page by long."""

    def __init__(self, words: Sequence[str], **wiring: Any) -> None:
        super().__init__(shlex.join(words), **wiring)
        self._words = words

    async def _open_app_process(self, width: int = 80, height: int = 24) -> Process:
        """Start the process, without a shell between."""
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *self._words,
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            env=self._build_environment(width=width, height=height),
        )
        self._process, self._stdin = process, process.stdin
        return process

    async def stop(self) -> None:
        """Have the process end; if it does not, end it."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_STOP_S):
                await super().stop()
        await self._end(None, signal.SIGTERM, signal.SIGKILL)

    async def kill(self) -> None:
        """End the process now, if it has not ended."""
        await self._end(signal.SIGKILL)

    async def _end(self, *numbers: signal.Signals | None) -> None:
        """Send the process one signal after the other until it has ended."""
        process = self._process
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        for number in numbers:
            with suppress(TimeoutError, ProcessLookupError):
                if number is not None:  # asking by signal 0 would take the exit code away
                    process.send_signal(number)
                await asyncio.wait_for(process.wait(), _STOP_S)
                self._process = None
                return


class LoopbackServer(Server):
    """Serves the application on loopback, to pages that have the key."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        port: int,
        key: PageKey,
        room: ConnectionRoom | None = None,
    ) -> None:
        """Name what is served; nothing listens yet.

        Args:
            command: The command of one application, as a list of words.
            port: Where it will listen.
            key: What a page must show.
            room: The connections of those who have not shown it; nobody's if None.
        """
        super().__init__(shlex.join(command), host=HOST, port=port, title="Questions")
        self._words = tuple(command)
        self._key = key
        self._room = room or ConnectionRoom()
        self._pages: set[web.WebSocketResponse] = set()
        self._terminals: set[_Terminal] = set()

    async def application(self) -> web.Application:
        """Return the web application, guarded."""
        app = await self._make_app()
        app.router.add_get("/questions.js", self._script)
        app.router.add_get("/key.js", self._key_script)
        app.router.add_post("/key", self._exchange)
        app.router.add_post("/code", self._renew)
        app.on_cleanup.append(self._end_all)
        app.middlewares.append(self._guard())
        return app

    def _guard(self) -> Any:
        @web.middleware
        async def guard(request: web.Request, handler: _Handler) -> web.StreamResponse:
            peer = (
                None if request.transport is None else request.transport.get_extra_info("peername")
            )
            self._room.heard(peer, has_key=self._has_key(request))
            refusal = self._refusal(request)
            if refusal is not None:
                raise web.HTTPForbidden(text=f"{refusal}\n")
            response = await handler(request)
            if not response.prepared:
                response.headers.update(_headers(request.host))
            return response

        return guard

    def _refusal(self, request: web.Request) -> str | None:
        """Return why a request is not served; None if it is."""
        if not is_own_name(request.host):
            return "This server answers to the names of this machine only."
        if request.path not in _OPEN_PATHS and not request.path.startswith("/static/"):
            return "There is nothing here."
        if request.path not in _CHANGING_PATHS:
            return None
        if request.headers.get("Origin") != origin_of(request.host):
            return "Only this server's own page may connect."
        if request.path != "/key" and not self._has_key(request):
            return (
                "The key is missing or is not the one of this start. Press Enter in the terminal "
                "where `agentforge questions --web` runs, and open the address that it prints."
            )
        return None

    def _has_key(self, request: web.Request) -> bool:
        """Return whether a request shows the key: in its header, or as a socket's subprotocol."""
        shown = request.headers.getall(KEY_HEADER, [])
        if request.path == "/ws":
            shown = request.headers.get("Sec-WebSocket-Protocol", "").split(",")
        return any(self._key.is_shown(one.strip()) for one in shown)

    async def handle_index(self, request: web.Request) -> Any:
        """Serve the page; it loads nothing from anywhere else."""
        asked = request.query.get("fontsize", "")
        font_size = min(max(int(asked), 6), 72) if asked.isdecimal() and len(asked) < 4 else 16
        page = page_for(request.host, font_size=font_size)
        return web.Response(text=page, content_type="text/html")

    async def _script(self, _: web.Request) -> web.Response:
        return web.Response(text=SCRIPT, content_type="text/javascript")

    async def _key_script(self, _: web.Request) -> web.Response:
        return web.Response(text=key_script(), content_type="text/javascript")

    async def _exchange(self, request: web.Request) -> web.Response:
        """Answer with the key, for a code that ends with this."""
        form = await _short_form(request)
        found = self._key.exchanged(form.get("code", ""), following=form.get("following", ""))
        if found is None:
            raise web.HTTPForbidden(text=f"{CODE_REFUSED}\n")
        return web.Response(text=found)

    async def _renew(self, request: web.Request) -> web.Response:
        """Take the code that a page, which has the key, will have it by again."""
        taken = self._key.add_code((await _short_form(request)).get("code", ""))
        return web.Response(status=204 if taken else 422)

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """Run an application for a page, until the page is closed."""
        if len(self._pages) >= MAX_PAGES:
            raise web.HTTPServiceUnavailable(text=f"{MAX_PAGES} pages are open already.\n")
        page = web.WebSocketResponse(heartbeat=_HEARTBEAT_S, protocols=(_PROTOCOL,))
        terminal = _Terminal(
            self._words,
            write_bytes=page.send_bytes,
            write_str=page.send_str,
            close=page.close,
            download_manager=self.download_manager,
        )
        self._pages.add(page)
        self._terminals.add(terminal)
        try:
            await page.prepare(request)
            await terminal.start(_cells(request, "width", 80), _cells(request, "height", 24))
            await self._process_messages(page, terminal)
        except (ConnectionError, ValueError, LookupError, TypeError, AssertionError) as error:
            _log.warning("terminal.page_lost", fault=repr(error))  # what came was no message
        finally:
            self._pages.discard(page)
            await terminal.stop()
            self._terminals.discard(terminal)
        return page

    async def on_shutdown(self, app: web.Application) -> None:  # noqa: ARG002 (not ours to name)
        """Close the pages, so that their applications end."""
        for page in tuple(self._pages):
            await page.close()

    async def _end_all(self, _: web.Application) -> None:
        """End the applications that took longer to end than the server waits for its pages."""
        await asyncio.gather(*(one.kill() for one in self._terminals))
        self._terminals.clear()

    async def on_startup(self, app: web.Application) -> None:
        """Print nothing: the command prints the address."""


async def _short_form(request: web.Request) -> dict[str, str]:
    """Read a form of a few fields."""
    body = bytearray()
    async for part in request.content.iter_any():
        body += part
        if len(body) > _MOST_BODY_BYTES:
            raise web.HTTPRequestEntityTooLarge(_MOST_BODY_BYTES, len(body))
    return dict(parse_qsl(body.decode("utf-8", "replace")))


def _cells(request: web.Request, name: str, default: int) -> int:
    asked = request.query.get(name, "")
    return min(max(int(asked), 1), 1000) if asked.isdecimal() and len(asked) < 5 else default


def _headers(host: str) -> dict[str, str]:
    return page_headers(
        "script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self'; "
        f"img-src 'self' data:; connect-src 'self' ws://{host}"
    )


def serve(
    command: Sequence[str],
    *,
    port: int,
    asked_by: int | None = None,
    ready: Callable[[str], None],
) -> None:
    """Serve the application until Ctrl-C or SIGTERM.

    Args:
        command: The command of one application, as a list of words.
        port: Where to listen on 127.0.0.1; 0 for any port that is free.
        asked_by: A descriptor; each line that comes from it asks for another address.
        ready: Receives the address to open, when it can be opened, and each further one.

    Raises:
        AddressRefused: The port can't be had.
    """
    with bound(port) as listening:
        asyncio.run(_serve(command, listening, asked_by, ready))


async def _serve(
    command: Sequence[str],
    listening: socket.socket,
    asked_by: int | None,
    ready: Callable[[str], None],
) -> None:
    port, key, room = listening.getsockname()[1], PageKey(), ConnectionRoom()
    server = LoopbackServer(command, port=port, key=key, room=room)
    runner = web.AppRunner(
        await server.application(), access_log=None, shutdown_timeout=_SHUTDOWN_S
    )
    await runner.setup()
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, ended.set)

    def another() -> None:
        ready(key.address(port))

    assert runner.server is not None  # noqa: S101 (it is there since the setup)
    accepting = await loop.create_server(room.watched(runner.server), sock=listening, backlog=128)
    try:
        another()
        each_line(asked_by, another)
        await ended.wait()
    finally:
        accepting.close()
        with suppress(asyncio.TimeoutError):
            await runner.cleanup()
