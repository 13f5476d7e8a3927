"""Pages for this machine alone: their address, the names they answer to, and their key.

Pages of other sites in the same browser can still request a page served on loopback. So a request
is answered only if it calls the server by a name of this machine (a foreign name that resolves to
it is refused), and no session is shown or changed without a key that only the person who started
the server has seen.

The key is never in an address, a cookie or a file. Browsers write the addresses that they open to
their history, fragments included, and `sessionStorage` to a file; a cookie is sent to every port of
a host, so a page of another port of this machine could use it. So an address holds a code in its
fragment, which the page exchanges for the key by a POST; a code works once. Enter in the server's
terminal prints another address.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import re
import secrets
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Final

from ..base.errors import AgentForgeError, ErrorKind

HOST: Final = "127.0.0.1"
KEY_HEADER: Final = "x-agentforge-key"
"""Header in which a page sends the key."""
CODE_LIFETIME_S: Final = 600.0
"""How long a code can be exchanged for the key, in seconds."""
CODE_REFUSED: Final = (
    "This address can't be used again: it was used, or it is older than ten minutes. Press Enter "
    "in the terminal of the server: it prints another one."
)
_KEY_BYTES: Final = 24
_MOST_CODES: Final = 256
_CODE: Final = re.compile(r"[A-Za-z0-9_-]{32}", re.ASCII)
_OWN_NAME: Final = re.compile(r"(?:127\.0\.0\.1|localhost|\[::1\])(?::\d{1,5})?", re.ASCII)


class AddressRefused(AgentForgeError, kind=ErrorKind.USAGE):
    """The server of a page could not listen."""

    message = """could not listen on {host} port {port}: {cause}. Give another port with --port, or
    --port 0 for any that is free."""
    host: str
    port: int
    cause: OSError


def is_own_name(host: str) -> bool:
    """Return whether a `Host` is a name of this machine, with any port.

    The port may differ from the server's, as behind `ssh -L`.
    """
    return _OWN_NAME.fullmatch(host) is not None


def origin_of(host: str) -> str:
    """Return the origin of pages that a browser loads from a `Host`."""
    return f"http://{host}"


class PageKey:
    """The key of one start of a server, and the codes that can be exchanged for it.

    A code can be exchanged once, and only for `CODE_LIFETIME_S` seconds. Addresses carry codes, and
    a page makes one for its own reload.

    Args:
        key: The key that requests must show, hard to guess; a new one if None.
        monotonic: The clock that lifetimes are read from.
    """

    def __init__(
        self, key: str | None = None, *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._key = secrets.token_urlsafe(_KEY_BYTES) if key is None else key
        self._monotonic = monotonic
        self._ends: dict[bytes, float] = {}  # by digest: a lookup takes equally long for any code

    def is_shown(self, given: str) -> bool:
        """Return whether `given` is the key, in a time that does not reveal where they differ."""
        return hmac.compare_digest(given.encode(errors="backslashreplace"), self._key.encode())

    def address(self, port: int) -> str:
        """Return an address to open, with a new code in its fragment."""
        code = secrets.token_urlsafe(_KEY_BYTES)
        self.add_code(code)
        return f"http://{HOST}:{port}/#code={code}"

    def add_code(self, code: str) -> bool:
        """Accept a code for exchange from now on; return False if the code is malformed."""
        if _CODE.fullmatch(code) is None:
            return False
        self._ends.pop(digest := _digest(code), None)
        self._ends[digest] = self._monotonic() + CODE_LIFETIME_S
        while len(self._ends) > _MOST_CODES:
            del self._ends[next(iter(self._ends))]
        return True

    def exchanged(self, code: str, *, following: str = "") -> str | None:
        """Exchange a code for the key; return None if it is unknown, used or too old.

        Args:
            code: The code.
            following: The code with which the page may get the key next, at its reload.
        """
        if self._ends.pop(_digest(code), 0.0) <= self._monotonic():
            return None
        self.add_code(following)
        return self._key


def _digest(code: str) -> bytes:
    return sha256(code.encode(errors="backslashreplace")).digest()


@cache
def key_script() -> str:
    """Return the script with which a page gets the key."""
    return (files(__package__) / "key.js").read_text(encoding="utf-8")


def page_headers(policy: str) -> dict[str, str]:
    """Return the headers of every answer.

    Args:
        policy: What the page may load and run; it may never be framed or send forms elsewhere.
    """
    return {
        "Content-Security-Policy": (
            f"default-src 'none'; {policy}; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        ),
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-store",
    }


@contextmanager
def bound(port: int) -> Iterator[socket.socket]:
    """Yield a socket that is bound to loopback and not listening yet.

    Args:
        port: The port; 0 for any that is free.

    Raises:
        AddressRefused: The port can't be bound.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind((HOST, port))
        except (OSError, OverflowError) as error:
            cause = error if isinstance(error, OSError) else OSError(str(error))
            raise AddressRefused(HOST, port, cause) from error
        yield one


_MOST_BYTES: Final = 4096


def standard_input() -> int | None:
    """Return the descriptor of standard input, or None."""
    try:
        return sys.stdin.fileno()
    except (AttributeError, OSError, ValueError):  # None, closed, or not a file
        return None


def each_line(fd: int | None, act: Callable[[], None]) -> None:
    """Call `act` in the running event loop for each line from a descriptor, until its end.

    A thread reads the lines, since a regular file or `/dev/null` can't be watched; it ends with the
    process. In the background of a shell it reads nothing, and the process is not stopped.

    Args:
        fd: The descriptor; None gives no lines.
        act: Called in the event loop.
    """
    if fd is None:
        return
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTTIN, signal.SIG_IGN)  # a read in the background fails instead
    loop = asyncio.get_running_loop()

    def read() -> None:
        with suppress(OSError, RuntimeError):  # no longer our terminal, or the loop has ended
            while given := os.read(fd, _MOST_BYTES):
                if b"\n" in given:
                    loop.call_soon_threadsafe(act)

    threading.Thread(target=read, name="enter-key", daemon=True).start()
