"""Opens the page in this machine's browser without exposing its code on a command line."""

from __future__ import annotations

import os
import tempfile
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

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
