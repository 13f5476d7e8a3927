"""Tasks that are done once for the whole fleet, by the first worker to take them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

import procrastinate
from procrastinate.psycopg_connector import PsycopgConnector

from ...base.event_log import get_logger
from .metrics import FleetMetrics
from .queue import FleetQueue, new_app
from .settings import MAINTENANCE_QUEUE, FleetSettings

_log = get_logger("agentforge.fleet")
_EACH_SECOND: Final = "* * * * * *"
_EACH_HOUR: Final = "7 * * * *"


def maintenance_app(
    connector: PsycopgConnector,
    queue: FleetQueue,
    settings: FleetSettings,
    metrics: FleetMetrics,
    *,
    prune: Callable[[], Mapping[str, int]] | None,
) -> procrastinate.App:
    """Return an application that maintains the fleet.

    Args:
        connector: The open connector.
        queue: Our additions to the queue.
        settings: The worker's.
        metrics: The worker's metrics.
        prune: Removes data past its retention time, and returns how many of each kind; None:
            nothing is removed.
    """
    app = new_app(connector)

    @app.periodic(cron=_EACH_SECOND)
    @app.task(name="agentforge.recover", queue=MAINTENANCE_QUEUE, queueing_lock="recover")
    async def recover(timestamp: int) -> None:
        del timestamp
        for found in await queue.recover():
            metrics.recovered(1)
            _log.warning(
                "fleet.session.recovered",
                session_id=found["session"],
                job=found["job"],
                worker=found["worker"],
                successor=found["successor"],
            )

    if settings.sweep_at is not None:

        @app.periodic(cron=settings.sweep_at)
        @app.task(name="agentforge.sweep", queue=MAINTENANCE_QUEUE, queueing_lock="sweep")
        async def sweep(timestamp: int) -> None:
            del timestamp
            for session_id in await queue.sweep():
                _log.warning("fleet.session.woken", session_id=session_id)

    @app.periodic(cron=_EACH_HOUR)
    @app.task(name="agentforge.remove_old_jobs", queue=MAINTENANCE_QUEUE, queueing_lock="old")
    async def remove_old_jobs(timestamp: int) -> None:
        del timestamp
        await app.job_manager.delete_old_jobs(
            nb_hours=max(1, round(settings.jobs_kept_hours)),
            include_failed=True,
            include_cancelled=True,
            include_aborted=True,
        )

    if prune is not None and settings.prune_at is not None:
        pruning = prune

        @app.periodic(cron=settings.prune_at)
        @app.task(name="agentforge.prune", queue=MAINTENANCE_QUEUE, queueing_lock="prune")
        async def prune_sessions(timestamp: int) -> None:
            del timestamp
            found = await asyncio.to_thread(pruning)
            _log.info("fleet.pruned", **found)

    return app
