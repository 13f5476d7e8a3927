"""The spans, attributes and metrics of the library, each named here and nowhere else; pure.

OpenTelemetry's GenAI semantic conventions are used where they define a name, all others start with
`agentforge.`. No attribute contains text of a prompt, an answer, a question, a goal or of code's
output; error messages, which may quote them, are left out too. docs/integrations.md lists all of
this in tables, and a test compares them.

The classes are plain ones: the hook of an agent program, which runs at each of its events, loads
them, and an enumeration of data classes takes as long to load as the rest of a session does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, Literal, Protocol

SCOPE: Final = "agentforge"
"""The instrumentation scope of all spans and metrics."""

_SECONDS: Final = (
    *(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5),
    *(1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0, 3600.0),
)
_CALL_SECONDS: Final = tuple(0.01 * 2**power for power in range(18))
_TOKENS: Final = tuple(float(4**power) for power in range(14))


class Attribute:
    """The names of attributes."""

    SESSION_ID: Final = "agentforge.session.id"
    SESSION_STATE: Final = "agentforge.session.state"
    SESSION_REVISION: Final = "agentforge.session.revision"
    RUN_OPERATION: Final = "agentforge.run.operation"
    STOP_CAUSE: Final = "agentforge.stop.cause"
    PHASE: Final = "agentforge.phase"
    ROUND: Final = "agentforge.round"
    ATTEMPT: Final = "agentforge.attempt"
    CALL: Final = "agentforge.call"
    USAGE_ESTIMATED: Final = "agentforge.usage.estimated"
    OUTCOME: Final = "agentforge.outcome"
    GATE: Final = "agentforge.gate"
    EXECUTOR: Final = "agentforge.executor"
    INTERPRETER: Final = "agentforge.interpreter"
    FUEL: Final = "agentforge.fuel"
    TRAPPED: Final = "agentforge.trapped"
    QUESTION_ID: Final = "agentforge.question.id"
    QUESTION_COUNT: Final = "agentforge.question.count"
    EXIT_CODE: Final = "process.exit.code"
    ERROR_TYPE: Final = "error.type"
    SERVER_ADDRESS: Final = "server.address"
    SERVER_PORT: Final = "server.port"
    OPERATION: Final = "gen_ai.operation.name"
    WORKFLOW: Final = "gen_ai.workflow.name"
    CONVERSATION: Final = "gen_ai.conversation.id"
    AGENT_NAME: Final = "gen_ai.agent.name"
    PROVIDER: Final = "gen_ai.provider.name"
    MODEL: Final = "gen_ai.request.model"
    INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
    OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
    TOKEN_TYPE: Final = "gen_ai.token.type"  # noqa: S105 (no secret)


class CounterType:
    """A counter metric.

    Attributes:
        name: Its name.
        description: What is measured.
        dimensions: The attributes that distinguish its series; few values each.
        unit: Its unit, as UCUM spells it.
    """

    __slots__ = ("description", "dimensions", "name", "unit")

    def __init__(
        self, name: str, description: str, dimensions: tuple[str, ...] = (), *, unit: str
    ) -> None:
        self.name: Final = name
        self.description: Final = description
        self.dimensions: Final = dimensions
        self.unit: Final = unit


class Histogram(CounterType):
    """A metric of single amounts; in seconds by default.

    Attributes:
        buckets: The default bounds of its buckets; a program's view overrides them.
    """

    __slots__ = ("buckets",)

    def __init__(
        self,
        name: str,
        description: str,
        dimensions: tuple[str, ...] = (),
        *,
        unit: str = "s",
        buckets: tuple[float, ...] = _SECONDS,
    ) -> None:
        super().__init__(name, description, dimensions, unit=unit)
        self.buckets: Final = buckets


class SpanType:
    """The common properties of one kind of span.

    Attributes:
        prefix: The start of their names; the variable part follows: a phase, a model.
        kind: OpenTelemetry's kind: "internal", "client" or "producer".
        attributes: Their possible attributes, besides the error's type.
        duration: The histogram of their durations, or None.
    """

    __slots__ = ("attributes", "duration", "kind", "prefix")

    def __init__(
        self,
        prefix: str,
        kind: Literal["internal", "client", "producer"],
        attributes: tuple[str, ...],
        duration: Histogram | None = None,
    ) -> None:
        self.prefix: Final = prefix
        self.kind: Final = kind
        self.attributes: Final = attributes
        self.duration: Final = duration


class Counter:
    """The counters."""

    TOKENS: Final = CounterType(
        "agentforge.session.tokens",
        "Tokens charged to the budgets of sessions.",
        (Attribute.PHASE,),
        unit="{token}",
    )
    CONFLICTS: Final = CounterType(
        "agentforge.session.conflicts",
        "Saves that were refused, because another worker had saved the session first.",
        unit="{conflict}",
    )


TOKEN_USAGE: Final = Histogram(
    "gen_ai.client.token.usage",
    "Tokens that went into, and came out of, a call of an agent.",
    (Attribute.OPERATION, Attribute.PROVIDER, Attribute.MODEL, Attribute.TOKEN_TYPE),
    unit="{token}",
    buckets=_TOKENS,
)


class Traced:
    """The kinds of spans."""

    CREATE: Final = SpanType(
        "create_session",
        "producer",
        (Attribute.SESSION_ID, Attribute.CONVERSATION, Attribute.WORKFLOW),
    )
    RUN: Final = SpanType(
        "invoke_workflow",
        "internal",
        (
            Attribute.OPERATION,
            Attribute.WORKFLOW,
            Attribute.CONVERSATION,
            Attribute.SESSION_ID,
            Attribute.RUN_OPERATION,
            Attribute.SESSION_STATE,
            Attribute.STOP_CAUSE,
        ),
        Histogram(
            "agentforge.run.duration",
            "One worker's run of a session, until it is complete, paused or broken off.",
            (Attribute.WORKFLOW, Attribute.SESSION_STATE, Attribute.STOP_CAUSE),
        ),
    )
    PHASE: Final = SpanType(
        "phase",
        "internal",
        (Attribute.SESSION_ID, Attribute.WORKFLOW, Attribute.PHASE, Attribute.ROUND),
        Histogram(
            "agentforge.phase.duration",
            "A phase of one run, with all its attempts.",
            (Attribute.WORKFLOW, Attribute.PHASE),
        ),
    )
    ATTEMPT: Final = SpanType(
        "attempt",
        "internal",
        (Attribute.SESSION_ID, Attribute.PHASE, Attribute.ATTEMPT, Attribute.OUTCOME),
        Histogram(
            "agentforge.attempt.duration",
            "One attempt at a phase, until its verdict is recorded or it stops.",
            (Attribute.PHASE, Attribute.OUTCOME),
        ),
    )
    AGENT_CALL: Final = SpanType(
        "",
        "client",
        (
            Attribute.OPERATION,
            Attribute.PROVIDER,
            Attribute.MODEL,
            Attribute.AGENT_NAME,
            Attribute.CONVERSATION,
            Attribute.SERVER_ADDRESS,
            Attribute.SERVER_PORT,
            Attribute.INPUT_TOKENS,
            Attribute.OUTPUT_TOKENS,
            Attribute.USAGE_ESTIMATED,
            Attribute.SESSION_ID,
            Attribute.PHASE,
            Attribute.ATTEMPT,
            Attribute.CALL,
        ),
        Histogram(
            "gen_ai.client.operation.duration",
            "One call of an agent, with what is tried again within it.",
            (Attribute.OPERATION, Attribute.PROVIDER, Attribute.MODEL),
            buckets=_CALL_SECONDS,
        ),
    )
    GATE: Final = SpanType(
        "gate",
        "internal",
        (Attribute.SESSION_ID, Attribute.PHASE, Attribute.GATE, Attribute.OUTCOME),
        Histogram(
            "agentforge.gate.duration",
            "The judgement of an attempt by its gate.",
            (Attribute.GATE, Attribute.OUTCOME),
        ),
    )
    EXECUTION: Final = SpanType(
        "execute",
        "internal",
        (
            Attribute.EXECUTOR,
            Attribute.INTERPRETER,
            Attribute.EXIT_CODE,
            Attribute.TRAPPED,
            Attribute.FUEL,
        ),
        Histogram(
            "agentforge.execution.duration",
            "An execution in the sandbox or in a jail, with the wait for its workspace.",
            (Attribute.EXECUTOR, Attribute.TRAPPED),
        ),
    )
    QUESTION: Final = SpanType(
        "ask_person",
        "internal",
        (
            Attribute.SESSION_ID,
            Attribute.QUESTION_ID,
            Attribute.QUESTION_COUNT,
            Attribute.OUTCOME,
        ),
        Histogram(
            "agentforge.question.duration",
            "A question to a person, as long as a worker waits for the reply.",
            (Attribute.OUTCOME,),
        ),
    )
    SAVE: Final = SpanType(
        "save_session",
        "internal",
        (Attribute.SESSION_ID, Attribute.SESSION_REVISION),
        Histogram("agentforge.save.duration", "A save of a session."),
    )


Carrier = Mapping[str, str]
"""A span's context as W3C Trace Context spells it: `traceparent`, and `tracestate` if any."""
Value = str | int | float | bool


