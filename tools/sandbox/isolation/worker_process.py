"""A worker process from the host's side: a second barrier, should the engine itself fail.

A worker serves one sandbox for its whole life; before that it may be prepared for any. It gets the
workspace as a descriptor. If it does not answer in time, it is killed with everything it started.
Of its answers, only the protocol's fields are read.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ...base.event_log import get_logger
from ..compiled.background import BACKGROUND_VARIABLE
from ..errors import InputFileError, SandboxError, SandboxUnavailable, WorkspaceError
from ..installed.own_program import own_environment, own_program
from ..interpreters.process_pool import POOL_VARIABLE, RESTORE_VARIABLE, the_pool
from ..interpreters.runtime import CACHE_VARIABLE
from ..request import Request
from ..result import SandboxResult
from .worker_protocol import (
    BadMessage,
    FrameReader,
    ServedSandbox,
    decode_answer,
    decode_result,
    frame,
)

if TYPE_CHECKING:
    from ..interpreters.template_file import PreparedFile

GRACE_S: Final = 5.0
"""How long after its deadline or a stop request a worker may take to answer, in seconds."""

_START_S: Final = 60.0
_CLOSE_S: Final = 2.0
_SLICE_S: Final = 0.02
_PATHS_BYTES: Final = 256 << 20

_log = get_logger("agentforge.sandbox")


class WorkerEnded(Exception):
    """The worker ended; what its execution did last is unknown.

    Attributes:
        reason: How it ended, for `trap_detail`.
        late: Whether it was killed because it did not answer in time.
    """

    def __init__(self, reason: str, *, late: bool) -> None:
        self.reason = reason
        self.late = late
        super().__init__(reason)


class _Deadline:
    """When a worker must have answered: soon, once the caller wants it to stop."""

    def __init__(self, seconds: float, stop: threading.Event | None = None) -> None:
        self.stopping = False
        self._until = time.monotonic() + seconds
        self._stop = stop

    def left(self) -> float:
        """Return how many seconds are left; 0 or less once it is late."""
        now = time.monotonic()
        if self._stop is not None and not self.stopping and self._stop.is_set():
            self.stopping = True
            self._until = min(self._until, now + GRACE_S)
        return self._until - now


class WorkerProcess:
    """One worker; used by one thread at a time."""

    def __init__(self, start: WorkerStart) -> None:
        """Start it without waiting; `begin` waits for it.

        Args:
            start: The command and the environment.

        Raises:
            SandboxUnavailable: It does not start.
        """
        self.start: Final = start
        self._workspace = Path()
        self._reader = FrameReader(0)
        ours, theirs = socket.socketpair()
        self._connection = ours
        try:
            self._process = subprocess.Popen(  # noqa: S603 (this interpreter, this package)
                [*start.command, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
                env=dict(start.environment),
                cwd="/",
                start_new_session=True,
            )
        except OSError as error:
            ours.close()
            raise SandboxUnavailable(
                f"the worker process does not start ({error.strerror})",
                "allow this process to start others, or use no isolation",
            ) from error
        finally:
            theirs.close()

    @property
    def pid(self) -> int:
        """The worker's process id."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it can run another execution."""
        return self._process.poll() is None

    def execute(self, root: int, request: Request, stop: threading.Event) -> SandboxResult:
        """Run one execution in the worker.

        Args:
            root: A descriptor of the workspace.
            request: What to run.
            stop: Ends the execution early once set.

        Raises:
            WorkerEnded: The worker crashed, violated the protocol, or was killed for being late.
            SandboxError: As raised by the execution.
        """
        try:
            self._send(
                {"kind": "execute", "request": request._replace(callbacks={})},
                _Deadline(request.deadline_s + GRACE_S, stop),
                descriptors=[root],
            )
            return self._answer(request, _Deadline(request.deadline_s + GRACE_S, stop))
        except (WorkerEnded, SandboxError):
            raise
        except BaseException:
            self.kill()  # the caller leaves; the answer is not read
            raise

    def _answer(self, request: Request, deadline: _Deadline) -> SandboxResult:
        while True:
            answer = self._receive(deadline)
            if answer is None:
                self._send({"kind": "cancel"}, deadline)
                continue
            match answer["kind"]:
                case "stream":
                    callback = request.callbacks.get(str(answer.get("name")))
                    if callback is not None:
                        callback(str(answer.get("text")))
                case "result":
                    return self._result(answer)
                case "error":
                    raise _error(answer)
                case other:
                    self.kill()
                    raise WorkerEnded(f"the worker said {other!r}", late=False)

    def close(self) -> None:
        """End it, by force if necessary; the process has ended on return."""
        self._connection.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_CLOSE_S)
        self.kill()

    def kill(self) -> None:
        """Kill it and everything in its process group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._connection.close()

    def leave(self) -> None:
        """Close the connection in a forked child; the parent's worker runs on."""
        self._connection.close()

    def make_ready(self, template: PreparedFile) -> None:
        """Make the worker load what every sandbox needs, without waiting for it.

        Args:
            template: What its interpreters start from; its files are sent as descriptors.

        Raises:
            WorkerEnded: The worker takes no message.
        """
        self._send(
            {"kind": "make_ready", "template": template},
            _Deadline(_START_S),
            descriptors=[template.image.fd, template.attached[0]],
        )

    def begin(self, job: ServedSandbox, template: PreparedFile | None = None) -> None:
        """Assign a sandbox to the worker, and wait until it is ready; once only.

        Args:
            job: The sandbox to serve.
            template: What its interpreters start from, unless `make_ready` has sent it.

        Raises:
            SandboxUnavailable: The worker cannot serve; it has ended.
        """
        self._workspace = job.workspace
        # The longest honest message: both streams as JSON, which may take six bytes for one.
        self._reader = FrameReader(12 * job.policy.output_bytes + _PATHS_BYTES)
        deadline = _Deadline(_START_S)
        try:
            if template is not None:
                self.make_ready(template)
            self._send({"kind": "begin", "job": job}, deadline)
            answer = self._receive(deadline) or {"kind": None}
        except WorkerEnded as error:
            self.close()
            raise SandboxUnavailable(
                f"the worker process does not start ({error.reason})",
                f"see that {__package__} can be imported by this Python, or use no isolation",
            ) from error
        if answer["kind"] != "ready":
            self.close()
            raise _error(answer)

    def _send(
        self,
        message: Mapping[str, Any],
        deadline: _Deadline,
        *,
        descriptors: list[int] | None = None,
    ) -> None:
        """Send a message; kill a worker that does not take it in time.

        Args:
            message: What to send.
            deadline: When the worker is late.
            descriptors: Descriptors to send with the first byte.
        """
        data = memoryview(frame(pickle.dumps(dict(message))))
        poll = select.poll()
        poll.register(self._connection, select.POLLOUT)
        try:
            while data:
                left = deadline.left()
                if left <= 0:
                    self.kill()
                    raise WorkerEnded("the worker took no message and was killed", late=True)
                if not poll.poll(min(left, _SLICE_S) * 1000):
                    continue
                with contextlib.suppress(BlockingIOError):
                    if descriptors:
                        first = [data[:1]]
                        sent = socket.send_fds(
                            self._connection, first, descriptors, socket.MSG_DONTWAIT
                        )
                        descriptors = None
                    else:
                        sent = self._connection.send(data, socket.MSG_DONTWAIT)
                    data = data[sent:]
        except OSError as error:
            raise self._ended(error.strerror or "the connection broke") from error

    def _receive(self, deadline: _Deadline) -> dict[str, Any] | None:
        """Return the next message, or None, once, when the worker has to be asked to stop."""
        poll = select.poll()
        poll.register(self._connection, select.POLLIN)
        while True:
            try:
                message = self._reader.next()
                if message is not None:
                    return decode_answer(message)
                was_stopping, left = deadline.stopping, deadline.left()
                if deadline.stopping and not was_stopping:
                    return None
                if left <= 0:
                    self.kill()
                    raise WorkerEnded("the worker did not answer and was killed", late=True)
                if poll.poll(min(left, _SLICE_S) * 1000):
                    data = self._connection.recv(1 << 20)
                    if not data:
                        raise self._ended("it closed the connection")
                    self._reader.feed(data)
            except BadMessage as error:
                self.kill()
                raise WorkerEnded(str(error), late=False) from error
            except OSError as error:
                raise self._ended(error.strerror or "the connection broke") from error

    def _ended(self, words: str) -> WorkerEnded:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_CLOSE_S)
        code = self._process.poll()
        self.kill()
        if code is None:
            return WorkerEnded(words, late=False)
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return WorkerEnded(f"the worker ended with {how}", late=False)

    def _result(self, answer: dict[str, Any]) -> SandboxResult:
        try:
            return decode_result(answer.get("result"), self._workspace)
        except BadMessage as error:
            self.kill()
            raise WorkerEnded(str(error), late=False) from error


