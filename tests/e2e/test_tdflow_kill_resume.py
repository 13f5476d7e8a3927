"""The real command, its agent and its gate: killed in the middle of each, finished by another."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentforge_sessions.harness import SessionState, SessionStore
from agentforge_sessions.sandbox import prepare
from agentforge_sessions.wiring.gates.gate_sandbox import SandboxGates
from tests.support.agents import GOOD, SPEC

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
    calls.write(phase + " ")
if phase == "green" and not (here / "slept").exists():
    (here / "slept").touch()
    while os.getppid() == parent:  # until the worker is killed
        time.sleep(0.05)
    sys.exit(1)
print((here / (phase + ".md")).read_text())
"""
# A gate of red can be killed in this; those that have the component need not wait.
SLOW = "import os, time\nif not os.path.exists('/app/adder.py'):\n    time.sleep(1)\n"


def command(base: Path, *words: str) -> subprocess.Popen[bytes]:
    """Start the command; a gate that is killed leaves its directory beside the sessions."""
    temporary = base.with_name("temporary")
    temporary.mkdir(exist_ok=True)
    return subprocess.Popen(
        [sys.executable, "-m", "agentforge_sessions.entrypoints.cli", "--base", str(base), *words],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(temporary)},
    )


def kill_when(worker: subprocess.Popen[bytes], there: object) -> None:
    while not there():  # type: ignore[operator]
        assert worker.poll() is None
        time.sleep(0.02)
    worker.send_signal(signal.SIGKILL)
    worker.wait()


def test_work_that_was_killed_in_the_agent_and_in_the_gate_is_finished(tmp_path: Path) -> None:
    prepare()
    SandboxGates().kit()
    (tmp_path / "agent.py").write_text(AGENT)
    (tmp_path / "spec.yaml").write_text(SPEC)
    for phase, (text,) in GOOD.items():
        (tmp_path / f"{phase}.md").write_text(
            text.replace("from adder", f"{SLOW}from adder") if phase == "red" else text
        )
    base = tmp_path / "sessions"
    agent = f"{sys.executable} {tmp_path / 'agent.py'}"

    worker = command(base, "run", "tdflow", str(tmp_path / "spec.yaml"), "--agent", agent)
    gate = "temporary/agentforge-gate-*/workspace/tests/test_adder.py"
    kill_when(worker, lambda: list(tmp_path.glob(gate)))
    (session_id,) = SessionStore(base).list_sessions()
    worker = command(base, "resume", session_id)
    kill_when(worker, (tmp_path / "slept").exists)  # in the agent
    worker = command(base, "resume", session_id)
    assert worker.wait() == 0

    session = SessionStore(base).load(session_id)
    assert session is not None
    assert session.state is SessionState.COMPLETED
    assert [one.action for one in session.history].count("phase_succeeded") == 4
    assert "phase_failed" not in [one.action for one in session.history]
    assert (tmp_path / "calls").read_text() == "red green green refactor "
