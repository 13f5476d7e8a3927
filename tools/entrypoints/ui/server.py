"""Runs the web server: its socket, its signals and its shutdown."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from ..connection_room import ConnectionRoom
from ..loopback import PageKey, each_line
from .app import application
from .live import Live
from .services import UiServices

MAX_CONNECTIONS: Final = 256
_STOP_S: Final = 3
"""Time for connections to finish when the server stops, in seconds."""


class _Server(uvicorn.Server):
    """A uvicorn server that leaves signals to its caller."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture no signals."""
        yield


async def serve(
    services: UiServices,
    listening: socket.socket,
    asked_by: int | None,
    ready: Callable[[str], None],
) -> None:
    """Serve the pages until a signal stops the server; see `run_ui`."""
    live, key, room = Live(services), PageKey(), ConnectionRoom()
    server = _Server(
        uvicorn.Config(
            application(services, live, key=key, room=room),
            http=room.watched(H11Protocol),
            lifespan="on",
            ws="none",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            limit_concurrency=MAX_CONNECTIONS,
            timeout_graceful_shutdown=_STOP_S,
        )
    )

    def stop() -> None:
        server.should_exit = True
        room.close()
        live.close()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # `nohup` ignores SIGHUP
            loop.add_signal_handler(number, stop)
    listening.listen(128)  # before `ready` announces the address

    def another() -> None:
        ready(key.address(listening.getsockname()[1]))

    another()
    each_line(asked_by, another)
    await server.serve(sockets=[listening])
