"""A worker in the real sandbox is killed in the middle of a phase; another one goes on.

Run as a module, this file is such a worker.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agentforge_sessions.harness import (
    PhaseExecutor,
    PhaseResult,
    SessionNotFound,
    SessionState,
    SessionStore,
)
from agentforge_sessions.sandbox import ExecutionPolicy, prepare
from agentforge_sessions.sandbox.process_exit import end_process
from agentforge_sessions.wiring.bootstrap import build_manager, build_runner
from agentforge_sessions.wiring.phases.sandbox_executor import SandboxPhaseExecutor
from agentforge_sessions.workflows import (
    AlreadyRunning,
    Job,
    Phase,
    RunObserver,
    Script,
    Workflow,
    load_workflow,
)
from tests.support.ids import sid

# The first run on a machine compiles the guest, which takes minutes.
pytestmark = pytest.mark.timeout(900)

BEFORE_DEFAULT_S = 30
"""Less than the deadline of a phase that names none."""
ROOT = Path(__file__).resolve().parents[2]
WORKFLOW = """\
schema_version: 1
name: kill-and-resume
workflow_type: tdflow
goal: Survive a kill.
token_budget: 100
phases:
  - name: prepare
    code: |
      with open('runs.txt', 'a') as runs:
          runs.write('prepare ')
      print(open('spec/input.txt').read())
    tokens: 10
    success: {artifacts: [runs.txt]}
  - name: slow
    code: |
      import os, time
      first = not os.path.exists('begun.txt')
      open('begun.txt', 'w').close()
      if first:
          time.sleep(600)
      open('slow.txt', 'w').write('slow')
    tokens: 20
    deadline_s: 700
    success: {artifacts: [slow.txt]}
  - name: finish
    code: |
      import sys
      with open('runs.txt', 'a') as runs:
          runs.write('finish')
      sys.exit(3)
    tokens: 30
    success: {exit_code: 3, artifacts: [runs.txt]}
inputs:
  - {source: input.txt, target: spec/input.txt}
