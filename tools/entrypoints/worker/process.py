"""Main loop of a session process: open the store, then run sessions until the worker ends.

A thread reads the worker's requests; answers are written back.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from ...base.errors import AgentForgeError
from ...base.event_log import configure_when_heard
from ...fleet.workers.messages import decode, encode, look_message
from ...integrations.telemetry import begin_telemetry, end_telemetry

if TYPE_CHECKING:
    from ...base.settings.worker_configuration import WorkerConfiguration
    from ...wiring.fleet import SessionRunners

_INTERRUPTED: Final = 130


class Parent:
    """The worker, as seen from its session process.

    When the worker ends, the running work is stopped as by Ctrl-C; if that does not end the process
    within the grace period, the process is ended.

    Args:
        given: The stream that the worker writes.
        taken: The stream that the worker reads.
        grace_s: How long the running work may take to stop once the worker has ended, in seconds.
        interrupt: Stops the work of the main thread.
        end: Ends the process at once.
    """

    def __init__(
        self,
        given: BinaryIO,
        taken: BinaryIO,
        *,
        grace_s: float,
        interrupt: Callable[[], object] | None = None,
        end: Callable[[int], object] = os._exit,
    ) -> None:
        self._given = given
        self._taken = taken
        self._grace_s = grace_s
        self._interrupt = interrupt if interrupt is not None else _interrupt_main
        self._end = end
        self._asked: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
        self._mutex = threading.Lock()
        self._ended = threading.Event()
        self._hearing = threading.Thread(target=self._hear, name="parent", daemon=True)

    def asked(self) -> Iterator[dict[str, Any]]:
        """Yield the worker's requests until the worker ends."""
        self._hearing.start()
        while (message := self._asked.get()) is not None:
            yield message

    def tell(self, message: Mapping[str, Any]) -> None:
        """Write a message; not an error if the worker has ended."""
        with self._mutex:
            try:
                self._taken.write(encode(message))
                self._taken.flush()
            except OSError:
                self._ended.set()

    @property
    def has_ended(self) -> bool:
        """Whether the worker has ended."""
        return self._ended.is_set()

    def _hear(self) -> None:
        with suppress(ValueError, OSError):  # no message, or a broken pipe: the worker has ended
            for line in self._given:
                self._asked.put(decode(line))
        self._ended.set()
        self._asked.put(None)
        self._interrupt()
        timer = threading.Timer(self._grace_s, self._end, [_INTERRUPTED])
        timer.daemon = True
        timer.start()


def _interrupt_main() -> None:
    """Interrupt the main thread, even in a blocking system call."""
    ident = threading.main_thread().ident
    if ident is not None:
        signal.pthread_kill(ident, signal.SIGINT)


GRACE_S: Final = 5.0
"""How long the running work may take to stop once the worker has ended, in seconds."""
_WARNING: Final = 30


def main(open_runners: Callable[..., SessionRunners] | None = None) -> None:
    """Serve a worker over standard input and output until the worker ends.

    Args:
        open_runners: Opens the runners of sessions, with the arguments of `SessionRunners`, the
            default.
    """
    # Standard output is for the worker alone: all other output goes to standard error.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    parent = Parent(sys.stdin.buffer, answers, grace_s=GRACE_S)
    begin_telemetry()
    with contextlib.suppress(KeyboardInterrupt):
        serve(parent, open_runners)
    with contextlib.suppress(KeyboardInterrupt):  # an interrupt before the next line takes effect
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process is ending already
    _end()


def serve(parent: Parent, open_runners: Callable[..., SessionRunners] | None = None) -> None:
    """Serve a worker's requests until the worker ends; see `main`."""
    runners: SessionRunners | None = None
    try:
        for message in parent.asked():
            if runners is None:
                runners = _greeted(parent, message, open_runners)
            elif "run" in message:
                parent.tell(_run(runners, message["run"], message["job"]))
            elif "pause" in message:
                parent.tell(_pause(runners, message["pause"], message["reason"]))
    finally:
        if runners is not None:
            runners.close()


def _greeted(
    parent: Parent,
    message: Mapping[str, Any],
    open_runners: Callable[..., SessionRunners] | None,
) -> SessionRunners | None:
    if open_runners is None:
        from ...wiring.fleet import SessionRunners

        open_runners = SessionRunners
    _log_to(parent, message.get("level", _WARNING))
    try:
        runners = open_runners(
            message["store"],
            message.get("base"),
            direct=message.get("direct"),
            objects=message.get("objects"),
            allowed=_allowed(message.get("allowed")),
            claimed=lambda session_id: parent.tell({"claimed": session_id}),
        )
    except AgentForgeError as error:
        parent.tell({"ready": False, "reason": str(error)})
        return None
    parent.tell({"ready": True, "pid": os.getpid()})
    return runners


def _allowed(said: Mapping[str, Any] | None) -> WorkerConfiguration | None:
    from ...base.settings.worker_configuration import WorkerConfiguration

    return None if said is None else WorkerConfiguration(**said)


def _run(runners: SessionRunners, session_id: str, job_id: int) -> dict[str, Any]:
    from ...base.event_log import bound_fields
    from .session_runs import look_at

    with bound_fields(session_id=session_id, job=job_id):
        return look_message(
            look_at(session_id, lambda: runners.manager_of(session_id, job_id), runners.runner)
        )


def _pause(runners: SessionRunners, session_id: str, reason: str) -> dict[str, Any]:
    from .session_runs import pause

    try:
        return {"paused": pause(runners.plain_manager(), session_id, reason)}
    except AgentForgeError as error:
        return {"paused": False, "reason": str(error)}


def _log_to(parent: Parent, minimum: int) -> None:
    """Send the log events of this process to the worker, which logs them."""

    def tell(_logger: object, level: str, event: MutableMapping[str, Any]) -> Mapping[str, Any]:
        import structlog

        parent.tell({"log": {"level": level, **event}})
        raise structlog.DropEvent

    def configure() -> None:
        import structlog

        structlog.configure(
            processors=[
                structlog.contextvars.merge_contextvars,
                structlog.processors.format_exc_info,
                tell,
            ],
            wrapper_class=structlog.make_filtering_bound_logger(minimum),
            cache_logger_on_first_use=False,
        )

    configure_when_heard(configure, minimum=minimum)


def _end() -> None:
    """Close what is open and end the process, even if a thread of the engine still runs."""
    pool = sys.modules.get("agentforge_sessions.sandbox.interpreters.process_pool")
    if pool is not None:
        pool.close_pool()
    end_telemetry()
    if "wasmtime" in sys.modules:
        from ...sandbox.process_exit import end_process

        end_process(0)
    sys.exit(0)
