"""A session's trace, which goes on with whichever worker runs the session next.

The span in which a session is created ends at once, so that it is known whatever happens later. Its
context is kept beside the session from the first save on; each run keeps its own context as a step,
under the run's lock. A run is a child of the creation, and so in its trace, and is linked to the
run before it. Where the program that runs it has a span of its own, or its environment names one,
the run is that span's child and is linked to both. A fork begins a trace of its own, linked to the
last run of its parent.

Nothing is read or written unless somebody takes spans; what can't be read or written is logged, and
the run goes on.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from attrs import frozen

from ..errors import AgentForgeError
from ..event_log import get_logger
from ..harness import SessionContext
from ..harness.history_events import SessionForked
from ..harness.session_layout import TRACE_FILE
from ..harness.session_ports import SessionRepository
from ..tracing import Attribute, Traced, is_traced, traced

if TYPE_CHECKING:
    from ..tracing.port import Carrier, Span

_log = get_logger("agentforge.telemetry")
_MEMBERS: Final = ("traceparent", "tracestate")
_LONGEST: Final = 1024


def trace_attachment(span: Span) -> dict[str, bytes]:
    """Return what a new session keeps of the span that creates it; empty where there is none."""
    carrier = span.carrier
    return {TRACE_FILE: _encoded({"origin": dict(carrier)})} if carrier else {}


@frozen(kw_only=True)
class KeptTrace:
    """What is known of a session's trace.

    Attributes:
        origin: The span that a run belongs under, where it has no nearer one; empty if none.
        former: The spans that a run goes on from, the last one first.
    """

    origin: Carrier
    former: tuple[Carrier, ...] = ()


_UNKNOWN: Final = KeptTrace(origin={})


def kept_trace(sessions: SessionRepository, session: SessionContext) -> KeptTrace:
    """Read what is kept of a session's trace."""
    session_id = session.session_id
    try:
        step = _decoded(sessions.read_step(session_id, TRACE_FILE))
        own = step.get("session_id") == session_id
        created = _decoded(sessions.read_attachment(session_id, TRACE_FILE))
    except (AgentForgeError, ValueError) as error:
        _log.warning("telemetry.trace_unreadable", session_id=session_id, error=str(error))
        return _UNKNOWN
    run, origin = _carrier(step.get("run")), _carrier(created.get("origin"))
    if own:
        return KeptTrace(origin=_carrier(step.get("origin")), former=(run, origin))
    if step or any(entry.event_type is SessionForked for entry in session.history):
        return KeptTrace(origin={}, former=(run, origin))  # the parent's, taken along
    return KeptTrace(origin=origin, former=(origin,))


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
    kept = kept_trace(sessions, session) if is_traced() else _UNKNOWN
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


class RunTrace:
    """The trace of one run.

    Args:
        sessions: Where the session is kept.
        session_id: The session.
        span: The run's span.
        origin: What later runs belong under; this run if empty.
    """

    def __init__(
        self, sessions: SessionRepository, session_id: str, span: Span, origin: Carrier
    ) -> None:
        self.span: Final = span
        self._sessions = sessions
        self._session_id = session_id
        self._origin = origin

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
            self._sessions.keep_step(self._session_id, TRACE_FILE, _encoded(document))
        except AgentForgeError as error:
            _log.warning("telemetry.trace_not_kept", session_id=self._session_id, error=str(error))


def _encoded(document: dict[str, Any]) -> bytes:
    return json.dumps(document, indent=1).encode()


def _decoded(data: bytes | None) -> dict[str, Any]:
    """Return what was kept; empty where nothing was.

    Raises:
        ValueError: It is no JSON object.
    """
    if data is None:
        return {}
    try:
        found = json.loads(data)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if isinstance(found, dict):
        return found
    raise ValueError("it is no JSON object")


def _carrier(value: object) -> Carrier:
    """Return a context out of a document; empty where it is none."""
    if not isinstance(value, dict):
        return {}
    members = ((name, value.get(name)) for name in _MEMBERS)
    return {name: one for name, one in members if isinstance(one, str) and len(one) <= _LONGEST}