class OpenSpan(Protocol):
    """A started span of a recipient. Its exceptions do no harm."""

    def set(self, attribute: str, value: Value) -> None:
        """Set an attribute."""
        ...

    def fail(self, error: BaseException) -> None:
        """Mark it as failed."""
        ...

    def measure(self, histogram: Histogram, amount: float, more: Mapping[str, Value]) -> None:
        """Record a measurement beside it."""
        ...

    def carrier(self) -> Carrier:
        """Return its context."""
        ...

    def end(self, error: BaseException | None) -> None:
        """End it; it is no longer the current span."""
        ...


class Tracing(Protocol):
    """Receives spans and metrics. Its exceptions do no harm."""

    def begin(
        self,
        span_type: SpanType,
        name: str,
        attributes: Mapping[str, Value | None],
        *,
        parent: Carrier,
        links: Iterable[Carrier],
    ) -> OpenSpan:
        """Start a span and make it the current one.

        Args:
            span_type: Its kind.
            name: Its name.
            attributes: The attributes known now; None means unknown.
            parent: Its parent, where no span is current and the environment names none; may be
                empty.
            links: Related spans.
        """
        ...

    def count(
        self, counter: CounterType, amount: int, attributes: Mapping[str, Value | None]
    ) -> None:
        """Add to a counter."""
        ...

    def carried(self) -> Carrier:
        """Return the context of the current span; empty without a span."""
        ...
