"""Executions in another process: a sandbox's worker, started on demand and reused.

A process has at most one spare worker, ready before a sandbox needs it.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
import weakref
from functools import partial
from pathlib import Path

from attrs import evolve

from ...base.event_log import get_logger
from ..errors import SandboxClosed, SandboxUnavailable
from ..executor import Execution, SandboxSettings, result_without_output
from ..guest.guest_streams import GuestStreams
from ..host.engine.held_signals import SIGNALS
from ..interpreters.interpreter import loaded_host
from ..interpreters.process_pool import keep_beside, keeps_spare_worker
from ..policy import ExecutionPolicy
from ..result import SandboxResult
from ..workspaces.quota import forget_usage
from .worker_process import WorkerEnded, WorkerProcess, WorkerStart
from .worker_protocol import ServedSandbox

_log = get_logger("agentforge.sandbox")


class SpareWorker:
    """The spare worker, if there is one.

    Starting a worker takes longer than most executions. So when a sandbox takes one, another is
    started that loads only what every sandbox needs: until it is handed out, it has run only our
    code and knows no workspace. It ends with this process, however that ends, since its socket
    closes.
    """

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


class WorkerExecutor:
    """Runs executions in a worker process. Implements `executor.Executor`.

    If a worker ends, the result says so, and the next execution starts another. Closing the
    executor ends its worker, and so does the garbage collection of the executor.

    Attributes:
        worker: The worker of the last execution, or None.
    """

    def __init__(self, workspace: Path, policy: ExecutionPolicy, settings: SandboxSettings) -> None:
        self._job = ServedSandbox(workspace, policy, settings)
        self._lock = threading.Lock()
        self.worker: WorkerProcess | None = None
        self._worker_end: weakref.finalize[..., WorkerExecutor] | None = None
        self._worker_lost: str | None = None
        self._closed = False

    def close(self) -> None:
        """End the worker, after an execution running in it."""
        self._closed = True
        with self._lock:
            self._drop_worker()
            self._worker_lost = None

    def execute(self, execution: Execution) -> SandboxResult:
        """Run one execution in the worker; see `Executor.execute`.

        Raises:
            SandboxUnavailable: There is no directory of compiled modules, or no worker starts.
        """
        if execution.cache is None:
            raise SandboxUnavailable(
                "isolation by process needs a directory for the compiled interpreter",
                "name one with WASI_PYTHON_CACHE, or use no isolation",
            )
        return SIGNALS.interruptible(partial(self._execute, execution))

    def _execute(self, execution: Execution) -> SandboxResult:
        workspace, request = self._job.workspace, execution.request
        # Callbacks run on this process's threads, as without isolation.
        streams = GuestStreams(request.callbacks, self._job.policy.output_bytes)
        started = time.monotonic()
        with self._lock:
            if self._closed:
                raise SandboxClosed(workspace)
            worker, lost = self._worker_for(execution)
            try:
                result = worker.execute(
                    execution.root, request._replace(callbacks=streams.relays()), execution.stop
                )
            except WorkerEnded as ended:
                execution.events.warning(
                    "execution.worker_ended", workspace=str(workspace), reason=ended.reason
                )
                self._drop_worker()
                cancelled = ended.late and execution.stop.is_set()
                result = result_without_output(
                    workspace,
                    trapped="cancelled" if cancelled else "deadline" if ended.late else "crash",
                    trap_detail=ended.reason,
                    interpreter="worker",
                    fuel_consumed=None,
                    duration_s=time.monotonic() - started,
                    changes_complete=False,
                )
            finally:
                forget_usage(workspace)  # the worker counts for itself
        metadata = {**result.metadata, "stream_errors": dict(streams.errors)}
        if lost is not None:
            metadata["state_lost"] = lost
        return evolve(result, metadata=metadata)

    def _worker_for(self, execution: Execution) -> tuple[WorkerProcess, str | None]:
        """Return the worker, started if necessary, and why the last one's state was lost."""
        if self.worker is not None and not self.worker.alive:
            self._drop_worker()
        lost, self._worker_lost = self._worker_lost, None
        if self.worker is None:
            cache = execution.cache
            assert cache is not None  # noqa: S101 (checked at the start of the execution)
            self.worker = begun_worker(self._job, cache)
            execution.afterwards.callback(the_spare.keep, cache)
            self._worker_end = weakref.finalize(self, self.worker.close)
        return self.worker, lost

    def _drop_worker(self) -> None:
        worker, self.worker = self.worker, None
        if worker is not None:
            worker.close()
            self._worker_lost = "worker ended" if self._job.settings.stateful else None
        if self._worker_end is not None:
            self._worker_end.detach()
            self._worker_end = None
