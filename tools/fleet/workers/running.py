"""Run a worker in this process: its event loop, its signals, its endpoints."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from typing import Any, Final

from ...base.event_log import get_logger
from ..postgres.database import Database
from ..postgres.schema import require_migrated
from .children import Children
from .metrics import HealthServer
from .queue import words_of
from .settings import FleetSettings
from .worker import FleetWorker

_log = get_logger("agentforge.fleet")
_MOST_CHARS: Final = 500
_LEVELS: Final = {"debug", "info", "warning", "error", "critical"}


def run_until_stopped(
    database: Database,
    settings: FleetSettings,
    *,
    greeting: Mapping[str, Any],
    prune: Callable[[], Mapping[str, int]] | None,
    address: tuple[str, int] | None,
) -> None:
    """Run a worker until SIGTERM or Ctrl-C; the second of them ends it at once.

    Args:
        database: The store.
        settings: The worker's settings.
        greeting: The first message to its processes.
        prune: Prunes ended sessions, once in the fleet.
        address: Where to serve its health and metrics, or None.

    Raises:
        StoreError: The store can't be used in its present state.
        FleetStopped: It could not reach the store within the settings' limit.
        OSError: The address can't be used.
    """
    _hear_the_queue()
    try:
        asyncio.run(_run(database, settings, greeting, prune, address))
    finally:
        database.close()


async def _run(
    database: Database,
    settings: FleetSettings,
    greeting: Mapping[str, Any],
    prune: Callable[[], Mapping[str, int]] | None,
    address: tuple[str, int] | None,
) -> None:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(_note_unretrieved)
    children = Children(greeting, stop_s=settings.stop_s, on_log=_log_of_child)
    worker = FleetWorker(
        database.direct,
        settings,
        children,
        check=lambda: require_migrated(database),
        prune=prune,
    )
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, worker.stop)
    async with AsyncExitStack() as served:
        if address is not None:
            server = HealthServer(lambda: worker.problem, worker.measured)
            await served.enter_async_context(server.serving(*address))
        await worker.run()


def _log_of_child(event: Mapping[str, Any]) -> None:
    """Log an event of a session's process."""
    fields = dict(event)
    level, name = fields.pop("level", "info"), fields.pop("event", "")
    getattr(_log, level if level in _LEVELS else "info")(name, **fields)


class _QueueLog(logging.Handler):
    """Adds the queue's warnings to our events."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        _log.warning(
            "fleet.queue",
            said=" ".join(record.getMessage().split())[:_MOST_CHARS],
            error=None if error is None else words_of(error)[:_MOST_CHARS],
        )


def _hear_the_queue() -> None:
    queue = logging.getLogger("procrastinate")
    if not any(isinstance(one, _QueueLog) for one in queue.handlers):
        queue.addHandler(_QueueLog(logging.WARNING))
    queue.propagate = False
    # The worker logs lost connections once; the pool would log each.
    logging.getLogger("psycopg.pool").addHandler(logging.NullHandler())


def _note_unretrieved(_loop: asyncio.AbstractEventLoop, about: dict[str, Any]) -> None:
    """Log an unawaited task's exception, such as that of a job that others have ended."""
    error = about.get("exception")
    _log.warning(
        "fleet.queue",
        said=str(about.get("message", ""))[:_MOST_CHARS],
        error=None if error is None else words_of(error)[:_MOST_CHARS],
    )
