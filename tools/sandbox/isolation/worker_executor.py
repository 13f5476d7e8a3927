"""Executions in another process: a sandbox's worker, started on demand and reused."""

from __future__ import annotations

import threading
import time
import weakref
from functools import partial
from pathlib import Path

from attrs import evolve

from ..errors import SandboxClosed, SandboxUnavailable
from ..executor import Execution, SandboxSettings, result_without_output
from ..guest.guest_streams import GuestStreams
from ..host.engine.held_signals import SIGNALS
from ..policy import ExecutionPolicy
from ..result import SandboxResult
from ..workspaces.workspace_usage import forget_usage
from .spare_worker import begun_worker, the_spare
from .worker_process import WorkerEnded, WorkerProcess
from .worker_protocol import ServedSandbox


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
