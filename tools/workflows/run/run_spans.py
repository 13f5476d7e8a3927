"""The spans of a run: its phases, and its agent's calls, without prompts or answers.

A call's span follows the GenAI semantic conventions of OpenTelemetry.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from ...base.tracing import Attribute, Traced, traced
from ...base.tracing.conventions import TOKEN_USAGE
from ..agents.port import AgentIdentity, AgentRequest, PhaseAgent, TokenUsage

if TYPE_CHECKING:
    from ...base.tracing.current import Span


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
