"""Running the server of the pages: its socket, its signals and its end."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import uvicorn

from ...harness import SessionObserver
from ..loopback import address_of, bound
from .app import application
from .live import Live
from .places import UiPlaces
from .services import Services

MAX_CONNECTIONS: Final = 256
_STOP_S: Final = 3
"""How long connections may take to end when the server stops, in seconds."""


class _Server(uvicorn.Server):
    """A uvicorn server that leaves signals to its caller."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none."""
        yield


def serve(
    places: UiPlaces,
    *,
    port: int,
    key: str,
    read_only: bool,
    observers: Sequence[SessionObserver] = (),
    ready: Callable[[str], None],
) -> None:
    """Serve the pages until Ctrl-C or SIGTERM.

    Args:
        places: Where the sessions are.
        port: Where to listen on 127.0.0.1; 0 for any port that is free.
        key: What a request must show; hard to guess.
        read_only: Whether nothing can be changed.
        observers: Who observes what the pages do to the sessions.
        ready: Receives the address to open, when it can be opened.

    Raises:
        AddressRefused: The port can't be had.
    """
    with bound(port) as listening:
        services = Services(places, read_only=read_only, observers=observers)
        try:
            asyncio.run(_serve(services, listening, key, ready))
        finally:
            services.close()


async def _serve(
    services: Services, listening: socket.socket, key: str, ready: Callable[[str], None]
) -> None:
    live = Live(services)
    server = _Server(
        uvicorn.Config(
            application(services, live, key=key),
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
        live.close()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:  # as `nohup` has it
            loop.add_signal_handler(number, stop)
    listening.listen(128)  # before anybody is told of it
    ready(address_of(listening.getsockname()[1], key))
    await server.serve(sockets=[listening])
