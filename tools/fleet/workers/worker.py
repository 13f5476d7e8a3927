"""A worker of the fleet: takes jobs, writes heartbeats, maintains the fleet, and ends in order.

It does no work of its own: sessions run in its children, so that nothing delays its heartbeats.
procrastinate ends a worker, without an error, when it loses the database; so a worker that ends
without a request to stop is restarted.
"""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from importlib.metadata import version
from random import random as any_number
from typing import Any, Final

from attrs import define, field
from procrastinate import App
from procrastinate.exceptions import ConnectorException
from procrastinate.job_context import JobContext
from procrastinate.psycopg_connector import PsycopgConnector
from procrastinate.worker import Worker

from ...base.errors import AgentForgeError
from ...base.event_log import get_logger
from .children import Children, Wellness
from .maintenance import maintenance_app
from .metrics import FleetMetrics
from .queue import RUN_SESSION, FleetQueue, FleetStopped, LostJobs, connected, new_app, words_of
from .session_job import SessionJobs
from .settings import MAINTENANCE_QUEUE, FleetSettings

_log = get_logger("agentforge.fleet")
_MAINTENANCE_AT_ONCE: Final = 3


@define(eq=False)
class FleetWorker:
    """One worker, until it is stopped.

    Guarantees: when it is stopped, running sessions end within the grace period or are handed back;
    a job that it took is ended or handed back, and if it is killed, others take its session over
    once it was silent for the limit; it restarts after an outage of the store.

    Args:
        url: The store.
        settings: The worker's settings.
        children: Runs sessions.
        metrics: The worker's metrics.
        check: Raises, in a thread, if the store can't be used in its present state; a retryable
            error is waited for, all others end the worker.
        prune: Prunes ended sessions, in a thread; None: nothing is pruned.
        random: Returns a number from 0 up to 1.
        monotonic: The clock, in seconds.
    """

    _url: str
    _settings: FleetSettings
    _children: Children
    _metrics: FleetMetrics = field(factory=FleetMetrics, kw_only=True)
    _check: Callable[[], None] = field(default=lambda: None, kw_only=True)
    _prune: Callable[[], Mapping[str, int]] | None = field(default=None, kw_only=True)
    _random: Callable[[], float] = field(default=any_number, kw_only=True)
    _monotonic: Callable[[], float] = field(default=time.monotonic, kw_only=True)
    _stopping: asyncio.Event = field(factory=asyncio.Event, init=False)
    _at_once: bool = field(default=False, init=False)
    _queue: FleetQueue | None = field(default=None, init=False)
    _alive_at: float = field(default=float("-inf"), init=False)
    _problem: str | None = field(default="it has not reached the store yet", init=False)
    _wellness: Wellness = field(init=False)

    def __attrs_post_init__(self) -> None:
        start, random = self._children.start, self._random
        self._wellness = Wellness(self._settings, start, random=random, monotonic=self._monotonic)

    # --------------------------------------------------------------------------------- its state

    @property
    def metrics(self) -> FleetMetrics:
        """The worker's metrics."""
        return self._metrics

    @property
    def problem(self) -> str | None:
        """Why it is not well, in words; None if it is."""
        silent = self._monotonic() - self._alive_at
        if self._problem is None and silent > self._settings.limit_s:
            return f"its last heartbeat was seen {silent:.0f} s ago"
        return self._problem or self._wellness.problem

    async def measured(self) -> bytes:
        """Return its metrics; while the store is unreachable, waiting jobs are the last known."""
        if self._queue is not None:
            with suppress(ConnectorException):
                self._metrics.waits(*await self._queue.waiting())
        return self._metrics.exposition()

    # ----------------------------------------------------------------------------------- the life

    def stop(self) -> None:
        """Take no more jobs; end after the sessions' grace period, on a second call at once.

        Call it on the worker's event loop.
        """
        if not self._stopping.is_set():
            _log.info("fleet.worker.stopping", grace_s=self._settings.grace_s)
            self._stopping.set()
        else:
            _log.info("fleet.worker.stopping_at_once")
            self._at_once = True
            self._children.kill()

    async def run(self) -> None:
        """Work until `stop`.

        Raises:
            FleetStopped: The store was not reached within the settings' limit.
            AgentForgeError: The check raised it, and a retry can't help.
        """
        failures, well_at = 0, self._monotonic()
        try:
            while not self._stopping.is_set():
                began = self._monotonic()
                try:
                    await self._connected()
                except Exception as error:
                    if isinstance(error, AgentForgeError) and _is_final(error):
                        raise
                    self._problem = f"it lost the store: {words_of(error)}"
                if self._stopping.is_set():
                    break
                if self._alive_at > began:
                    failures, well_at = 0, self._alive_at
                failures += 1
                if self._monotonic() - well_at > self._settings.give_up_s:
                    raise FleetStopped(reason=self._problem or "its worker ended by itself")
                await self._pause(self._settings.reconnect.wait(failures, self._random))
        finally:
            await self._children.close()
        _log.info("fleet.worker.stopped")

    async def _pause(self, seconds: float) -> None:
        self._metrics.restarted()
        _log.warning("fleet.worker.restarting", reason=self._problem, after_s=round(seconds, 3))
        with suppress(TimeoutError):
            await asyncio.wait_for(self._stopping.wait(), seconds)

    async def _connected(self) -> None:
        try:
            await asyncio.to_thread(self._check)
            async with connected(self._url, self._settings) as connector:
                await self._serve(connector)
        finally:
            self._queue = None

    async def _serve(self, connector: PsycopgConnector) -> None:
        """Work by one open connector; return when stopped, raise when the store is lost."""
        settings = self._settings
        queue = FleetQueue(connector, settings)
        jobs = self._jobs(queue)
        work = self._worker_of_jobs(connector, jobs)
        care = self._worker(
            maintenance_app(connector, queue, settings, self._metrics, prune=self._prune),
            "maintenance",
            [MAINTENANCE_QUEUE],
            concurrency=_MAINTENANCE_AT_ONCE,
            fetch_job_polling_interval=settings.maintenance_poll_s,
            listen_notify=False,
            delete_jobs="always",
            shutdown_graceful_timeout=settings.stop_s,
        )
        self._queue = queue
        working = asyncio.create_task(_run(work), name="work")
        caring = asyncio.create_task(_run(care), name="maintenance")
        stopped = asyncio.create_task(self._stopping.wait(), name="stopped")
        beating = asyncio.create_task(self._watch(queue, work, care, jobs), name="heartbeats")
        try:
            await asyncio.wait(
                {working, caring, stopped, beating}, return_when=asyncio.FIRST_COMPLETED
            )
            if self._stopping.is_set():
                work.shutdown_graceful_timeout = settings.grace_s
                _stop(work)
                await asyncio.wait({working})
            for ended in (working, caring, beating):
                if ended.done() and (error := ended.exception()) is not None:
                    raise error
        finally:
            _stop(work)
            _stop(care)
            await asyncio.gather(working, caring, return_exceptions=True)
            for one in (stopped, beating):
                one.cancel()
            await asyncio.gather(stopped, beating, return_exceptions=True)

    def _jobs(self, queue: FleetQueue) -> SessionJobs:
        return SessionJobs(
            self._children,
            queue,
            self._settings,
            self._metrics,
            self._wellness,
            random=self._random,
            at_once=lambda: self._at_once,
            monotonic=self._monotonic,
        )

    def _worker_of_jobs(self, connector: PsycopgConnector, jobs: SessionJobs) -> Worker:
        settings = self._settings
        app = new_app(connector, may_take=self._wellness.may_take)

        @app.task(name=RUN_SESSION, pass_context=True)
        async def run_session(context: JobContext, session_id: str) -> None:
            await jobs.run(context, session_id)

        return self._worker(
            app,
            "work",
            settings.served,
            concurrency=settings.concurrency,
            fetch_job_polling_interval=settings.poll_s,
            abort_job_polling_interval=settings.poll_s,
            shutdown_graceful_timeout=0.0,  # if the store is lost; otherwise `_serve` sets it
        )

    def _worker(self, app: App, name: str, queues: Iterable[str], **more: Any) -> Worker:
        return Worker(
            app=app,
            name=name,
            queues=list(queues),
            install_signal_handlers=False,
            update_heartbeat_interval=self._settings.heartbeat_s,
            stalled_worker_timeout=self._settings.limit_s,
            **more,
        )

    async def _watch(
        self, queue: FleetQueue, work: Worker, care: Worker, jobs: SessionJobs
    ) -> None:
        """Check that the heartbeats are written, and write them where procrastinate does not.

        It writes none once it takes no more jobs, though its jobs continue.
        """
        described: int | None = None
        said: str | None = None
        lost = LostJobs(queue, self._settings.limit_s)
        while True:
            ids = _registered(work, care)
            if work.worker_id is not None and described != work.worker_id:
                described, said = work.worker_id, None
                await queue.describe(described, self._about())
                _log.info("fleet.worker.started", worker=described, **self._about())
            if ids:
                if await queue.heartbeat(ids, write=self._stopping.is_set()):
                    self._alive_at, self._problem = self._monotonic(), None
                elif ids == _registered(work, care) and not self._stopping.is_set():
                    _log.warning("fleet.worker.silent", worker=described)
                    raise FleetStopped(reason="others took it for dead")
            if described is not None and said != self._wellness.problem:
                said = self._wellness.problem
                await queue.say(described, said)
            if work.worker_id is not None:
                await lost.release(work.worker_id, jobs.running, self._monotonic())
            await asyncio.sleep(self._settings.heartbeat_s if ids else 0.02)

    def _about(self) -> dict[str, Any]:
        return {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "concurrency": self._settings.concurrency,
            "queues": list(self._settings.served),
            "version": version("agentforge-sessions"),
        }


def _is_final(error: AgentForgeError) -> bool:
    """Return whether a worker ends with an error instead of restarting."""
    return not error.retryable and not isinstance(error, FleetStopped)


def _registered(*workers: Worker) -> list[int]:
    return [one.worker_id for one in workers if one.worker_id is not None]


async def _run(worker: Worker) -> None:
    await worker.run()  # type: ignore[no-untyped-call]


def _stop(worker: Worker) -> None:
    worker.stop()  # type: ignore[no-untyped-call]
