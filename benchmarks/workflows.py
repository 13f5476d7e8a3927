"""Measure what the harness itself costs a phase of an agent's work.

    python -m benchmarks.workflows [--quick] [--json] [--check] [--dir DIRECTORY]

A phase is timed from its beginning to its recorded verdict; the time within the agent and within
the gate is taken off. What is left: reading the workspace, making and storing the prompt, storing
and recording the answer, taking it apart, applying its files, storing and recording the verdict,
going on to the next phase. The agent and the gate answer at once.

The reference is the least that the disk asks for what a phase keeps: six files of its sizes,
created, written, synced and renamed, one after the other, with nothing else around.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from agentforge_sessions.harness import PhaseResult, SessionManager, SessionStore
from agentforge_sessions.workflows import AgentWork, RunObserver, WorkflowRunner
from agentforge_sessions.workflows.agents.port import AgentAnswer, AgentRequest, TokenUsage
from agentforge_sessions.workflows.gate_port import GateExecution
from agentforge_sessions.workflows.gates.verdict import Verdict
from agentforge_sessions.workflows.workflow import FileGroup, Gate, Phase, Workflow
from benchmarks.measure import Row, Timed, row, table
from benchmarks.references import RawWriter

TARGET_MS = 50.0
PHASES = 8
CODE = "def add(a: int, b: int) -> int:\n    return a + b\n" * 200
KEPT = (14_000, 16_000, 11_000, 4_000, 1_500, 6_000)
"""About what a phase writes: prompt, answer, file, verdict, and the session's file twice."""


class Stopwatch(RunObserver):
    """Takes the time of each phase, less what the agent and the gate took."""

    def __init__(self) -> None:
        self.samples: list[float] = []
        self.outside = 0.0
        self._begun: float | None = None

    def phase_started(
        self, phase: Phase, *, attempt: int, round_number: int, position: int, total: int
    ) -> None:
        """The phase before ends where this one begins, so that going on is in it."""
        del phase, attempt, round_number, position, total
        now = time.perf_counter()
        if self._begun is not None:
            self.samples.append(now - self._begun - self.outside)
        self._begun, self.outside = now, 0.0

    def phase_finished(self, phase: Phase, verdict: Verdict, result: PhaseResult | None) -> None:
        """Nothing: what follows belongs to the phase too."""
        del phase, result
        assert verdict.passed


class Agent:
    """Answers at once with a file."""

    description = "at once"

    def __init__(self, watch: Stopwatch) -> None:
        self._watch = watch

    def answer(self, request: AgentRequest) -> AgentAnswer:
        """Answer."""
        begun = time.perf_counter()
        text = f"Done.\n\n```python:work/{request.phase}.py\n{CODE}```\n"
        answer = AgentAnswer(text=text, usage=TokenUsage(input_tokens=10, output_tokens=10))
        self._watch.outside += time.perf_counter() - begun
        return answer


class Gates:
    """Ends well at once."""

    def __init__(self, watch: Stopwatch) -> None:
        self._watch = watch

    def prepare(self, *, kit: bool) -> None:
        """Nothing is needed."""
        del kit

    def run(
        self,
        code: str,
        *,
        files: Mapping[str, bytes],
        report: str,
        deadline_s: float | None = None,
        kit: bool = False,
    ) -> GateExecution:
        """Judge."""
        del code, files, report, deadline_s, kit
        return GateExecution(result=PhaseResult(success=True, exit_code=0))


WORKFLOW = Workflow(
    name="bench",
    workflow_type="bench",
    role="You are quick.",
    token_budget=10_000_000,
    groups=[FileGroup(name="work", paths=["work/"])],
    phases=[
        Phase(
            name=f"phase-{number}",
            mode="work",
            prompt="Write a file.",
            writes=["work"],
            gate=Gate(kind="script", code="pass"),
        )
        for number in range(PHASES)
    ],
)


def measure_phases(directory: Path, *, files: int, rounds: int) -> tuple[Timed, Timed]:
    """Time the phases of runs, and in the same rounds the reference."""
    ours, reference = Timed(), Timed()
    for _ in range(rounds):
        base = directory / "sessions"
        shutil.rmtree(base, ignore_errors=True)
        watch = Stopwatch()
        manager = SessionManager(SessionStore(base))
        runner = WorkflowRunner(manager, Gates(watch), observer=watch)
        inputs = _inputs(files)
        work = AgentWork(workflow=WORKFLOW, name="bench", inputs=inputs)
        outcome = runner.start(work, Agent(watch))
        assert outcome.reason is None, outcome.reason
        ours.samples += watch.samples
        reference.samples += _raw(directory, len(watch.samples))
    return ours, reference


def _inputs(count: int) -> Sequence[object]:
    from agentforge_sessions.workflows import Input

    return [
        Input(target=f"given/{number}.py", content=(CODE[:2000]).encode())
        for number in range(count)
    ]


def _raw(directory: Path, times: int) -> list[float]:
    writer = RawWriter(directory)
    pieces = [b"x" * size for size in KEPT]
    samples = []
    for _ in range(times):
        begun = time.perf_counter()
        for piece in pieces:
            writer.save(piece)
        samples.append(time.perf_counter() - begun)
    return samples


def main() -> int:
    """Measure and report."""
    parser = argparse.ArgumentParser(description="What the harness costs a phase.")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--dir", type=Path, default=Path(".benchmarks"))
    options = parser.parse_args()
    import logging

    import structlog

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
    options.dir.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    met = True
    with tempfile.TemporaryDirectory(dir=options.dir) as name:
        for files in (0, 100):
            rounds = 4 if options.quick else 40
            ours, reference = measure_phases(Path(name), files=files, rounds=rounds)
            made = row(
                "phase",
                files,
                "the harness's own cost",
                ours,
                reference=("six files written and synced", reference),
                note=f"target: p50 of {TARGET_MS:g} ms or less",
            )
            met = met and made.p50_ms <= TARGET_MS
            rows += [made, row("phase", files, "six files written and synced", reference)]
    if options.json:
        print(json.dumps({"met": met, "rows": [one.as_fields() for one in rows]}, indent=2))
    else:
        print("size: files in the workspace before the first phase\n")
        print(table(rows))
        print(f"\np50 of {TARGET_MS:g} ms or less: {'met' if met else 'MISSED'}")
    return 0 if met or not options.check else 1


if __name__ == "__main__":
    sys.exit(main())
