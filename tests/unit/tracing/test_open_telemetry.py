"""Spans and metrics by OpenTelemetry's API, into its SDK with exporters in memory."""

from __future__ import annotations

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes
from opentelemetry.semconv._incubating.metrics import gen_ai_metrics
from opentelemetry.semconv.attributes import error_attributes, server_attributes
from opentelemetry.trace import NoOpTracerProvider, SpanKind, StatusCode

from agentforge_sessions.base.tracing import Attribute, Counter, Traced, carried, count, traced
from agentforge_sessions.base.tracing.conventions import TOKEN_USAGE, SpanType
from agentforge_sessions.base.tracing.open_telemetry import ApiTracing
from tests.support.tracing import Recorded, id_of, parent_of, recorded, trace_of

ELSEWHERE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
ANOTHER = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def span_types() -> list[SpanType]:
    return [one for one in vars(Traced).values() if isinstance(one, SpanType)]


def test_a_span_in_a_block_is_a_child_of_the_one_around_it() -> None:
    with recorded() as kept:
        with traced(Traced.PHASE, detail="red"), traced(Traced.ATTEMPT, detail="red"):
            pass
        with traced(Traced.PHASE, detail="green"):
            pass
    assert kept.tree() == ["phase red", "  attempt red", "phase green"]
    red, _, green = kept.spans
    assert trace_of(red) != trace_of(green)


def test_what_is_not_known_is_not_said() -> None:
    with recorded() as kept, traced(Traced.SAVE, {Attribute.SESSION_ID: "s"}) as span:
        span.set(Attribute.SESSION_REVISION, 3)
        span.set(Attribute.OUTCOME, None)
    assert kept.only("save_session").attributes == {
        "agentforge.session.id": "s",
        "agentforge.session.revision": 3,
    }


def test_an_exception_is_there_by_its_type_and_never_by_its_words() -> None:
    with recorded() as kept:
        with pytest.raises(ValueError, match="secret"), traced(Traced.SAVE):
            raise ValueError("the secret answer")
        with traced(Traced.AGENT_CALL, detail="chat m") as span:
            span.fail(KeyError("secret"))
    for name, kind in (("save_session", "ValueError"), ("chat m", "KeyError")):
        span = kept.only(name)
        assert span.status.status_code is StatusCode.ERROR
        assert span.attributes == {"error.type": kind}
        assert "secret" not in span.to_json()


def test_a_call_that_goes_well_says_nothing_of_its_status() -> None:
    with recorded() as kept, traced(Traced.GATE, detail="suite"):
        pass
    assert kept.only("gate suite").status.status_code is StatusCode.UNSET


def test_the_parent_is_the_current_span_then_the_environments_then_the_given_one() -> None:
    given = {"traceparent": ANOTHER}
    environment = {"TRACEPARENT": ELSEWHERE, "TRACESTATE": "vendor=1"}
    with (
        recorded(environment) as kept,
        traced(Traced.RUN, parent=given),
        traced(Traced.PHASE, parent=given),
    ):
        pass
    with recorded() as alone, traced(Traced.RUN, parent=given):
        pass
    run, phase = kept.spans
    assert (trace_of(run), parent_of(run)) == (
        0x0AF7651916CD43DD8448EB211C80319C,
        0xB7AD6B7169203331,
    )
    assert run.context is not None
    assert run.context.trace_state.get("vendor") == "1"
    assert parent_of(phase) == id_of(run)
    assert trace_of(alone.spans[0]) == 0x4BF92F3577B34DA6A3CE929D0E0E4736


@pytest.mark.parametrize("text", ["", "nonsense", "00-00-00-00", ELSEWHERE + "-more"])
def test_an_environment_that_names_no_span_is_passed_over(text: str) -> None:
    with recorded({"TRACEPARENT": text}) as kept, traced(Traced.RUN, parent={}):
        pass
    assert kept.spans[0].parent is None


def test_links_are_to_other_spans_than_the_parent_and_to_none_that_is_nonsense() -> None:
    links = [{"traceparent": ANOTHER}, {}, {"traceparent": "x"}, {"traceparent": ELSEWHERE}]
    with recorded() as kept, traced(Traced.RUN, parent={"traceparent": ANOTHER}, links=links):
        pass
    assert [one.context.span_id for one in kept.spans[0].links] == [0xB7AD6B7169203331]


