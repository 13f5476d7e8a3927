"""The trace that a session's runs continue, and the spans of a run: its phases and agent's calls.

No span has a prompt or an answer.
A call's span follows the GenAI semantic conventions of OpenTelemetry.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from attrs import frozen

from ...base.errors import AgentForgeError
from ...base.event_log import get_logger
from ...base.tracing import Attribute, Traced, is_traced, traced
from ...base.tracing.conventions import TOKEN_USAGE
from ...harness import SessionContext
from ...harness.events.session_spans import UNKNOWN_TRACE, encoded_trace, kept_trace
from ...harness.session_layout import TRACE_FILE
from ...harness.session_ports import SessionRepository
from ..agents.port import AgentIdentity, AgentRequest, PhaseAgent, TokenUsage

if TYPE_CHECKING:
    from ...base.tracing.conventions import Carrier
    from ...base.tracing.current import Span
_log = get_logger("agentforge.telemetry")


class PhaseSpans(ExitStack):
    """Traces the phases of a run within a `with` block: one span from each phase to the next.

    Args:
        session_id: The session.
        workflow: The workflow's name.
    """

    def __init__(self, session_id: str, workflow: str) -> None:
        super().__init__()
        self._session_id = session_id
        self._workflow = workflow
        self._at: tuple[str, int] | None = None

    def at(self, phase: str, round_number: int) -> None:
        """Start the span of a phase, with how often the phase was entered."""
        if self._at == (phase, round_number):
            return
        self.close()
        self._at = (phase, round_number)
        about: dict[str, str | int] = {
            Attribute.SESSION_ID: self._session_id,
            Attribute.WORKFLOW: self._workflow,
            Attribute.PHASE: phase,
            Attribute.ROUND: round_number,
        }
        self.enter_context(traced(Traced.PHASE, about, detail=phase))


def traced_call(agent: PhaseAgent, request: AgentRequest) -> Span:
    """Return the span of an agent's call."""
    identity = identity_of(agent)
    return traced(
        Traced.AGENT_CALL,
        {
            Attribute.OPERATION: identity.operation,
            Attribute.PROVIDER: identity.provider,
            Attribute.MODEL: identity.model,
            Attribute.AGENT_NAME: identity.name if identity.operation == "invoke_agent" else None,
            Attribute.CONVERSATION: request.session_id,
            Attribute.SERVER_ADDRESS: identity.host,
            Attribute.SERVER_PORT: identity.port,
            Attribute.SESSION_ID: request.session_id,
            Attribute.PHASE: request.phase,
            Attribute.ATTEMPT: request.attempt,
            Attribute.CALL: request.call,
        },
        detail=f"{identity.operation} {identity.name}",
    )


def identity_of(agent: PhaseAgent) -> AgentIdentity:
    """Return an agent's identity; one without its own is identified by its description."""
    found = getattr(agent, "identity", None)
    if isinstance(found, AgentIdentity):
        return found
    return AgentIdentity(name=agent.description, provider="_OTHER")


def measure_usage(span: Span, usage: TokenUsage) -> None:
    """Report the cost of a call, in its span and as a metric."""
    span.set(Attribute.INPUT_TOKENS, usage.input_tokens)
    span.set(Attribute.OUTPUT_TOKENS, usage.output_tokens)
    span.set(Attribute.USAGE_ESTIMATED, usage.estimated)
    span.measure(TOKEN_USAGE, usage.input_tokens, {Attribute.TOKEN_TYPE: "input"})
    span.measure(TOKEN_USAGE, usage.output_tokens, {Attribute.TOKEN_TYPE: "output"})


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