class WorkerStart(NamedTuple):
    """How a worker is started; a worker can replace any other with an equal start.

    Attributes:
        command: The program and its arguments, without the socket's number.
        environment: Its full environment.
    """

    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]

    @classmethod
    def now(cls, cache: Path) -> WorkerStart:
        """Return how this process would start a worker now.

        Args:
            cache: The directory of compiled modules.
        """
        return cls(own_program(f"{__package__}.worker"), tuple(sorted(_environment(cache).items())))


def _environment(cache: Path) -> dict[str, str]:
    return {
        **own_environment(),
        CACHE_VARIABLE: str(cache),
        POOL_VARIABLE: "1",
        RESTORE_VARIABLE: str(int(the_pool().restores)),
        BACKGROUND_VARIABLE: "0",
    }


def _error(answer: Mapping[str, Any]) -> SandboxError:
    reason, remedy = str(answer.get("reason")), str(answer.get("remedy", ""))
    path = str(answer.get("path"))
    match answer.get("type"):
        case "WorkspaceError":
            return WorkspaceError(Path(path), reason, remedy)
        case "InputFileError":
            placed = answer.get("placed")
            return InputFileError(
                path, reason, [str(each) for each in placed] if isinstance(placed, list) else []
            )
        case _:
            return SandboxUnavailable(reason, remedy or "see the worker's reason")