def test_who_is_called_is_handed_the_current_span() -> None:
    with recorded() as kept, traced(Traced.AGENT_CALL, detail="chat m") as span:
        handed = carried()
        assert handed == span.carrier
    called = kept.only("chat m")
    assert handed["traceparent"][:-2] == f"00-{trace_of(called):032x}-{id_of(called):016x}-"


def test_durations_go_into_the_histogram_of_the_span_by_its_dimensions() -> None:
    with recorded() as kept:
        about = {Attribute.GATE: "suite", Attribute.PHASE: "green", Attribute.SESSION_ID: "s"}
        with traced(Traced.GATE, about) as span:
            span.set(Attribute.OUTCOME, "passed")
        with pytest.raises(OSError, match="disk"), traced(Traced.SAVE):
            raise OSError("disk")
    assert list(kept.metric("agentforge.gate.duration")) == [("suite", "passed")]
    assert list(kept.metric("agentforge.save.duration")) == [("OSError",)]


def test_a_dimension_that_is_not_known_is_left_out() -> None:
    with recorded() as kept, traced(Traced.PHASE, {Attribute.WORKFLOW: "w", Attribute.PHASE: None}):
        pass
    assert list(kept.metric("agentforge.phase.duration")) == [("w",)]


def test_counts_and_measurements_add_up() -> None:
    with recorded() as kept:
        count(Counter.TOKENS, 3, {Attribute.PHASE: "red"})
        count(Counter.TOKENS, 4, {Attribute.PHASE: "red"})
        count(Counter.TOKENS, 5, {Attribute.PHASE: None})
        with traced(Traced.AGENT_CALL, {Attribute.PROVIDER: "openai"}) as span:
            span.measure(TOKEN_USAGE, 70, {Attribute.TOKEN_TYPE: "input"})
    assert kept.metric("agentforge.session.tokens") == {("red",): 7, (): 5}
    assert kept.metric("gen_ai.client.token.usage") == {("openai", "input"): 70}


def test_spans_that_are_open_when_the_process_is_ended_end_inside_out() -> None:
    with recorded() as kept:
        with traced(Traced.RUN, detail="w"), traced(Traced.PHASE, detail="red"):
            kept.tracing.end_open(KeyboardInterrupt())
            assert [one.name for one in kept._exporter.get_finished_spans()] == [
                "phase red",
                "invoke_workflow w",
            ]
        assert len(kept.spans) == 2, "none ends twice"
    assert all(one.status.status_code is StatusCode.ERROR for one in kept.spans)


def test_nobody_hears_until_there_is_a_provider() -> None:
    assert not ApiTracing().is_heard
    assert not ApiTracing(NoOpTracerProvider()).is_heard
    assert ApiTracing(TracerProvider(shutdown_on_exit=False)).is_heard
    assert ApiTracing(None, Recorded().meters).is_heard


def test_kinds_are_opentelemetrys() -> None:
    kinds = {one.name.lower() for one in SpanKind}
    assert {one.kind for one in span_types()} <= kinds
    with recorded() as kept:
        for one in span_types():
            with traced(one):
                pass
    assert [one.kind.name.lower() for one in kept.spans] == [one.kind for one in span_types()]


def test_names_that_the_semantic_conventions_have_are_theirs() -> None:
    known = {
        value
        for module in (gen_ai_attributes, error_attributes, server_attributes)
        for name, value in vars(module).items()
        if name.isupper() and isinstance(value, str)
    } | {"process.exit.code"}
    own = {value for name, value in vars(Attribute).items() if name.isupper()}
    assert {name for name in own if not name.startswith("agentforge.")} <= known
    assert TOKEN_USAGE.name == gen_ai_metrics.GEN_AI_CLIENT_TOKEN_USAGE
    call = Traced.AGENT_CALL.duration
    assert call is not None
    assert call.name == gen_ai_metrics.GEN_AI_CLIENT_OPERATION_DURATION


def test_dimensions_are_attributes_of_their_span_and_no_ids() -> None:
    ids = {Attribute.SESSION_ID, Attribute.CONVERSATION, Attribute.QUESTION_ID}
    for one in span_types():
        if one.duration is not None:
            assert set(one.duration.dimensions) <= set(one.attributes) - ids
            assert list(one.duration.buckets) == sorted(set(one.duration.buckets))
