"""A worker's monitoring endpoints: /healthz and /metrics, over HTTP, read-only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import Final

from attrs import frozen
from prometheus_client import CONTENT_TYPE_LATEST

from ...base.event_log import get_logger

_log = get_logger("agentforge.fleet")
_MOST_BYTES: Final = 8192
_SECONDS: Final = 10.0
_TEXT: Final = "text/plain; charset=utf-8"

Answer = tuple[HTTPStatus, str, bytes]


@frozen(eq=False)
class HealthServer:
    """Answers GET and HEAD of two paths.

    Guarantees: a request has 8 KiB and 10 seconds; nothing of it is stored, and nothing changes.

    Args:
        problem: Returns why the worker is not well, in words; None if it is.
        metrics: Returns the metrics in Prometheus' text format.
    """

    _problem: Callable[[], str | None]
    _metrics: Callable[[], Awaitable[bytes]]

    @asynccontextmanager
    async def serving(self, host: str, port: int) -> AsyncIterator[int]:
        """Serve at an address while the context lasts; yields the port.

        Raises:
            OSError: The address can't be used.
        """
        server = await asyncio.start_server(self._serve, host, port, limit=_MOST_BYTES)
        bound: int = server.sockets[0].getsockname()[1]
        _log.info("fleet.worker.serves", host=host, port=bound)
        try:
            yield bound
        finally:
            server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(
            OSError, asyncio.LimitOverrunError, asyncio.IncompleteReadError, TimeoutError
        ):
            async with asyncio.timeout(_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                status, kind, body = await self._answer(head.split(b"\r\n", 1)[0])
                writer.write(
                    f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {kind}\r\n"
                    f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
                )
                if not head.startswith(b"HEAD "):
                    writer.write(body)
                await writer.drain()
        writer.close()

    async def _answer(self, line: bytes) -> Answer:
        method, _, rest = line.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if method not in {b"GET", b"HEAD"}:
            return HTTPStatus.METHOD_NOT_ALLOWED, _TEXT, b"only GET and HEAD\n"
        if path == b"/healthz":
            problem = self._problem()
            if problem is None:
                return HTTPStatus.OK, _TEXT, b"ok\n"
            return HTTPStatus.SERVICE_UNAVAILABLE, _TEXT, f"{problem}\n".encode()
        if path == b"/metrics":
            return HTTPStatus.OK, CONTENT_TYPE_LATEST, await self._metrics()
        return HTTPStatus.NOT_FOUND, _TEXT, b"/healthz and /metrics are here\n"
