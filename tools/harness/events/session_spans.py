"""Trace spans of sessions, and how a session's trace continues in another process.

The span in which a session is created ends at once, so that it is exported whatever happens later.
Its context is saved beside the session with the first save. Nothing is read or written unless spans
are collected; what can't be read is logged, and the work continues.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from ...base.errors import AgentForgeError
from ...base.event_log import get_logger
from ...base.tracing import Attribute, Traced, traced
from ..domain.history_events import SessionForked
from ..session_layout import TRACE_FILE

if TYPE_CHECKING:
    from ...base.tracing.conventions import Carrier
    from ...base.tracing.current import Span
    from ..session_domain import SessionContext
    from ..session_ports import SessionRepository

_log = get_logger("agentforge.telemetry")
_MEMBERS: Final = ("traceparent", "tracestate")
_LONGEST: Final = 1024


def attempt_span(session: SessionContext | None, parent: Carrier | Callable[[], Carrier]) -> Span:
    """Return the span of an attempt at a session's current phase; without attributes if None.

    Args:
        session: The session.
        parent: The parent span's context, or a function that returns it, if no span is current.
    """
    if session is None:
        return traced(Traced.ATTEMPT)
    return traced(
        Traced.ATTEMPT,
        {
            Attribute.SESSION_ID: session.session_id,
            Attribute.PHASE: session.current_phase,
            Attribute.ATTEMPT: session.attempt_number,
        },
        detail=session.current_phase,
        parent=parent,
    )


def trace_attachment(span: Span) -> dict[str, bytes]:
    """Return the attachment that saves a new session's creating span; empty without a span."""
    carrier = span.carrier
    return {TRACE_FILE: encoded_trace({"origin": dict(carrier)})} if carrier else {}


class KeptTrace(NamedTuple):
    """The saved contexts of a session's trace.

    Attributes:
        origin: The parent of a run that has no nearer one; empty if none.
        former: The spans that a run continues, the last one first.
    """

    origin: Carrier
    former: tuple[Carrier, ...] = ()


UNKNOWN_TRACE: Final = KeptTrace(origin={})


def kept_trace(sessions: SessionRepository, session: SessionContext) -> KeptTrace:
    """Read a session's saved trace; what can't be read is logged."""
    session_id = session.session_id
    try:
        step = _decoded(sessions.read_step(session_id, TRACE_FILE))
        own = step.get("session_id") == session_id
        created = _decoded(sessions.read_attachment(session_id, TRACE_FILE))
    except (AgentForgeError, ValueError) as error:
        _log.warning("telemetry.trace_unreadable", session_id=session_id, error=str(error))
        return UNKNOWN_TRACE
    run, origin = _carrier(step.get("run")), _carrier(created.get("origin"))
    if own:
        return KeptTrace(origin=_carrier(step.get("origin")), former=(run, origin))
    if step or any(entry.event_type is SessionForked for entry in session.history):
        return KeptTrace(origin={}, former=(run, origin))  # the parent's, inherited
    return KeptTrace(origin=origin, former=(origin,))


def encoded_trace(document: dict[str, Any]) -> bytes:
    """Return the bytes of a saved trace."""
    return json.dumps(document, indent=1).encode()


def _decoded(data: bytes | None) -> dict[str, Any]:
    """Return the saved trace; empty without one.

    Raises:
        ValueError: It is not a JSON object.
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
    """Return a span context from a document; empty if it holds none."""
    if not isinstance(value, dict):
        return {}
    members = ((name, value.get(name)) for name in _MEMBERS)
    return {name: one for name, one in members if isinstance(one, str) and len(one) <= _LONGEST}
