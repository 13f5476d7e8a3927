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

from aiohttp import web
from textual_serve.app_service import AppService
from textual_serve.server import Server

from ...event_log import get_logger
from ..loopback import HOST, address_of, bound, is_own_name, origin_of, page_headers, same_key
from .web_page import SCRIPT, page_for

MAX_PAGES: Final = 8
"""How many pages may be open at once: each costs a process."""

_SHUTDOWN_S: Final = 5.0
_STOP_S: Final = 3.0
_HEARTBEAT_S: Final = 15.0
_log = get_logger("agentforge.terminal")
_PROTOCOL: Final = "agentforge.questions"
"""The subprotocol that the socket speaks; the key stands beside it in the same header."""

_OPEN_PATHS: Final = frozenset({"/", "/questions.js", "/ws"})
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

    def __init__(self, command: Sequence[str], *, port: int, key: str) -> None:
        """Name what is served; nothing listens yet.

        Args:
            command: The command of one application, as a list of words.
            port: Where it will listen.
            key: What a page must show; hard to guess.
        """
        super().__init__(shlex.join(command), host=HOST, port=port, title="Questions")
        self._words = tuple(command)
        self._key = key
        self._pages: set[web.WebSocketResponse] = set()
        self._terminals: set[_Terminal] = set()

    @property
    def url(self) -> str:
        """The address to open, with the key in its fragment, which browsers send to no server."""
        return address_of(self.port, self._key)

    async def application(self) -> web.Application:
        """Return the web application, guarded."""
        app = await self._make_app()
        app.router.add_get("/questions.js", self._script)
        app.on_cleanup.append(self._end_all)
        app.middlewares.append(self._guard())
        return app

    def _guard(self) -> Any:
        @web.middleware
        async def guard(request: web.Request, handler: _Handler) -> web.StreamResponse:
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
        if request.path != "/ws":
            return None
        if request.headers.get("Origin") != origin_of(request.host):
            return "Only this server's own page may connect."
        if not self._has_key(request):
            return (
                "The key is missing or is not the one of this start. Open the address that "
                "`agentforge questions --web` printed."
            )
        return None

    def _has_key(self, request: web.Request) -> bool:
        """Return whether the key is among the subprotocols that the socket offers."""
        offered = request.headers.get("Sec-WebSocket-Protocol", "").split(",")
        return any(same_key(one.strip(), self._key) for one in offered)

    async def handle_index(self, request: web.Request) -> Any:
        """Serve the page; it loads nothing from anywhere else."""
        asked = request.query.get("fontsize", "")
        font_size = min(max(int(asked), 6), 72) if asked.isdecimal() and len(asked) < 4 else 16
        page = page_for(request.host, font_size=font_size)
        return web.Response(text=page, content_type="text/html")

    async def _script(self, _: web.Request) -> web.Response:
        return web.Response(text=SCRIPT, content_type="text/javascript")

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


def _cells(request: web.Request, name: str, default: int) -> int:
    asked = request.query.get(name, "")
    return min(max(int(asked), 1), 1000) if asked.isdecimal() and len(asked) < 5 else default


def _headers(host: str) -> dict[str, str]:
    return page_headers(
        "script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self'; "
        f"img-src 'self' data:; connect-src 'self' ws://{host}"
    )


def serve(command: Sequence[str], *, port: int, key: str, ready: Callable[[str], None]) -> None:
    """Serve the application until Ctrl-C or SIGTERM.

    Args:
        command: The command of one application, as a list of words.
        port: Where to listen on 127.0.0.1; 0 for any port that is free.
        key: What a page must show; hard to guess.
        ready: Receives the address to open, when it can be opened.

    Raises:
        AddressRefused: The port can't be had.
    """
    with bound(port) as listening:
        server = LoopbackServer(command, port=listening.getsockname()[1], key=key)
        asyncio.run(_serve(server, listening, ready))


async def _serve(
    server: LoopbackServer, listening: socket.socket, ready: Callable[[str], None]
) -> None:
    runner = web.AppRunner(
        await server.application(), access_log=None, shutdown_timeout=_SHUTDOWN_S
    )
    await runner.setup()
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, ended.set)
    try:
        await web.SockSite(runner, listening).start()
        ready(server.url)
        await ended.wait()
    finally:
        with suppress(asyncio.TimeoutError):
            await runner.cleanup()
