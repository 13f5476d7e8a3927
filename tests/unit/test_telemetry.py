"""The SDK in our own processes: what is asked for, what is sent, and how long that takes."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Mapping

import pytest

from agentforge_sessions.entrypoints.cli.checks.checks import check_telemetry
from agentforge_sessions.entrypoints.cli.checks.findings import Status
from agentforge_sessions.integrations.telemetry import TelemetryRequest, sdk_problem
from tests.support.tracing import Receiver, values_of

TRACED = """
import json, logging, sys
from agentforge_sessions.integrations.telemetry import (begin_telemetry, end_telemetry)
from agentforge_sessions.base.tracing import (Counter, Traced, count, traced)

events = []

class Kept(logging.Handler):
    def emit(self, record):
        events.append(record.getMessage().split()[0])

logging.getLogger("agentforge").addHandler(Kept())
begin_telemetry()
before = "opentelemetry.sdk" in sys.modules
with traced(Traced.RUN, detail="w"), traced(Traced.SAVE):
    count(Counter.CONFLICTS)
end_telemetry()
end_telemetry()
after = "opentelemetry.sdk" in sys.modules
print(json.dumps({"before": before, "after": after, "events": events}))
"""


def environment(given: Mapping[str, str]) -> dict[str, str]:
    kept = {name: one for name, one in os.environ.items() if not name.startswith("OTEL_")}
    return {**kept, "NO_PROXY": "127.0.0.1", **given}


def trace_something(given: Mapping[str, str]) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-c", TRACED],
        capture_output=True,
        text=True,
        check=True,
        env=environment(given),
    )
    assert done.stderr == ""
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize(
    ("variables", "traces", "metrics"),
    [
        ({}, None, None),
        ({"OTEL_SERVICE_NAME": "x"}, None, None),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, "otlp", "otlp"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, None, None),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4318/v1/traces"}, "otlp", None),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c:4318/v1/metrics"}, None, "otlp"),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, "otlp", None),
        ({"OTEL_METRICS_EXPORTER": "Console"}, None, "console"),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_METRICS_EXPORTER": "none"},
            "otlp",
            None,
        ),
        (
            {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_SDK_DISABLED": "True"},
            None,
            None,
        ),
    ],
)
def test_the_standard_variables_ask_for_it(
    variables: dict[str, str], traces: str | None, metrics: str | None
) -> None:
    request = TelemetryRequest.of(variables)
    assert (request.traces, request.metrics) == (traces, metrics)
    assert bool(request) is (traces is not None or metrics is not None)


def test_what_was_traced_is_sent_with_who_this_process_is() -> None:
    with Receiver() as receiver:
        told = trace_something(
            {
                "OTEL_EXPORTER_OTLP_ENDPOINT": receiver.endpoint,
                "OTEL_RESOURCE_ATTRIBUTES": "host.name=given,deployment.environment.name=test",
            }
        )
    assert told == {"before": False, "after": True, "events": []}
    (process, run), (_, save) = receiver.spans
    assert (run.name, save.name) == ("invoke_workflow w", "save_session")
    assert save.parent_span_id == run.span_id
    assert process["service.name"] == "agentforge"
    assert process["host.name"] == "given"
    assert process["deployment.environment.name"] == "test"
    assert process["process.pid"] > 0
    (request,) = receiver.metrics
    (resource,) = request.resource_metrics
    assert values_of(resource.resource.attributes)["service.name"] == "agentforge"
    (scope,) = resource.scope_metrics
    assert scope.scope.name == "agentforge"
    assert {one.name for one in scope.metrics} >= {
        "agentforge.session.conflicts",
        "agentforge.save.duration",
    }


def test_the_environment_names_the_service() -> None:
    with Receiver() as receiver:
        trace_something(
            {
                "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": f"{receiver.endpoint}/v1/traces",
                "OTEL_SERVICE_NAME": "ours",
            }
        )
    assert {process["service.name"] for process, _ in receiver.spans} == {"ours"}
    assert receiver.metrics == []


def test_nothing_is_loaded_where_nothing_is_asked_for() -> None:
    assert trace_something({"OTEL_SDK_DISABLED": "true"}) == {
        "before": False,
        "after": False,
        "events": [],
    }


def test_a_collector_that_never_answers_ends_no_later_than_the_bound() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections, says nothing
        told = trace_something(
            {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{silent.getsockname()[1]}"}
        )
    assert told["events"] == ["telemetry.not_sent"]


def test_an_exporter_that_can_not_be_had_is_named_with_what_to_do() -> None:
    told = trace_something({"OTEL_TRACES_EXPORTER": "zipkin"})
    assert told["events"] == ["telemetry.unusable"]


@pytest.mark.parametrize(
    ("variables", "status", "said"),
    [
        ({}, Status.OK, "none asked for"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318"}, Status.OK, "traces by otlp, metrics by"),
        ({"OTEL_TRACES_EXPORTER": "console"}, Status.OK, "traces by console"),
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, Status.WARN, "OTEL_TRACES_EXPORTER=zipkin"),
        (
            {"OTEL_TRACES_EXPORTER": "otlp", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"},
            Status.WARN,
            "http/json is not known",
        ),
    ],
)
def test_doctor_says_what_is_asked_for_and_what_is_wrong(
    variables: dict[str, str], status: Status, said: str
) -> None:
    finding = check_telemetry(variables)
    assert finding.status is status
    assert said in finding.message
    assert (finding.advice is None) is (status is Status.OK)


def test_a_missing_exporter_is_named_with_the_line_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = "opentelemetry.exporter.otlp.proto.http.trace_exporter"
    monkeypatch.setitem(sys.modules, module, None)
    problem = sdk_problem(TelemetryRequest(traces="otlp", metrics=None), {})
    assert problem is not None
    assert "pip install 'agentforge-sessions[otel]'" in problem
    grpc = {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}
    problem = sdk_problem(TelemetryRequest(traces="otlp", metrics=None), grpc)
    assert problem is not None
    assert "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf" in problem
