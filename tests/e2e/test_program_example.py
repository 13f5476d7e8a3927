"""The example program is TDFLOW: in the real sandbox, killed on its way, and answered later."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen

from agentforge_sessions.harness import SessionContext, SessionState, SessionStore
from agentforge_sessions.sandbox import prepare
from tests.support.agents import BETTER, GREEN, RED, REFACTOR, SPEC, WRONG, block
from tests.support.promptness import wait_until

# The first run on a machine compiles the guest, which takes minutes.
pytestmark = pytest.mark.timeout(900)

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/programs/tdflow_program.py"
RECORDED = {
    "red-1": RED,
    "green-1": block("adder.py", WRONG),
    "green-2": GREEN,
    "refactor-1": REFACTOR,
}
USAGE = "<!-- usage: input=1000 output=100 -->\n"
PERSON_NEEDED = 10


@frozen
class Project:
    """A folder with a specification and recordings, and the person's commands in it."""

    folder: Path

    def start(self, *words: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "agentforge_sessions.entrypoints.cli"]
        return subprocess.Popen(
            [*command, "--base", "sessions", "--json", *words],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )

    def begin(self) -> subprocess.Popen[str]:
        options = ["--spec", "spec.yaml", "--agent", "recorded:recordings", "--no-wait"]
        return self.start("run", str(EXAMPLE), *options)

    def kill_when(self, stored: str) -> None:
        """Run the program, and kill it once a step is stored."""
        process = self.begin()
        wait_until(lambda: stored in self.steps() or process.poll() is not None, patience_s=300)
        assert process.poll() is None, process.communicate()
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()

    def done(self, process: subprocess.Popen[str], code: int) -> Any:
        out, err = process.communicate(timeout=600)
        assert process.returncode == code, (out, err)
        return json.loads(out)

    @property
    def session(self) -> SessionContext | None:
        store = SessionStore(self.folder / "sessions")
        found = store.list_sessions()
        return store.load(found[0]) if found else None

    def steps(self) -> set[str]:
        """What is stored of the calls, by the ends of the names: `3.answer`, `4.gate`."""
        names = [path.name for path in (self.folder / "sessions").rglob("*-program-1.*.json")]
        return {name.removesuffix(".json").partition("-program-1.")[2] for name in names}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    prepare()
    recordings = tmp_path / "recordings"
    recordings.mkdir()
    for name, text in RECORDED.items():
        (recordings / f"{name}.md").write_text(USAGE + text)
    (tmp_path / "spec.yaml").write_text(SPEC)
    return Project(tmp_path)


def test_example_ends_as_tdflow_does_though_it_is_killed_and_answered_later(
    project: Project,
) -> None:
    # Killed with the answer of one agent, with the verdict of a gate, and with another answer.
    for stored in ("1.answer", "4.gate", "5.answer"):
        project.kill_when(stored)
    waits = project.done(project.begin(), PERSON_NEEDED)
    assert "is open" not in str(waits)
    question = waits["waiting_for"]
    answer = ("answer", question, "--select", "Accept", "--questions", "questions")
    project.done(project.start(*answer), 0)
    project.done(project.begin(), 0)

    session = project.session
    assert session is not None
    assert session.state is SessionState.COMPLETED
    assert session.token_budget.tokens_used == len(RECORDED) * 1100
    answered = [entry for entry in session.history if entry.action == "agent_answered"]
    assert len(answered) == len(RECORDED)
    workspace = SessionStore(project.folder / "sessions").workspace_path(session.session_id)
    assert (workspace / "adder.py").read_text() == BETTER
