"""A worker process that is ready before a sandbox needs one: at most one per process.

Starting a worker takes longer than most executions. So when a sandbox takes one, another is started
that loads only what every sandbox needs: until it is handed out, it has run only our code and knows
no workspace. It ends with this process, however that ends, since its socket closes.
"""

from __future__ import annotations

import atexit
import os
import threading
from pathlib import Path

from ...base.event_log import get_logger
from ..errors import SandboxUnavailable
from ..interpreters.interpreter import loaded_host
from ..interpreters.process_pool import keep_beside, keeps_spare_worker
from .worker_process import WorkerEnded, WorkerProcess, WorkerStart
from .worker_protocol import ServedSandbox

_log = get_logger("agentforge.sandbox")


class SpareWorker:
    """The spare worker, if there is one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._worker: WorkerProcess | None = None

    @property
    def pid(self) -> int | None:
        """Its process id, or None without one."""
        worker = self._worker
        return None if worker is None else worker.pid

    def count(self) -> int:
        """Return how many usable ones there are: 0 or 1."""
        worker = self._worker
        return int(worker is not None and worker.alive)

    def take(self, start: WorkerStart) -> WorkerProcess | None:
        """Return the spare worker, giving it up; None if there is none started this way.

        One that has ended, or was started differently, is killed.
        """
        with self._lock:
            worker, self._worker = self._worker, None
        if worker is None:
            return None
        if worker.start == start and worker.alive:
            return worker
        worker.kill()
        return None

    def keep(self, cache: Path) -> None:
        """Start a spare worker if the pool wants one; a failure is retried on the next call.

        Args:
            cache: The directory of compiled modules.
        """
        if not keeps_spare_worker():
            return
        with self._lock:
            if self._worker is not None:
                return
            try:
                worker = WorkerProcess(WorkerStart.now(cache))
            except SandboxUnavailable as error:
                _log.debug("worker.no_spare", reason=error.reason)
                return
            try:
                worker.make_ready(loaded_host().prepared_file(cache))
            except (SandboxUnavailable, WorkerEnded) as error:
                worker.kill()
                _log.debug("worker.no_spare", reason=error.reason)
                return
            self._worker = worker
        keep_beside(self)
        atexit.unregister(self.close)
        atexit.register(self.close)

    def close(self) -> None:
        """End it; a later `keep` may start another."""
        with self._lock:
            worker, self._worker = self._worker, None
        if worker is not None:
            worker.kill()

    def after_fork(self) -> None:
        """Let go of the parent's worker in a forked child, without ending it."""
        self._lock = threading.Lock()
        worker, self._worker = self._worker, None
        if worker is not None:
            _abandoned.append(worker)
            worker.leave()


_abandoned: list[WorkerProcess] = []
"""The parent's workers in a forked child: referenced, so that nothing waits for them."""

the_spare = SpareWorker()
"""The spare worker of this process."""

os.register_at_fork(after_in_child=the_spare.after_fork)


def begun_worker(job: ServedSandbox, cache: Path) -> WorkerProcess:
    """Return a worker that serves a sandbox: the spare one, or a new one.

    Args:
        job: The sandbox to serve.
        cache: The directory of compiled modules.

    Raises:
        SandboxUnavailable: No worker starts.
    """
    start = WorkerStart.now(cache)
    spare = the_spare.take(start)
    if spare is not None:
        try:
            spare.begin(job)
        except SandboxUnavailable as error:  # it has ended; a new one would report the cause
            _log.debug("worker.spare_ended", reason=error.reason)
        else:
            return spare
    template = loaded_host().prepared_file(cache)
    worker = WorkerProcess(start)
    worker.begin(job, template)
    return worker
