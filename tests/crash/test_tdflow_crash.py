"""The real command with its sandbox and its agent's process, killed at any instant, then resumed.

`test_agent_crash` kills more often, with gates that are quick; here everything is what users run.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentforge_sessions.harness import SessionState, SessionStore
from agentforge_sessions.sandbox import prepare
from agentforge_sessions.wiring.gates.gate_sandbox import SandboxGates
from agentforge_sessions.workflows.run.step_journal import STEPS
from tests.support.agents import GOOD, SPEC
from tests.support.soak import SOAKING

# The first run on a machine compiles the guest, which takes minutes.
pytestmark = [
    pytest.mark.soak,
    pytest.mark.timeout(3600),
    pytest.mark.skipif(not SOAKING, reason="e2e/test_tdflow_kill_resume kills it twice"),
]

KILLS = 100
ROOT = Path(__file__).resolve().parents[2]
PHASES = ("red", "green", "refactor")
AGENT = """\
import os, pathlib, sys
sys.stdin.read()
here = pathlib.Path(__file__).parent
phase = os.environ["AGENTFORGE_PHASE"]
with open(here / "calls", "a") as calls:
    calls.write(phase + "\\n")
print((here / (phase + ".md")).read_text())
"""
SECONDS = re.compile(r"\d+\.\d+ s\b")


class Place:
    """A directory with a specification, an agent that counts its calls, and one session."""

    def __init__(self, directory: Path) -> None:
        shutil.rmtree(directory, ignore_errors=True)
        directory.mkdir()
        self.directory = directory
        self.base = directory / "sessions"
        (directory / "spec.yaml").write_text(SPEC)
        (directory / "agent.py").write_text(AGENT)
        for phase, (text,) in GOOD.items():
            (directory / f"{phase}.md").write_text(text)

    @property
    def session(self) -> Path | None:
        ids = SessionStore(self.base).list_sessions() if self.base.is_dir() else []
        return self.base / ids[0] if ids else None

    def work(self, *, life_s: float | None = None) -> int:
        """Begin the session or go on with it, killing the command after `life_s` seconds."""
        agent = f"{sys.executable} {self.directory / 'agent.py'}"
        session = self.session
        words = ["run", "tdflow", str(self.directory / "spec.yaml"), "--agent", agent]
        if session is not None:
            words = ["resume", session.name]
        worker = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "agentforge_sessions.entrypoints.cli",
                "--base",
                str(self.base),
                *words,
            ],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        try:
            worker.wait(life_s)
        except subprocess.TimeoutExpired:
            worker.send_signal(signal.SIGKILL)
        return worker.wait()

    def calls(self) -> list[str]:
        log = self.directory / "calls"
        return log.read_text().split() if log.exists() else []

    def answered(self) -> set[str]:
        """The phases for which an answer of the agent is stored."""
        steps = self.session / STEPS if self.session is not None else None
        if steps is None or not steps.is_dir():
            return set()
        return {path.name.split("-")[1] for path in steps.glob("*.answer.json")}

    def is_complete(self) -> bool:
        session = self.session
        loaded = SessionStore(self.base).load(session.name) if session is not None else None
        return loaded is not None and loaded.state is SessionState.COMPLETED

    def story(self) -> tuple[object, ...]:
        """Everything that must be the same however often a worker was killed."""
        directory = self.session
        assert directory is not None
        session = SessionStore(self.base).load(directory.name)
        assert session is not None
        return (
            session.state,
            [
                (one.action, one.phase, SECONDS.sub("… s", one.details or ""))
                for one in session.history
            ],
            [(one.path, one.artifact_type, one.phase) for one in session.artifacts],
            session.token_budget,
            session.revision,
            {
                str(path.relative_to(directory)): path.read_bytes()
                for path in sorted((directory / "workspace").rglob("*"))
                if path.is_file()
            },
            sorted(path.name for path in (directory / STEPS).iterdir()),
            [path for path in directory.rglob(".*") if path.is_file()],
        )


def test_the_real_command_killed_at_any_instant_ends_as_if_undisturbed(tmp_path: Path) -> None:
    prepare()
    SandboxGates().kit()
    seed = int(os.environ.get("AGENTFORGE_SEED", "20261122"))
    rng = random.Random(seed)
    calm = Place(tmp_path / "calm")
    begun = time.monotonic()
    assert calm.work() == 0
    whole_s = time.monotonic() - begun
    story = calm.story()
    assert tuple(calm.calls()) == PHASES

    kills = sessions = cut_off = 0
    stored: list[int] = []
    while kills < KILLS:
        sessions += 1
        place = Place(tmp_path / "killed")
        patience = 1.0
        while not place.is_complete():
            answered = place.answered()
            before = len(place.calls())
            code = place.work(life_s=rng.uniform(0.2, 0.8 * whole_s) * patience)
            assert code in {0, -signal.SIGKILL}, f"seed {seed}"
            assert not set(place.calls()[before:]) & answered, f"seed {seed}: asked again"
            # A machine that became slower must not keep us here for ever.
            patience = 1.0 if len(place.answered()) > len(answered) else patience * 1.2
            if code != 0:
                kills += 1
                stored.append(len(place.answered()))
            elif not answered:  # the whole run was quicker than it was when it was measured
                whole_s *= 0.9
        assert place.story() == story, f"seed {seed}"
        assert set(place.calls()) == set(PHASES)
        cut_off += len(place.calls()) - len(PHASES)
    print(
        f"{kills} kills over {sessions} sessions, run {whole_s:.1f} s; kills with n answers "
        f"stored: {[stored.count(number) for number in range(len(PHASES) + 1)]}; "
        f"{cut_off} calls were cut off and made again"
    )
    assert len(set(stored)) == len(PHASES) + 1, "the kills did not spread"
