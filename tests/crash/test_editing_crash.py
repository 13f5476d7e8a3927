"""A worker is killed while an agent edits, and while the gate judges what it edited."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from agentforge_sessions.harness import SessionState, SessionStore
from agentforge_sessions.workflows.run.step_journal import StepJournal
from tests.contract.jail.test_editing_agent import AGENT, CODE, GOOD, RUNNER, TEST, Ground, ground
from tests.support.agents import SPEC
from tests.support.jail_starters import PYTHON
from tests.support.promptness import wait_until

__all__ = ["ground"]
ROOT: Final = Path(__file__).resolve().parents[2]
WORKER: Final = """
import sys
from pathlib import Path
from attrs import evolve
from agentforge_sessions.wiring.bootstrap import (build_agent_runner, open_snapshots)
from agentforge_sessions.harness import (SessionManager, SessionStore)
from agentforge_sessions.jail import JailPolicy
from agentforge_sessions.workflows import (TDFLOW, AgentChoice, AgentWork)

base, repository, flags, specification, command = sys.argv[1:]
store = SessionStore(base)
manager = SessionManager(store, snapshots=open_snapshots(store))
runner = build_agent_runner(manager=manager, jail=JailPolicy(read=[flags]))
known = store.list_sessions()
if known:
    print(runner.resume(known[0]).state.value)
else:
    workflow = evolve(TDFLOW, agent_mode="edit").with_command(
        f"/usr/bin/python3 run_tests.py {flags}", report="tap"
    )
    work = AgentWork(
        workflow=workflow, name="adder", specification=Path(specification).read_bytes(),
        agent=AgentChoice(kind="command", value=command),
    )
    begun = open_snapshots(store).attachments(Path(repository), "HEAD", with_uncommitted=False)
    session_id = runner.begin(work, attachments=begun)
    print(runner.resume(session_id).state.value)
"""
ANSWER: Final = "0002-green-1.1.answer.json"
PROMPT: Final = "0002-green-1.1.prompt.json"
WAITS: Final = """\
import pathlib, sys, time
if pathlib.Path("adder.py").exists():
    pathlib.Path("judging").write_text("")
    while pathlib.Path(sys.argv[1], "wait").exists():
        time.sleep(0.05)
"""


class Killing:
    """Workers that are killed once a file is in the folder that is worked in, and one that ends."""

    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.scratch = Path(tempfile.mkdtemp(prefix="agentforge-killing-"))
        self.flags = ground.base.parent / "flags"
        self.flags.mkdir()
        self.specification = ground.base.parent / "spec.yaml"
        self.specification.write_text(SPEC)
        (ground.repository / "run_tests.py").write_text(WAITS + RUNNER)
        ground.git("-c", "user.name=A", "-c", "user.email=a@b", "commit", "-qam", "waits")

    @contextmanager
    def worker(self) -> Iterator[subprocess.Popen[str]]:
        words = [self.ground.base, self.ground.repository, self.flags, self.specification]
        command = f"{PYTHON} {AGENT} {self.ground.plan}"
        process = subprocess.Popen(
            [sys.executable, "-c", WORKER, *map(str, words), command],
            env={**os.environ, "TMPDIR": str(self.scratch), "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.close()
            process.stderr.close()

    def kill_when(self, name: str) -> None:
        with self.worker() as process:
            wait_until(lambda: any(self.scratch.glob(f"*/workspace/{name}")))
            os.kill(process.pid, signal.SIGKILL)
            process.wait()

    def finish(self) -> None:
        with self.worker() as process:
            out, err = process.communicate()
        assert out.split()[-1:] == ["completed"], err[-2000:]

    def plan(self, plan: dict[str, list[dict[str, Any]]]) -> None:
        self.ground.plan.write_text(json.dumps(plan))


@pytest.fixture
def killing(ground: Ground) -> Iterator[Killing]:
    made = Killing(ground)
    yield made
    subprocess.run(["rm", "-rf", str(made.scratch)], check=True)


def test_killed_between_edits_and_while_judged_it_ends_the_same(killing: Killing) -> None:
    ground = killing.ground
    ever = {"run": ["sh", "-c", "touch editing; while :; do sleep 1; done"]}
    weak = TEST.replace("== 3", "== 3 or True")
    half = [{"write": "adder.py", "text": "half"}, {"write": "tests/test_adder.py", "text": weak}]
    killing.plan({**GOOD, "green-1": [*half, {"delete": "other.py"}, ever]})
    killing.kill_when("editing")
    (session_id,) = SessionStore(ground.base).list_sessions()
    workspace = SessionStore(ground.base).workspace_path(session_id)
    assert not (workspace / "adder.py").exists()
    assert (workspace / "other.py").exists()
    steps = StepJournal(SessionStore(ground.base), session_id)
    assert [name for name in steps.names() if name.startswith("0002")] == [PROMPT]

    killing.plan(GOOD)
    (killing.flags / "wait").write_text("")
    killing.kill_when("judging")
    assert (workspace / "adder.py").read_text() == CODE
    assert [name for name in steps.names() if name.startswith("0002")] == [ANSWER, PROMPT]

    (killing.flags / "wait").unlink()
    killing.plan({**GOOD, "green": [{"end": 9}], "green-1": [{"end": 9}]})  # it is not asked again
    killing.finish()
    session = SessionStore(ground.base).load(session_id)
    assert session is not None
    assert session.state is SessionState.COMPLETED
    assert (workspace / "adder.py").read_text() == CODE.replace("a + b", "b + a")
    assert (workspace / "tests" / "test_adder.py").read_text() == TEST
    asked = [entry.phase for entry in session.history if entry.action == "agent_answered"]
    assert asked == ["red", "green", "refactor"]
