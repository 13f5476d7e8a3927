"""Opening the page in this machine's browser, without the key in a command line."""

from __future__ import annotations

import os
import tempfile
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

_PAGE = '<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url={url}">\n'


@contextmanager
def in_browser(url: str, *, browse: Callable[[str], object] = webbrowser.open) -> Iterator[None]:
    """Open an address that holds a key; while the block runs, a file leads to it.

    The command line of a browser can be read by every user of the machine, a file that only its
    owner may read can't.

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
