"""The real command, traced over OTLP: killed, ended by SIGTERM, and finished by another worker."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agentforge_sessions.harness import SessionStore
from agentforge_sessions.sandbox import prepare
from agentforge_sessions.wiring.gates.gate_sandbox import SandboxGates
from tests.support.agents import GOOD, SPEC
from tests.support.promptness import wait_until
from tests.support.tracing import Receiver, values_of

# The first run on a machine compiles the guest, which takes minutes.
pytestmark = pytest.mark.timeout(900)

ROOT = Path(__file__).resolve().parents[2]
AGENT = """\
import os, pathlib, sys, time
parent = os.getppid()
sys.stdin.read()
here = pathlib.Path(__file__).parent
phase = os.environ["AGENTFORGE_PHASE"]
with open(here / "calls", "a") as calls:
    calls.write(f"{phase} {os.environ['TRACEPARENT']}\\n")
if phase == "green" and not (here / "waited").exists():
    (here / "waited").touch()
    while os.getppid() == parent:  # until the worker is ended
        time.sleep(0.05)
    sys.exit(1)
print((here / (phase + ".md")).read_text())
"""
_PATIENCE_S = 300


class Work:
    """An agent that waits in green, and workers that send what they trace."""

    def __init__(self, folder: Path, receiver: Receiver) -> None:
        self.folder = folder
        self.receiver = receiver
        self.base = folder / "sessions"
        (folder / "agent.py").write_text(AGENT)
        (folder / "spec.yaml").write_text(SPEC)
        for phase, (text,) in GOOD.items():
            (folder / f"{phase}.md").write_text(text)

    def worker(self, *words: str) -> subprocess.Popen[bytes]:
        kept = {name: one for name, one in os.environ.items() if not name.startswith("OTEL_")}
        return subprocess.Popen(
            [
                *(sys.executable, "-m", "agentforge_sessions.entrypoints.cli"),
                *("--base", str(self.base), *words),
            ],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={
                **kept,
                "PYTHONPATH": str(ROOT),
                "NO_PROXY": "127.0.0.1",
                "OTEL_EXPORTER_OTLP_ENDPOINT": self.receiver.endpoint,
                "OTEL_BSP_SCHEDULE_DELAY": "20",
            },
        )

    def begun(self) -> subprocess.Popen[bytes]:
        """A worker whose agent waits in green, when what it traced of red has arrived."""
        agent = f"{sys.executable} {self.folder / 'agent.py'}"
        worker = self.worker("run", "tdflow", str(self.folder / "spec.yaml"), "--agent", agent)
        wait_until(
            lambda: "phase red" in self.names and (self.folder / "waited").exists(),
            patience_s=_PATIENCE_S,
        )
        return worker

    @property
    def session_id(self) -> str:
        (only,) = SessionStore(self.base).list_sessions()
        return only

    @property
    def names(self) -> list[str]:
        return [span.name for _, span in self.receiver.spans]

    def only(self, name: str) -> Any:
        (found,) = [span for _, span in self.receiver.spans if span.name == name]
        return found

    def calls(self) -> list[list[str]]:
        return [line.split() for line in (self.folder / "calls").read_text().splitlines()]


@pytest.fixture
def work(tmp_path: Path) -> Any:
    prepare()
    SandboxGates().kit()
    with Receiver() as receiver:
        yield Work(tmp_path, receiver)


def test_a_run_that_was_killed_and_finished_by_another_worker_is_one_linked_trace(
    work: Work,
) -> None:
    first = work.begun()
    first.kill()
    first.wait()
    seen = len(work.receiver.spans)
    assert work.worker("resume", work.session_id).wait() == 0

    spans = [span for _, span in work.receiver.spans]
    assert len(spans) > seen
    (trace_id,) = {span.trace_id for span in spans}
    created, run = work.only("create_session"), work.only("invoke_workflow tdflow")
    assert created.parent_span_id == b""
    assert run.parent_span_id == created.span_id
    # The killed worker's own run could not end; it is known by its phase, and by the link.
    lost = work.only("phase red").parent_span_id
    assert [link.span_id for link in run.links] == [lost]
    assert [link.trace_id for link in run.links] == [trace_id]
    green = work.only("phase green")
    assert green.parent_span_id == run.span_id
    assert [one for one in work.names if one.startswith("phase")] == [
        *("phase red", "phase green", "phase refactor", "phase verify"),
    ]
    pids = {
        span.name: process["process.pid"]
        for process, span in work.receiver.spans
        if span.name.startswith("phase")
    }
    assert pids["phase red"] == first.pid != pids["phase green"]
    assert values_of(run.attributes)["agentforge.session.state"] == "completed"

    calls = {bytes.fromhex(line.split("-")[2]): phase for phase, line in work.calls()}
    assert {line.split("-")[1] for _, line in work.calls()} == {trace_id.hex()}
    called = {
        span.span_id: values_of(span.attributes)["agentforge.phase"]
        for span in spans
        if span.name.startswith("invoke_agent ")
    }
    assert len(calls) == 4
    assert called.items() < calls.items(), "all but the one that was killed"


def test_what_a_worker_is_doing_when_sigterm_ends_it_is_sent(work: Work) -> None:
    worker = work.begun()
    worker.terminate()
    assert worker.wait() == -signal.SIGTERM
    for name in ("invoke_workflow tdflow", "phase green", "attempt green"):
        ended = values_of(work.only(name).attributes)
        assert ended["error.type"].endswith(".ProcessTerminated")
    (called,) = [
        span
        for _, span in work.receiver.spans
        if span.name.startswith("invoke_agent") and b"green" in span.SerializeToString()
    ]
    assert called.parent_span_id == work.only("attempt green").span_id
    document = SessionStore(work.base).read_step(work.session_id, "agentforge-trace.json")
    assert document is not None
    kept = json.loads(document)["run"]["traceparent"]
    assert bytes.fromhex(kept.split("-")[2]) == work.only("invoke_workflow tdflow").span_id
