"""A session's trace, continued by each worker that runs the session.

The span context of the session's creation is stored beside it (`session_spans`); each run stores
its own context as a step, under the run's lock. A run is a child of the creation, and so in its
trace, and is linked to the previous run. If the running program has its own span, or its
environment names one, the run is that span's child and is linked to both. A fork starts a trace of
its own, linked to the last run of its parent.

Nothing is read or written unless a tracer is installed; failed reads and writes are logged, and the
run continues.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from attrs import frozen

from ..base.errors import AgentForgeError
from ..base.event_log import get_logger
from ..base.tracing import Attribute, Traced, is_traced, traced
from ..harness import SessionContext
from ..harness.events.session_spans import UNKNOWN_TRACE, encoded_trace, kept_trace
from ..harness.session_layout import TRACE_FILE
from ..harness.session_ports import SessionRepository

if TYPE_CHECKING:
    from ..base.tracing.conventions import Carrier
    from ..base.tracing.current import Span

_log = get_logger("agentforge.telemetry")


@contextmanager
def traced_run(
    sessions: SessionRepository, session: SessionContext, *, workflow: str, operation: str
) -> Iterator[RunTrace]:
    """Trace a run of a session within a block.

    Args:
        sessions: The session's store.
        session: The session.
        workflow: The name of its workflow.
        operation: The requested operation: "run", "resume" or "retry".
    """
    kept = kept_trace(sessions, session) if is_traced() else UNKNOWN_TRACE
    attributes = {
        Attribute.OPERATION: "invoke_workflow",
        Attribute.WORKFLOW: workflow,
        Attribute.CONVERSATION: session.session_id,
        Attribute.SESSION_ID: session.session_id,
        Attribute.RUN_OPERATION: operation,
    }
    with traced(
        Traced.RUN, attributes, detail=workflow, parent=kept.origin, links=kept.former
    ) as span:
        yield RunTrace(sessions, session.session_id, span, kept.origin)


@frozen(eq=False)
class RunTrace:
    """The trace of one run.

    Args:
        sessions: The session's store.
        session_id: The session.
        span: The run's span.
        origin: The span context that later runs belong under; this run's if empty.
    """

    _sessions: SessionRepository
    _session_id: str
    span: Span
    _origin: Carrier

    def keep(self) -> None:
        """Save the run's context for the next run; the caller holds the run's lock."""
        carrier = self.span.carrier
        if not carrier:
            return
        document = {
            "session_id": self._session_id,
            "origin": dict(self._origin or carrier),
            "run": dict(carrier),
        }
        try:
            self._sessions.keep_step(self._session_id, TRACE_FILE, encoded_trace(document))
        except AgentForgeError as error:
            _log.warning("telemetry.trace_not_kept", session_id=self._session_id, error=str(error))