"""


@pytest.fixture(scope="module", autouse=True)
def _prepared() -> None:
    prepare()


@pytest.fixture
def workflow_file(tmp_path: Path) -> Path:
    path = tmp_path / "workflow.yaml"
    path.write_text(WORKFLOW)
    (tmp_path / "input.txt").write_text("what to do")
    return path


@contextmanager
def worker(*args: object) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-W", "error", "-m", "tests.e2e.test_workflow_kill_resume"]
        + [str(arg) for arg in args],
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def until(process: subprocess.Popen[str], event: str) -> dict[str, str]:
    assert process.stdout is not None
    for line in process.stdout:
        told = json.loads(line)
        if told["event"] == event:
            return dict(told)
    raise AssertionError(f"{event} did not come")


def begun(store: SessionStore, session_id: str) -> bool:
    return (store.workspace_path(session_id) / "begun.txt").exists()


def start_and_stop_in_the_slow_phase(base: Path, workflow_file: Path, how: signal.Signals) -> str:
    """Start a worker and signal it once the guest is in the middle of the slow phase."""
    store = SessionStore(base)
    with worker("start", base, workflow_file) as process:
        session_id = until(process, "started")["session_id"]
        until(process, "slow")
        while not begun(store, session_id):
            assert process.poll() is None
            time.sleep(0.02)
        with pytest.raises(AlreadyRunning):
            build_runner(base).resume(session_id)
        process.send_signal(how)
        code = process.wait(60)
        assert code in {-how, 130}
    return session_id


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_run_that_was_stopped_in_a_phase_is_finished_by_another_process(
    tmp_path: Path, workflow_file: Path, how: signal.Signals
) -> None:
    base = tmp_path / "sessions"
    session_id = start_and_stop_in_the_slow_phase(base, workflow_file, how)
    store = SessionStore(base)
    left = store.load(session_id)
    assert left is not None
    assert (left.state, left.current_phase) == (SessionState.ACTIVE, "slow")
    assert [entry.action for entry in left.history][-1] == "phase_advanced"
    workflow_file.unlink()

    with worker("resume", base, session_id) as process:
        until(process, "completed")
        assert process.wait(60) == 0

    done = store.load(session_id)
    assert done is not None
    assert done.state is SessionState.COMPLETED
    succeeded = [entry for entry in done.history if entry.action == "phase_succeeded"]
    assert [entry.phase for entry in succeeded] == ["prepare", "slow", "finish"]
    assert "what to do" in (succeeded[0].details or "")
    assert done.attempt_number == 1
    assert done.token_budget.tokens_used == 60
    workspace = store.workspace_path(session_id)
    assert (workspace / "runs.txt").read_text() == "prepare finish"
    assert workspace.stat().st_mode & 0o777 == 0o700
    made = {(artifact.path, artifact.phase) for artifact in done.artifacts}
    assert {("runs.txt", "prepare"), ("slow.txt", "slow"), ("runs.txt", "finish")} <= made


# --- the executor ----------------------------------------------------------------------------


def test_executor_tells_everything_the_sandbox_tells(tmp_path: Path) -> None:
    manager = build_manager(tmp_path)
    session = manager.create(initial_phase="only")
    executor = SandboxPhaseExecutor(manager.store)
    assert isinstance(executor, PhaseExecutor)
    (workspace := manager.store.workspace_path(session.session_id)).mkdir()
    (workspace / "old.txt").write_text("old")
    (workspace / "gone.txt").write_text("gone")
    result = executor.execute(
        "import os, sys\n"
        "open('new.txt', 'w').write('new')\n"
        "open('old.txt', 'a').write('er')\n"
        "os.remove('gone.txt')\n"
        "print('out'); print('err', file=sys.stderr); sys.exit(5)",
        session_id=session.session_id,
    )
    assert isinstance(result, PhaseResult)
    assert (result.success, result.exit_code, result.trapped) == (False, 5, None)
    assert (result.stdout, result.stderr, result.truncated) == ("out\n", "err\n", False)
    assert result.files_created == ("new.txt",)
    assert result.files_modified == ("old.txt",)
    assert result.files_deleted == ("gone.txt",)
    assert result.fuel_consumed is not None
    assert result.fuel_consumed > 0
    assert result.duration_s > 0
    assert result.workspace == workspace


@pytest.mark.parametrize(
    ("limit", "trapped"), [({"deadline_s": 0.3}, "deadline"), ({"fuel": 500_000_000}, "fuel")]
)
def test_limits_of_a_phase_stop_it_and_pause_the_session(
    tmp_path: Path, limit: dict[str, float], trapped: str
) -> None:
    phase = Phase(name="endless", gate=Script(code="while True: pass", **limit))  # type: ignore[arg-type]
    workflow = Workflow(name="w", workflow_type="tdflow", phases=[phase])
    begun = time.monotonic()
    outcome = build_runner(tmp_path).start(workflow)
    assert time.monotonic() - begun < BEFORE_DEFAULT_S
    assert outcome.state is SessionState.PAUSED
    assert outcome.reason is not None
    assert f"stopped by the limit on {trapped}" in outcome.reason


def test_policy_holds_for_phases_that_name_no_limit(tmp_path: Path) -> None:
    phase = Phase(name="endless", gate=Script(code="while True: pass"))
    workflow = Workflow(name="w", workflow_type="tdflow", phases=[phase])
    runner = build_runner(tmp_path, policy=ExecutionPolicy(deadline_s=0.3))
    begun = time.monotonic()
    assert "limit on deadline" in (runner.start(workflow).reason or "")
    assert time.monotonic() - begun < BEFORE_DEFAULT_S


def test_executor_makes_nothing_for_a_session_that_is_gone(tmp_path: Path) -> None:
    executor = SandboxPhaseExecutor(SessionStore(tmp_path / "sessions"))
    with pytest.raises(SessionNotFound):
        executor.execute("print(1)", session_id=sid("gone"))
    assert not (tmp_path / "sessions").exists()


# --- the worker ------------------------------------------------------------------------------


class Notify(RunObserver):
    """Tells the test what happens, a line of JSON each."""

    def run_started(self, session_id: str, job: Job, *, resumed: bool) -> None:
        self._tell("resumed" if resumed else "started", session_id=session_id)

    def phase_started(
        self, phase: Phase, *, attempt: int, round_number: int, position: int, total: int
    ) -> None:
        self._tell(phase.name)

    def completed(self) -> None:
        self._tell("completed")

    def _tell(self, event: str, **more: str) -> None:
        print(json.dumps({"event": event, **more}), flush=True)


def main(word: str, base: str, what: str) -> int:
    import structlog

    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    # Whoever starts the tests in the background may have told its children to ignore Ctrl-C.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    runner = build_runner(base, observer=Notify())
    try:
        runner.start(load_workflow(what)) if word == "start" else runner.resume(what)
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    end_process(main(*sys.argv[1:]))
