"""A worker's metrics, for Prometheus, and its endpoints /healthz and /metrics, read-only."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from typing import Final

from attrs import frozen
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
)

from ...base.event_log import get_logger
from .messages import Ending, Look

_BUCKETS: Final = (0.1, 0.5, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 4 * 3600.0)


class FleetMetrics:
    """Counts a worker's actions since its start, and shows the waiting jobs."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._looks = self._counter(
            "agentforge_jobs", "Jobs that ended, by how their look at the session did.", "outcome"
        )
        self._running = self._gauge("agentforge_jobs_running", "Sessions that run now.")
        self._waiting = self._gauge(
            "agentforge_jobs_waiting", "Jobs of this worker's queues that could run now."
        )
        self._oldest = self._gauge(
            "agentforge_job_oldest_waiting_seconds", "How long the oldest of them has waited."
        )
        self._job_seconds = self._histogram("agentforge_job_seconds", "How long jobs took.")
        self._phase_seconds = self._histogram(
            "agentforge_phase_seconds", "How long finished phases took."
        )
        self._tokens = self._counter("agentforge_tokens_spent", "Tokens that sessions spent.")
        self._budget = self._counter(
            "agentforge_budget_stops", "Runs that stopped because the budget did not cover more."
        )
        self._conflicts = self._counter(
            "agentforge_conflicts", "Runs whose save was refused: another worker has the session."
        )
        self._retries = self._counter(
            "agentforge_retries", "Looks that were put off, by why.", "reason"
        )
        self._recoveries = self._counter(
            "agentforge_recoveries", "Sessions of silent workers that were handed to others."
        )
        self._restarts = self._counter(
            "agentforge_worker_restarts", "How often this worker lost the store and began again."
        )

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(name, text, registry=self.registry)

    def _histogram(self, name: str, text: str) -> Histogram:
        return Histogram(name, text, registry=self.registry, buckets=_BUCKETS)

    def began(self) -> None:
        """Count a started job."""
        self._running.inc()

    def ended(self, outcome: str, seconds: float) -> None:
        """Record an ended job."""
        self._running.dec()
        self._looks.labels(outcome).inc()
        self._job_seconds.observe(seconds)

    def looked(self, look: Look) -> None:
        """Record an ended look at a session."""
        self._tokens.inc(look.tokens)
        for _name, seconds in look.phases:
            self._phase_seconds.observe(seconds)
        if look.cause == "budget":
            self._budget.inc()
        if look.ending is Ending.FENCED:
            self._conflicts.inc()

    def put_off(self, reason: str) -> None:
        """Count a look that was postponed."""
        self._retries.labels(reason).inc()

    def recovered(self, sessions: int) -> None:
        """Count sessions of silent workers that were handed to others."""
        self._recoveries.inc(sessions)

    def restarted(self) -> None:
        """Count a restart after the loss of the store."""
        self._restarts.inc()

    def waits(self, jobs: int, oldest_s: float) -> None:
        """Set the number of waiting jobs, and the age of the oldest in seconds."""
        self._waiting.set(jobs)
        self._oldest.set(oldest_s)

    def exposition(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)


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
