"""What traces say of sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..tracing import Attribute, Traced, traced

if TYPE_CHECKING:
    from ..tracing.port import Span
    from .session_domain import SessionContext


def attempt_span(session: SessionContext | None) -> Span:
    """Return the span of an attempt at a session's current phase; of none if None."""
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
    )
