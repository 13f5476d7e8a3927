"""One POST request with a hard time limit; only the head of the answer is read."""

from __future__ import annotations

import contextlib
import email.utils
import http.client
import io
import math
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Protocol

from ...base.clock import Clock, as_utc, utc_now
from .delivery import WebhookResponse

if TYPE_CHECKING:
    from urllib.parse import SplitResult

MAX_HEAD_BYTES: Final = 64 << 10
_END: Final = b"\r\n\r\n"
_INTERIM: Final = 1


class Post(Protocol):
    """Sends a request to an address."""

    def __call__(
        self, address: SplitResult, body: bytes, headers: Mapping[str, str], *, timeout_s: float
    ) -> WebhookResponse:
        """Send a request once; an error becomes the answer's problem, which contains no address.

        Args:
            address: An http or https address.
            body: The request body.
            headers: The headers.
            timeout_s: The time limit for everything, in seconds.
        """
        ...


def post(
    address: SplitResult,
    body: bytes,
    headers: Mapping[str, str],
    *,
    timeout_s: float,
    monotonic: Callable[[], float] = time.monotonic,
    clock: Clock = utc_now,
) -> WebhookResponse:
    """Send a request once; see `Post`.

    Redirects are not followed, no proxy is used, and the answer's body is never read. (The time
    that the resolution of a name takes is up to the system.)
    """
    deadline = monotonic() + timeout_s
    connection = _connection(address, timeout_s)
    target = address.path or "/"
    if address.query:
        target += f"?{address.query}"
    try:
        connection.request("POST", target, body=body, headers={**headers, "Connection": "close"})
        assert connection.sock is not None  # noqa: S101 (it was made by the request)
        head = _final_head(connection.sock, deadline, monotonic)
    except TimeoutError:
        return WebhookResponse(status=0, problem=f"no answer within {timeout_s:g} s")
    except (OSError, http.client.HTTPException, ValueError) as error:
        return WebhookResponse(status=0, problem=_in_words(error))
    finally:
        connection.close()
    return _answer(head, clock)


def _connection(address: SplitResult, timeout_s: float) -> http.client.HTTPConnection:
    host = address.hostname or ""
    if address.scheme == "https":
        return http.client.HTTPSConnection(
            host, address.port, timeout=timeout_s, context=ssl.create_default_context()
        )
    return http.client.HTTPConnection(host, address.port, timeout=timeout_s)


def _final_head(sock: socket.socket, deadline: float, monotonic: Callable[[], float]) -> bytes:
    """Read the head of the final answer, skipping interim ones."""
    read = bytearray()
    while True:
        while (end := read.find(_END)) < 0:
            if len(read) > MAX_HEAD_BYTES:
                raise ValueError(f"the head of its answer has more than {MAX_HEAD_BYTES:,} bytes")
            left = deadline - monotonic()
            if left <= 0:
                raise TimeoutError
            sock.settimeout(left)
            piece = sock.recv(4096)
            if not piece:
                raise ValueError("it closed the connection without an answer")
            read += piece
        head = bytes(read[: end + len(_END)])
        if _status(head) // 100 != _INTERIM:
            return head
        del read[: end + len(_END)]


def _status(head: bytes) -> int:
    """Return the status of an answer.

    Raises:
        ValueError: It is not an HTTP answer.
    """
    words = head.split(b"\r\n", 1)[0].split(None, 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
        raise ValueError("what it answered is not HTTP")
    return int(words[1])


def _answer(head: bytes, clock: Clock) -> WebhookResponse:
    wait_s = None
    with contextlib.suppress(http.client.HTTPException):
        fields = http.client.parse_headers(io.BytesIO(head.split(b"\r\n", 1)[1]))
        wait_s = seconds_to_wait(fields.get("Retry-After"), clock())
    return WebhookResponse(status=_status(head), wait_s=wait_s)


def seconds_to_wait(value: str | None, now: datetime) -> float | None:
    """Return the delay that `Retry-After` requests, in seconds; None if it is malformed."""
    if value is None:
        return None
    try:
        seconds = float(value)
    except ValueError:
        try:
            until = as_utc(email.utils.parsedate_to_datetime(value))
        except (ValueError, TypeError, OverflowError):
            return None
        seconds = (until - now.astimezone(UTC)).total_seconds()
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _in_words(error: Exception) -> str:
    """Return an error in words; a system error does not name a path of the address."""
    if isinstance(error, ConnectionRefusedError):
        return "nothing listens there"
    if isinstance(error, socket.gaierror):
        return f"its name can't be resolved: {error.strerror}"
    return " ".join((str(error) or type(error).__name__).split())
