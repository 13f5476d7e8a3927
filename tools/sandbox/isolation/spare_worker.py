"""A worker process that is ready before a sandbox needs one: at most one in a process.

Starting a worker takes longer than most executions. So where a sandbox was given one, another is
started that loads what every sandbox needs, and nothing else: only code of ours has run in it when
it is handed out, and no workspace was named to it. It ends with this process, however that ends,
since its socket does.
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
    """The worker that is kept ready, if there is one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._worker: WorkerProcess | None = None

    @property
    def pid(self) -> int | None:
        """Its process id, or None without one."""
        worker = self._worker
        return None if worker is None else worker.pid

    def count(self) -> int:
        """How many there are that can be used: 0 or 1."""
        worker = self._worker
        return int(worker is not None and worker.alive)

    def take(self, start: WorkerStart) -> WorkerProcess | None:
        """The worker that is ready, for good; None where there is none that started so.

        One that has ended, or that started otherwise than one would now, is given up.
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
        """Have one, where one is to be kept; what fails is tried again after the next was needed.

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
        """End it; there may be another later."""
        with self._lock:
            worker, self._worker = self._worker, None
        if worker is not None:
            worker.kill()

    def after_fork(self) -> None:
        """A forked child has none; its parent's is left alone."""
        self._lock = threading.Lock()
        worker, self._worker = self._worker, None
        if worker is not None:
            _abandoned.append(worker)
            worker.leave()


_abandoned: list[WorkerProcess] = []
"""The parent's, in a forked child: kept, so that nothing waits for them."""

the_spare = SpareWorker()
"""The one of this process."""

os.register_at_fork(after_in_child=the_spare.after_fork)


def begun_worker(job: ServedSandbox, cache: Path) -> WorkerProcess:
    """A worker that serves a sandbox: the one that is ready, or one that is started now.

    Args:
        job: What its executor is made with.
        cache: The directory of compiled modules.

    Raises:
        SandboxUnavailable: None starts.
    """
    start = WorkerStart.now(cache)
    spare = the_spare.take(start)
    if spare is not None:
        try:
            spare.begin(job)
        except SandboxUnavailable as error:  # it ended meanwhile; one that is started now says why
            _log.debug("worker.spare_ended", reason=error.reason)
        else:
            return spare
    template = loaded_host().prepared_file(cache)
    worker = WorkerProcess(start)
    worker.begin(job, template)
    return worker
