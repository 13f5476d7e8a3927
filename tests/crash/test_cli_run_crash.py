"""The real command in the real sandbox: killed at random instants, resumed by another process."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentforge_sessions.harness import SessionStore
from tests.support.soak import SOAKING

KILLS = 200 if SOAKING else 1
SEED = 20261121
PHASES = ("first", "second", "third", "fourth")

WORKFLOW = """\
schema_version: 1
name: killed
workflow_type: spec
phases:
"""
PHASE = """\
  - name: {name}
    tokens: 10
    success:
      artifacts: [{name}.txt]
    code: |
      import time
      time.sleep(0.03)
      with open("{name}.txt", "w") as out:
          out.write("{name}")
"""


def command(base: Path, *words: str) -> list[str]:
    return [
        sys.executable,
        "-m",
        "agentforge_sessions.entrypoints.cli",
        "--base",
        str(base),
        *words,
    ]


def start(arguments: list[str], base: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        arguments,
        cwd=Path(__file__).parents[2],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "AGENTFORGE_BASE": str(base)},
        start_new_session=True,
    )


def finish(arguments: list[str], base: Path) -> int:
    return start(arguments, base).wait()


@pytest.mark.timeout(3600 if SOAKING else 900)
def test_a_killed_run_goes_on_where_it_was_and_records_every_phase_once(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    workflow = tmp_path / "killed.yaml"
    workflow.write_text(WORKFLOW + "".join(PHASE.format(name=name) for name in PHASES))
    undisturbed = time.monotonic()
    assert finish(command(tmp_path / "calm", "run", str(workflow)), tmp_path / "calm") == 0
    duration = time.monotonic() - undisturbed
    assert len(SessionStore(tmp_path / "calm").list_sessions()) == 1

    kills = sessions = 0
    reached: set[int] = set()
    while kills < KILLS:
        base = tmp_path / f"base-{sessions}"
        sessions += 1
        store = SessionStore(base)
        arguments = command(base, "run", str(workflow))
        done: list[str | None] = []
        patience = 1.0
        while True:
            began = time.monotonic()
            worker = start(arguments, base)
            # Most of a run is the start of Python; the kills belong to what comes after it.
            limit = duration * chance.uniform(0.4, 1.1) * patience
            try:
                worker.wait(timeout=limit if kills < KILLS else None)
            except subprocess.TimeoutExpired:
                os.killpg(worker.pid, signal.SIGKILL)
                worker.wait()
                kills += 1
            else:
                assert worker.returncode in {0, 6}, "finished, or had been finished before"
                # Were the first run held up, nothing would ever be killed in time.
                duration = min(duration, time.monotonic() - began)
            ids = store.list_sessions()
            assert len(ids) <= 1, "one run is one session"
            patience *= 1.2  # a machine that became slower must not keep us here for ever
            if not ids:
                continue
            session = store.load(ids[0])
            assert session is not None
            known = len(done)
            done = [one.phase for one in session.history if one.action == "phase_succeeded"]
            assert done == list(PHASES[: len(done)]), "in order, none twice"
            reached.add(len(done))
            patience = 1.0 if len(done) > known else patience
            if session.state.is_terminal:
                break
            arguments = command(base, "resume", ids[0])

        assert done == list(PHASES)
        assert session.state.value == "completed"
        assert session.token_budget.tokens_used == 10 * len(PHASES)
        assert [store.workspace_path(ids[0]).joinpath(f"{p}.txt").read_text() for p in PHASES] == [
            *PHASES
        ]
        left = {path.name for path in base.iterdir()} - {".gitkeep", ".prune", ids[0]}
        assert not {name for name in left if not name.startswith(".discarded-")}
    print(
        json.dumps(
            {
                "kills": kills,
                "sessions": sessions,
                "run_s": round(duration, 2),
                "reached": len(reached),
            }
        )
    )
    if SOAKING:
        assert len(reached) >= 4, "the kills were spread over the run"
