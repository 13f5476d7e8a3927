"""Measure what instrumentation costs a phase where nobody takes what it traces.

    python -m benchmarks.telemetry [--quick] [--json] [--check] [--dir DIRECTORY]

A phase is that of `benchmarks.workflows`: the agent and the gate answer at once, so that all of it
is the harness's own work, and what instrumentation adds weighs most; with an agent and a gate that
take seconds, the same cost is a thousandth of that. It works in memory where there is such a
folder, so that no disk is in the figures. Two cases are judged against the port that is given to
nobody: OpenTelemetry not loaded, and its API loaded without a provider. The SDK with a batch
processor that sends nowhere is shown for comparison.

Two figures are given. `added` is the median, over pairs of runs one after the other in random
order, of how much longer the one took; of the processor's time of this process, which other work on
the machine disturbs least, and disturbs all the same. `from its parts` is what a phase calls of the
port, times what a call takes when it is repeated: it is the sharper one, and the one that is
judged.
"""

from __future__ import annotations

import argparse
import json
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from statistics import median
from typing import Any

from agentforge_sessions.base.tracing import Attribute, Traced, traced, using
from agentforge_sessions.harness import SessionManager, SessionStore
from agentforge_sessions.workflows import AgentWork, WorkflowRunner
from benchmarks.workflows import PHASES, WORKFLOW, Agent, Gates, Stopwatch

TARGET = 0.02
"""The most that it may add, as a part of a phase."""


class Counting:
    """Takes all spans, and counts the calls."""

    def __init__(self) -> None:
        self.calls = 0

    def begin(self, *_: object, **__: object) -> Counting:
        """Count it."""
        self.calls += 1
        return self

    count = begin

    def carried(self) -> dict[str, str]:
        """Count it."""
        self.calls += 1
        return {}

    carrier = carried

    def set(self, *_: object) -> None:
        """Not counted: it is a part of its span."""

    def end(self, *_: object) -> None:
        """Not counted either."""

    fail = measure = end


def run_once(base: Path) -> float:
    """Run a workflow; return the processor's time for a phase, in seconds."""
    shutil.rmtree(base, ignore_errors=True)
    watch = Stopwatch()
    runner = WorkflowRunner(SessionManager(SessionStore(base)), Gates(watch), observer=watch)
    work = AgentWork(workflow=WORKFLOW, name="bench")
    agent = Agent(watch)
    begun = time.process_time()
    outcome = runner.start(work, agent)
    took = time.process_time() - begun
    assert outcome.reason is None, outcome.reason
    return took / PHASES


def against_nobody(
    base: Path, other: Callable[[], AbstractContextManager[object]], *, rounds: int
) -> tuple[float, float]:
    """Return the median time of a phase with nobody, and by how much more it is with `other`."""
    order = random.Random(1)
    nobody, added = [], []
    for _ in range(rounds):
        took: dict[bool, float] = {}
        for is_nobody in order.sample([True, False], 2):
            with using(None) if is_nobody else other():
                took[is_nobody] = run_once(base)
        nobody.append(took[True])
        added.append(took[False] / took[True] - 1)
    return median(nobody), median(added)


def calls_of_a_phase(base: Path) -> float:
    """Return how often a phase calls the port."""
    counting: Any = Counting()
    with using(counting):
        run_once(base)
    return counting.calls / PHASES


def time_of_a_call(times: int = 20_000, tries: int = 7) -> float:
    """Return what a span takes, with three attributes at its beginning and two more."""

    def spans() -> float:
        begun = time.process_time()
        for number in range(times):
            about = {Attribute.SESSION_ID: "s", Attribute.PHASE: "red", Attribute.ATTEMPT: number}
            with traced(Traced.ATTEMPT, about, detail="red") as span:
                span.set(Attribute.OUTCOME, "passed")
                span.set(Attribute.GATE, "suite")
        return (time.process_time() - begun) / times

    return min(spans() for _ in range(tries))


@contextmanager
def _sdk() -> Iterator[None]:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

    from agentforge_sessions.base.tracing.open_telemetry import ApiTracing

    class Nowhere(SpanExporter):
        def export(self, _: object) -> SpanExportResult:
            return SpanExportResult.SUCCESS

    tracers = TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(BatchSpanProcessor(Nowhere()))
    with using(ApiTracing(tracers, MeterProvider(shutdown_on_exit=False))):
        yield
    tracers.shutdown()


def main() -> int:
    """Measure and report."""
    parser = argparse.ArgumentParser(description="What instrumentation costs a phase.")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--check", action="store_true")
    memory = Path("/dev/shm")
    parser.add_argument("--dir", type=Path, default=memory if memory.is_dir() else ".benchmarks")
    options = parser.parse_args()
    rounds = 8 if options.quick else 250
    options.dir.mkdir(parents=True, exist_ok=True)
    assert "opentelemetry" not in sys.modules
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(dir=options.dir) as name:
        base = Path(name) / "sessions"
        with using(None):
            run_once(base)
        calls = calls_of_a_phase(base)
        for what in ("OpenTelemetry not loaded", "its API, no provider", "its SDK, sent nowhere"):
            judged = "SDK" not in what
            if "API" in what:
                import opentelemetry.metrics
                import opentelemetry.trace  # noqa: F401 (that it is loaded is what is measured)
            nobody, added = against_nobody(base, nullcontext if judged else _sdk, rounds=rounds)
            call = None
            if judged:
                call = time_of_a_call()
            rows.append(
                {
                    "what": what,
                    "nobody_ms": nobody * 1e3,
                    "added": added,
                    "calls": calls,
                    "call_us": None if call is None else call * 1e6,
                    "from_its_parts": None if call is None else calls * call / nobody,
                    "judged": judged,
                }
            )
    met = all(one["from_its_parts"] <= TARGET for one in rows if one["judged"])
    if options.json:
        print(json.dumps({"met": met, "rows": rows}, indent=2))
    else:
        _show(rows, met=met)
    return 0 if met or not options.check else 1


def _show(rows: list[dict[str, Any]], *, met: bool) -> None:
    print("| | a phase | added | calls in it | a call | from its parts |")
    print("| --- | --: | --: | --: | --: | --: |")
    for one in rows:
        call = "" if one["call_us"] is None else f"{one['call_us']:.2f} µs"
        parts = "" if one["from_its_parts"] is None else f"{one['from_its_parts']:.2%}"
        print(
            f"| {one['what']} | {one['nobody_ms']:.2f} ms | {one['added']:+.1%} "
            f"| {one['calls']:.1f} | {call} | {parts} |"
        )
    print(f"\nat most {TARGET:.0%} of a phase: {'met' if met else 'MISSED'}")


if __name__ == "__main__":
    sys.exit(main())
