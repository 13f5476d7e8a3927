"""A session's trace, which goes on with whichever worker runs the session next.

The context of the span in which the session was created is kept beside it (`session_spans`); each
run keeps its own context as a step, under the run's lock. A run is a child of the creation, and so
in its trace, and is linked to the run before it. Where the program that runs it has a span of its
own, or its environment names one, the run is that span's child and is linked to both. A fork begins
a trace of its own, linked to the last run of its parent.

Nothing is read or written unless somebody takes spans; what can't be read or written is logged, and
the run goes on.
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
    from ..base.tracing.current import Span
    from ..base.tracing.port import Carrier

_log = get_logger("agentforge.telemetry")


@contextmanager
def traced_run(
    sessions: SessionRepository, session: SessionContext, *, workflow: str, operation: str
) -> Iterator[RunTrace]:
    """Trace a run of a session within a block.

    Args:
        sessions: Where the session is kept.
        session: The session.
        workflow: What it runs.
        operation: What was asked for: "run", "resume" or "retry".
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
        sessions: Where the session is kept.
        session_id: The session.
        span: The run's span.
        origin: What later runs belong under; this run if empty.
    """

    _sessions: SessionRepository
    _session_id: str
    span: Span
    _origin: Carrier

    def keep(self) -> None:
        """Keep the run's context for the run after it; the caller holds the run's lock."""
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
