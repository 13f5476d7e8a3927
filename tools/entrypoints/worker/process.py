"""Main loop of a session process: open the store, then run sessions until the worker ends."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Callable, Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, Final

from ...base.errors import AgentForgeError
from ...base.event_log import configure_when_heard
from ...fleet.workers.messages import look_message
from ...integrations.telemetry import begin_telemetry, end_telemetry
from .parent import Parent

if TYPE_CHECKING:
    from ...base.settings.worker_configuration import WorkerConfiguration
    from ...wiring.fleet import SessionRunners

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
