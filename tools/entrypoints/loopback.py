"""Pages for this machine alone: where they are served, by which names and with which key.

A page served on loopback can still be asked for by pages of other sites, which the same browser
shows. So a request is answered only if it calls the server by a name of this machine (a foreign
name that resolves to it is refused), and nothing of any session is shown or changed without a key
that only the person who started the server has seen.

The key is never in a request line and never in a cookie. Browsers send a cookie to every port of a
host, so a page of another port of this machine could use it; what is in the fragment of an address
and in `sessionStorage` belongs to one origin, port included.
"""

from __future__ import annotations

import hmac
import re
import secrets
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ..errors import AgentForgeError, ErrorKind

HOST: Final = "127.0.0.1"
_KEY_BYTES: Final = 24
_OWN_NAME: Final = re.compile(r"(?:127\.0\.0\.1|localhost|\[::1\])(?::\d{1,5})?", re.ASCII)


class AddressRefused(AgentForgeError):
    """The server of a page could not listen.

    Attributes:
        host: The address.
        port: The port.
    """

    kind = ErrorKind.USAGE

    def __init__(self, host: str, port: int, cause: OSError) -> None:
        super().__init__(
            f"could not listen on {host} port {port}: {cause.strerror or cause}. "
            "Give another port with --port, or --port 0 for any that is free."
        )
        self.host = host
        self.port = port


def is_own_name(host: str) -> bool:
    """Return whether a `Host` is a name of this machine, whatever the port.

    The port may be another one than the server's, as behind `ssh -L`.
    """
    return _OWN_NAME.fullmatch(host) is not None


def origin_of(host: str) -> str:
    """Return the origin of the pages that a browser has from a `Host`."""
    return f"http://{host}"


def new_key() -> str:
    """Return a key that can't be guessed; its characters may stand in an address."""
    return secrets.token_urlsafe(_KEY_BYTES)


def same_key(given: str, key: str) -> bool:
    """Compare a key with the right one, in a time that says nothing of where they differ."""
    return hmac.compare_digest(given.encode(errors="backslashreplace"), key.encode())


def address_of(port: int, key: str) -> str:
    """Return the address to open; the key is in its fragment, which browsers send to no server."""
    return f"http://{HOST}:{port}/#key={key}"


def page_headers(policy: str) -> dict[str, str]:
    """Return the headers of every answer.

    Args:
        policy: What the page may load and run; it may never be framed, nor send forms elsewhere.
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
    """Have a socket that is bound to loopback, and not listening yet.

    Args:
        port: The port; 0 for any that is free.

    Raises:
        AddressRefused: The port can't be had.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as one:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            one.bind((HOST, port))
        except (OSError, OverflowError) as error:
            cause = error if isinstance(error, OSError) else OSError(str(error))
            raise AddressRefused(HOST, port, cause) from error
        yield one
