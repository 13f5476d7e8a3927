"""Executions in a process apart: the worker of one sandbox, started when needed and kept."""

from __future__ import annotations

import threading
import time
import weakref
from pathlib import Path
from typing import Literal

from attrs import evolve

from .errors import SandboxClosed, SandboxUnavailable
from .guest_streams import StreamProvider
from .outcome import worker_lost
from .policy import ExecutionPolicy
from .request import Request
from .result import SandboxResult, Trap
from .sandbox_logging import EventLogger
from .worker_process import WorkerEnded, WorkerProcess, WorkerSettings
from .workspace_usage import forget_usage

Isolation = Literal["process"]
"""What stands between a guest and the host beside the WebAssembly engine."""


class ExecutionsApart:
    """Has a worker process run checked requests over one workspace that somebody holds.

    A worker that nobody can reach any more is ended, like one of a sandbox that was closed.
    """

    def __init__(
        self, workspace: Path, policy: ExecutionPolicy, *, stateful: bool, idle_s: float
    ) -> None:
        """Start nothing yet.

        Args:
            workspace: The host directory the guest sees.
            policy: The limits.
            stateful: Have the worker keep one interpreter from one execution to the next.
            idle_s: How long a kept one may rest, in seconds.
        """
        self._workspace = workspace
        self._policy = policy
        self._stateful = stateful
        self._idle_s = idle_s
        self._lock = threading.Lock()
        self._worker: WorkerProcess | None = None
        self._worker_end: weakref.finalize[..., ExecutionsApart] | None = None
        self._worker_lost: str | None = None
        self._closed = False

    @property
    def worker(self) -> WorkerProcess | None:
        """The worker that the last execution ran in, or None."""
        return self._worker

    def close(self) -> None:
        """End the worker, once an execution that runs in it is over."""
        self._closed = True
        with self._lock:
            self._drop_worker(None)

    def execute(
        self,
        root: int,
        request: Request,
        stop: threading.Event,
        cache: Path | None,
        events: EventLogger,
    ) -> SandboxResult:
        """Have a checked request run; a worker that is gone is told in the result.

        Args:
            root: A descriptor of the workspace, which somebody holds.
            request: What to run.
            stop: Ends it early.
            cache: The directory of compiled modules.
            events: Told of a worker that ended.

        Raises:
            SandboxClosed: It was closed.
            SandboxUnavailable: There is no directory of compiled modules, or no worker starts.
            SandboxError: As the execution raised it.
        """
        if cache is None:
            raise SandboxUnavailable(
                "isolation by process needs a directory for the compiled interpreter",
                "name one with WASI_PYTHON_CACHE, or use no isolation",
            )
        # What is handed on is handed on by this process's threads, as without isolation.
        streams = StreamProvider(request.callbacks, self._policy.output_bytes)
        relayed = evolve(request, callbacks=streams.relays())
        started = time.monotonic()
        with self._lock:
            if self._closed:
                raise SandboxClosed(self._workspace)
            worker, lost = self._worker_for(cache)
            try:
                result = worker.execute(root, relayed, stop)
            except WorkerEnded as ended:
                events.warning(
                    "execution.worker_ended", workspace=str(self._workspace), reason=ended.reason
                )
                self._drop_worker("worker ended" if self._stateful else None)
                result = self._lost_result(ended, stop, time.monotonic() - started)
            finally:
                forget_usage(self._workspace)  # the worker keeps its own count
        metadata = {**result.metadata, "stream_errors": dict(streams.errors)}
        if lost is not None:
            metadata["state_lost"] = lost
        return evolve(result, metadata=metadata)

    def _lost_result(
        self, ended: WorkerEnded, stop: threading.Event, duration_s: float
    ) -> SandboxResult:
        trap: Trap = "deadline" if ended.late else "crash"
        return worker_lost(
            self._workspace,
            trap="cancelled" if ended.late and stop.is_set() else trap,
            reason=ended.reason,
            duration_s=duration_s,
        )

    def _worker_for(self, cache: Path) -> tuple[WorkerProcess, str | None]:
        """The worker, started if there is none, and why the state of the one before is lost."""
        if self._worker is not None and not self._worker.alive:
            self._drop_worker("worker ended" if self._stateful else None)
        lost, self._worker_lost = self._worker_lost, None
        if self._worker is None:
            self._worker = WorkerProcess(
                WorkerSettings(
                    workspace=self._workspace,
                    policy=self._policy,
                    stateful=self._stateful,
                    idle_s=self._idle_s,
                    cache=cache,
                )
            )
            self._worker_end = weakref.finalize(self, self._worker.close)
        return self._worker, lost

    def _drop_worker(self, lost: str | None) -> None:
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.close()
            self._worker_lost = lost
        if self._worker_end is not None:
            self._worker_end.detach()
            self._worker_end = None
