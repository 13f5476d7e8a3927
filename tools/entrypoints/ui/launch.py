"""Starting the server of the pages, or saying what is missing for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import TYPE_CHECKING, Final

from ...base.errors import ExtraMissing
from .places import UiPlaces

if TYPE_CHECKING:
    from ...harness import SessionObserver

DEFAULT_PORT: Final = 8766
_PACKAGES: Final = {"starlette": "Starlette", "uvicorn": "uvicorn"}


def run_ui(
    places: UiPlaces,
    *,
    port: int = DEFAULT_PORT,
    read_only: bool = False,
    observers: Sequence[SessionObserver] = (),
    asked_by: int | None = None,
    ready: Callable[[str], None],
) -> None:
    """Serve the pages to this machine until Ctrl-C or SIGTERM.

    Args:
        places: Where the sessions are.
        port: Where to listen on 127.0.0.1; 0 for any port that is free.
        read_only: Whether nothing can be changed or answered through them.
        observers: Who observes what the pages do to the sessions.
        asked_by: A descriptor; each line that comes from it asks for another address.
        ready: Receives the address to open, when it can be opened, and each further one. Each can
            be used once.

    Raises:
        ExtraMissing: Starlette, uvicorn or the packages for the sessions' store are not installed.
        AddressRefused: The port can't be had.
        InvalidConfig: The configuration can't be used.
    """
    try:
        from .server import serve
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in _PACKAGES:
            raise
        raise ExtraMissing(
            "`agentforge ui`",
            _PACKAGES[package],
            "ui",
            ". Until then `agentforge list` and `agentforge show` show the sessions, "
            "`agentforge report` writes one as a page.",
        ) from error
    from ..loopback import bound
    from .services import UiServices

    with bound(port) as listening:
        services = UiServices(places, read_only=read_only, observers=observers)
        with closing(services):
            asyncio.run(serve(services, listening, asked_by, ready))
