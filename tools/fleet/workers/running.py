"""Run a worker in this process: its event loop, its signals, what it serves."""

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
from .errors import words_of
from .health_server import HealthServer
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
    """Be a worker until SIGTERM or Ctrl-C; the second of them ends it at once.

    Args:
        database: The store.
        settings: What the worker does, and how long it waits.
        greeting: What its processes are told first.
        prune: Prunes ended sessions, once in the fleet.
        address: Where its health and metrics are served, or None.

    Raises:
        StoreError: The store can't be used as it is.
        FleetStopped: It could not reach the store for as long as the settings say.
        OSError: The address can't be served at.
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
    """Log what a session's process logged."""
    fields = dict(event)
    level, name = fields.pop("level", "info"), fields.pop("event", "")
    getattr(_log, level if level in _LEVELS else "info")(name, **fields)


class _QueueLog(logging.Handler):
    """Has the queue's warnings among our events."""

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
    # What it says of lost connections, each time, the worker says once.
    logging.getLogger("psycopg.pool").addHandler(logging.NullHandler())


def _note_unretrieved(_loop: asyncio.AbstractEventLoop, about: dict[str, Any]) -> None:
    """Log what a task raised that nobody waits for: a job that others ended meanwhile, say."""
    error = about.get("exception")
    _log.warning(
        "fleet.queue",
        said=str(about.get("message", ""))[:_MOST_CHARS],
        error=None if error is None else words_of(error)[:_MOST_CHARS],
    )
