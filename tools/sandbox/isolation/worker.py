"""A worker process: runs executions for a host process, one by one, over one socket.

Started by `worker_process`. It inherits only its socket and the environment that `WorkerStart.now`
chooses, and limits itself before anything runs. It ends when the socket closes.
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
import pickle
import queue
import resource
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ...base.event_log import configure_when_heard, get_logger
from ..errors import SandboxError
from ..executor import Execution
from ..in_process_executor import InProcessExecutor
from ..interpreters.interpreter import loaded_host
from ..interpreters.process_pool import warm_pool
from ..interpreters.runtime import ensure_ready
from ..policy import ExecutionPolicy
from ..request import Request
from .worker_protocol import FrameReader, ServedSandbox, encode_result, frame

if TYPE_CHECKING:
    from ..interpreters.template_file import PreparedFile

_GIB: Final = 1 << 30
_ADDRESS_SPACE: Final = 256 * _GIB  # the engine reserves 13 GiB an interpreter and uses none of it
_OWN_DATA: Final = 2 * _GIB  # writable memory: the host's side, idle interpreters
_OWN_FILES: Final = 256
_OWN_FILE_BYTES: Final = 128 << 20  # room for the private copy of the standard library
_OWN_CPU_S: Final = 60
_CPU_PER_SECOND: Final = 3  # the guest's thread, the host's, the pool's
_LARGEST: Final = 1 << 40
_MOST_DESCRIPTORS: Final = 4

_log = get_logger("agentforge.sandbox")


class Worker:
    """The worker's only task: receive requests, run them, answer."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._sending = threading.Lock()
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._stop = threading.Event()
        self._executor: InProcessExecutor | None = None

    def run(self) -> None:
        """Serve until the host closes the connection."""
        threading.Thread(target=self._receive, name="worker-receiver", daemon=True).start()
        while True:
            self._work.get()()

    def _make_ready(self, template: PreparedFile) -> None:
        """Load what every sandbox needs, before it is known which one to serve.

        A failure recurs at `begin`, which reports it.
        """
        _limit_for_all()
        with contextlib.suppress(SandboxError):
            loaded_host()
            from ..interpreters.prepared_runtime import begin_with  # imports the host

            begin_with(template)
            warm_pool(policy=ExecutionPolicy())

    def _begin(self, job: ServedSandbox) -> None:
        """Limit this process, load the interpreter, and report readiness."""
        policy = job.policy
        _limit_for_all()
        # Four times: the guest's memory, its open files, one file being written to disk, `/tmp`.
        _limit(resource.RLIMIT_DATA, _OWN_DATA + 4 * policy.memory_bytes)
        _limit(resource.RLIMIT_FSIZE, max(policy.file_bytes, _OWN_FILE_BYTES))
        _limit(resource.RLIMIT_NOFILE, 2 * policy.open_files + _OWN_FILES)
        self._executor = InProcessExecutor(*job)
        try:
            ensure_ready()
        except SandboxError as error:
            self._send_error(error)
        else:
            self._send({"kind": "ready"})

    def _serve(self, request: Request, root: int) -> None:
        try:
            self._execute(request, root)
        finally:
            os.close(root)

    def _execute(self, request: Request, root: int) -> None:
        _allow_cpu(request.deadline_s)
        callbacks = {
            name: lambda text, name=name: self._send({"kind": "stream", "name": name, "text": text})
            for name in request.script.streams
        }
        assert self._executor is not None  # noqa: S101 (set before any request)
        with contextlib.ExitStack() as afterwards:
            try:
                result = self._executor.execute(
                    Execution(
                        request=request._replace(callbacks=callbacks),
                        root=root,
                        stop=self._stop,
                        cache=ensure_ready(metered=request.is_metered),
                        afterwards=afterwards,
                        events=_log,
                    )
                )
            except SandboxError as error:
                self._send_error(error)
            else:
                self._send({"kind": "result", "result": encode_result(result)})

    def _receive(self) -> None:
        reader = FrameReader(_LARGEST)
        descriptors: list[int] = []
        try:
            while True:
                data, received, _, _ = socket.recv_fds(self._connection, 1 << 20, _MOST_DESCRIPTORS)
                for fd in received:
                    os.set_inheritable(fd, False)
                descriptors += received
                if not data:
                    break
                reader.feed(data)
                while (message := reader.next()) is not None:
                    self._take(pickle.loads(message), descriptors)  # noqa: S301 (from our host)
        finally:
            os._exit(0)  # the host ended or closed the connection

    def _take(self, message: dict[str, Any], descriptors: list[int]) -> None:
        match message["kind"]:
            case "make_ready":
                given = descriptors.pop(0), descriptors.pop(0)
                template = message["template"].with_descriptors(*given)
                self._work.put(functools.partial(self._make_ready, template))
            case "begin":
                self._work.put(functools.partial(self._begin, message["job"]))
            case "execute":
                self._stop.clear()
                root = descriptors.pop(0)
                self._work.put(functools.partial(self._serve, message["request"], root))
            case "cancel":
                self._stop.set()

    def _send_error(self, error: SandboxError) -> None:
        fields = {
            name: [*value] if isinstance(value, (list, tuple)) else str(value)
            for name, value in {"reason": error, **error.fields}.items()
        }
        self._send({**fields, "kind": "error", "type": type(error).__name__})

    def _send(self, message: dict[str, Any]) -> None:
        with self._sending:
            self._connection.sendall(frame(json.dumps(message).encode("ascii")))


def _limit_for_all() -> None:
    """Lower the limits that do not depend on the sandbox."""
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_AS, _ADDRESS_SPACE)


def _limit(which: int, soft: int) -> None:
    """Lower a limit permanently; a lower one is left unchanged."""
    _, hard = resource.getrlimit(which)
    if hard == resource.RLIM_INFINITY or hard > soft:
        resource.setrlimit(which, (soft, soft))


def _allow_cpu(deadline_s: float) -> None:
    """Make the kernel end this process if it computes far past an execution's deadline."""
    used = time.process_time()
    allowed = int(used + _CPU_PER_SECOND * deadline_s + _OWN_CPU_S)
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    if hard == resource.RLIM_INFINITY or hard > allowed:
        resource.setrlimit(resource.RLIMIT_CPU, (allowed, hard))


def main() -> None:
    """Serve the host whose socket descriptor is the first argument."""
    configure_when_heard(_discard_events, minimum=logging.CRITICAL + 1)
    connection = socket.socket(fileno=int(sys.argv[1]))
    os.set_inheritable(connection.fileno(), False)
    Worker(connection).run()


def _discard_events() -> None:
    """Turn logging off: the host logs every execution, the worker none."""
    import structlog

    structlog.configure(logger_factory=structlog.ReturnLoggerFactory(), processors=[lambda *_: ""])
