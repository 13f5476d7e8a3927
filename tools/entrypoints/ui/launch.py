"""Starts the web server, or reports the package that it lacks; opens its page in the browser."""

from __future__ import annotations

import asyncio
import os
import tempfile
import webbrowser
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
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
    """Serve the pages to this machine until Ctrl-C, SIGTERM or SIGHUP.

    Args:
        places: The locations of the sessions and what belongs to them.
        port: The port on 127.0.0.1; 0 for any free one.
        read_only: Whether to serve no actions: nothing can be changed or answered.
        observers: Observers of the changes that a person makes on the pages.
        asked_by: A file descriptor; each line read from it requests another address. None for none.
        ready: Receives the first address once the server listens, and each requested one. Each
            address works once.

    Raises:
        ExtraMissing: Starlette, uvicorn or the packages for the sessions' store are not installed.
        AddressRefused: The port can't be bound.
        InvalidConfig: The configuration is invalid.
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
            "`agentforge session report` writes one as a page.",
        ) from error
    from ..loopback import bound
    from .services import UiServices

    with bound(port) as listening:
        services = UiServices(places, read_only=read_only, observers=observers)
        with closing(services):
            asyncio.run(serve(services, listening, asked_by, ready))


_PAGE = '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url={url}">\n'


@contextmanager
def in_browser(url: str, *, browse: Callable[[str], object] = webbrowser.open) -> Iterator[None]:
    """Open a secret address in the browser, by a file that redirects to it while the block runs.

    Every user of the machine can read a browser's command line; only the owner can read the file.

    Args:
        url: The address.
        browse: Opens an address in a browser.
    """
    fd, path = tempfile.mkstemp(prefix="agentforge-ui-", suffix=".html")
    try:
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            file.write(_PAGE.format(url=url))
        browse(f"file://{path}")
        yield
    finally:
        with suppress(FileNotFoundError):
            os.unlink(path)
