"""Who takes spans: nobody, the program's OpenTelemetry, or whoever a test gives them to."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from agentforge_sessions.base.tracing import (
    Counter,
    Traced,
    carried,
    configure_when_traced,
    count,
    is_traced,
    traced,
    using,
)
from agentforge_sessions.base.tracing.conventions import TOKEN_USAGE
from tests.support.tracing import BrokenTracing, recorded

RUN = """
import sys
{before}
from agentforge_sessions.base.tracing import (Traced, carried, count, Counter, is_traced, traced)
with traced(Traced.SAVE) as span:
    span.set("a", 1)
    {within}
count(Counter.CONFLICTS)
loaded = sorted(name for name in sys.modules if name.startswith("opentelemetry"))
print(type(span).__name__, is_traced(), dict(carried()), {shown})
"""


def in_a_process(before: str = "", within: str = "pass", shown: str = "loaded") -> str:
    done = subprocess.run(
        [sys.executable, "-c", RUN.format(before=before, within=within, shown=shown)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return done.stdout.strip()


def test_nothing_is_loaded_where_the_program_has_not_loaded_it() -> None:
    assert in_a_process() == "_Untraced False {} []"


def test_without_opentelemetry_installed_everything_works_and_nothing_is_said() -> None:
    blocked = (
        "class Blocked:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name.split('.')[0] == 'opentelemetry':\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Blocked())\n"
    )
    assert in_a_process(blocked) == "_Untraced False {} []"


def test_without_opentelemetry_installed_sessions_are_saved_and_the_command_line_says_nothing(
    tmp_path: Path,
) -> None:
    program = """
import os, sys
class Blocked:
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] == "opentelemetry":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Blocked())
from agentforge_sessions import SessionManager
from agentforge_sessions.entrypoints.cli import main
session = SessionManager(sys.argv[1]).create("own", "one", 1000)
sys.argv[1:] = ["--base", sys.argv[1], "session", "pause", session.session_id]
main.main()
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"},
    )
    assert done.stderr == ""
    assert "paused" in done.stdout


def test_with_the_api_alone_nothing_is_traced() -> None:
    before = "import opentelemetry.trace"
    assert in_a_process(before, shown="'opentelemetry.sdk' in sys.modules") == (
        "_Untraced False {} False"
    )


def test_a_program_that_has_configured_a_provider_sees_the_spans_in_its_traces() -> None:
    before = """
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
"""
    shown = "[one.name for one in exporter.get_finished_spans()]"
    assert in_a_process(before, shown=shown) == "_GuardedSpan True {} ['save_session']"


def test_a_provider_that_is_configured_later_is_found() -> None:
    before = "from opentelemetry import metrics"
    within = (
        "from opentelemetry.sdk.metrics import MeterProvider; "
        "metrics.set_meter_provider(MeterProvider())"
    )
    assert in_a_process(before, within, "''").startswith("_Untraced True {}")


def test_a_span_that_nobody_takes_is_one_object_that_does_nothing() -> None:
    with using(None):
        first = traced(Traced.SAVE, {"a": 1}, detail="x", links=[{"traceparent": "x"}])
        assert traced(Traced.RUN) is first
        with first as span:
            span.set("a", 1)
            span.fail(ValueError())
            span.measure(TOKEN_USAGE, 1, {})
            assert span.carrier == {} == carried()
        with pytest.raises(KeyError), first:
            raise KeyError
        assert not is_traced()


@pytest.mark.parametrize(
    "operation", ["begin", "set", "fail", "measure", "carrier", "end", "count", "carried"]
)
def test_what_tracing_raises_is_logged_once_and_goes_no_further(
    operation: str,
) -> None:
    class Odd(Exception):
        pass

    done = []
    with using(BrokenTracing({operation}, Odd)), capture_logs() as told:
        for _ in range(3):
            with traced(Traced.SAVE) as span:
                span.set("a", 1)
                span.fail(ValueError())
                span.measure(TOKEN_USAGE, 1, {})
                assert span.carrier == {} or operation != "carrier"
                done.append("work")
            count(Counter.CONFLICTS)
            carried()
    assert done == ["work"] * 3
    assert [(one["event"], one["error"]) for one in told] == [
        ("telemetry.failed", f"Odd: {operation}")
    ]


def test_an_interruption_is_no_fault_of_tracing() -> None:
    class Interrupted(BrokenTracing):
        def _do(self, operation: str) -> None:
            raise KeyboardInterrupt

    with using(Interrupted(())), pytest.raises(KeyboardInterrupt), traced(Traced.SAVE):
        pass


def test_the_works_own_exception_gets_out_whatever_tracing_does() -> None:
    broken = BrokenTracing({"end", "fail"})
    with using(broken), pytest.raises(ZeroDivisionError), traced(Traced.SAVE):
        raise ZeroDivisionError


def test_configuration_is_done_once_before_the_first_span() -> None:
    done: list[str] = []
    configure_when_traced(lambda: done.append("configured"))
    assert done == []
    for _ in range(2):
        with traced(Traced.SAVE):
            pass
    assert done == ["configured"]


def test_a_configuration_that_fails_is_logged_and_not_tried_again() -> None:
    class Odd(Exception):
        pass

    def fail() -> None:
        raise Odd("no such exporter")

    configure_when_traced(fail)
    with capture_logs() as told:
        count(Counter.CONFLICTS)
        count(Counter.CONFLICTS)
    assert [(one["operation"], one["error"]) for one in told] == [
        ("configure", "Odd: no such exporter")
    ]


def test_who_takes_spans_is_restored_after_the_block() -> None:
    with recorded() as outer:
        with using(None), traced(Traced.SAVE):
            pass
        with traced(Traced.RUN, detail="w"):
            pass
    assert [one.name for one in outer.spans] == ["invoke_workflow w"]
