"""A workflow whose workers are killed at any instant is finished by those that come after them.

Run as a module, this file is such a worker.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from agentforge_sessions.base.files import make_durable_directory
from agentforge_sessions.base.files.filesystem import OsFileSystem
from agentforge_sessions.harness import PhaseResult, SessionManager, SessionState, SessionStore
from agentforge_sessions.workflows import Input, Phase, RunOutcome, Script, Workflow, WorkflowRunner
from tests.crash._forked_workers import KILLED, Workers, serve
from tests.support.soak import SOAKING

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1800)]

KILLS = 240 if SOAKING else 8
LEAST_HIT = 4 if SOAKING else 2
PHASES = ["red", "green", "refactor", "report"]
TOKENS = 10
WORKFLOW = Workflow(
    name="killed",
    workflow_type="tdflow",
    token_budget=TOKENS * len(PHASES),
    phases=[
        Phase(name=name, gate=Script(code=name, artifacts=[f"out/{name}.txt"]), tokens=TOKENS)
        for name in PHASES
    ],
    inputs=[Input(target=f"spec/{n}.txt", content=b"spec\n" * 1000) for n in range(4)],
)


# ------------------------------------------------------------------------------------- the worker


class LoggingExecutor:
    """Runs a phase by writing a file, and says so in a log that no session knows of."""

    def __init__(self, store: SessionStore, log: Path) -> None:
        self._store = store
        self._log = log

    def execute(
        self,
        code: str,
        *,
        session_id: str,
        deadline_s: float | None = None,
        fuel: int | None = None,
        files: Mapping[str, bytes | str] | None = None,
    ) -> PhaseResult:
        with self._log.open("a") as log:
            log.write(f"{code}\n")
        out = self._store.workspace_path(session_id) / "out"
        out.mkdir(exist_ok=True)
        time.sleep(0.004)
        (out / f"{code}.txt").write_text(code)
        return PhaseResult(success=True, exit_code=0, files_created=[f"out/{code}.txt"])


def work(base: Path, log: Path) -> RunOutcome | None:
    """Start the workflow, or go on with its session; return None if it is complete."""
    store = SessionStore(base)
    manager = SessionManager(store, executor=LoggingExecutor(store, log))
    # The worker before was killed a moment ago; the kernel may still be at it.
    runner = WorkflowRunner(manager, lock_timeout_s=10)
    ids = store.list_sessions()
    assert len(ids) <= 1, ids
    if not ids:
        return runner.start(WORKFLOW)
    session = store.load(ids[0])
    assert session is not None
    if session.state is SessionState.COMPLETED:
        return None
    return runner.resume(ids[0])


# --------------------------------------------------------------------------------------- the test


@pytest.fixture
def workers() -> Iterator[Workers]:
    with Workers("tests.crash.test_workflow_crash") as one:
        yield one


class Place:
    """One session's life: a base and a log of what was executed."""

    def __init__(self, base: Path, log: Path) -> None:
        self.base = base
        self.log = log
        self.store = SessionStore(base)

    def executed(self) -> list[str]:
        return self.log.read_text().split() if self.log.exists() else []

    def recorded(self) -> list[str | None]:
        """Name the phases whose success is on disk, as often as it is."""
        ids = self.store.list_sessions()
        session = self.store.load(ids[0]) if ids else None
        history = session.history if session is not None else []
        return [entry.phase for entry in history if entry.action == "phase_succeeded"]

    def is_complete(self) -> bool:
        ids = self.store.list_sessions()
        session = self.store.load(ids[0]) if ids else None
        return session is not None and session.state is SessionState.COMPLETED

    def check(self) -> None:
        (session_id,) = self.store.list_sessions()
        session = self.store.load(session_id)
        assert session is not None
        assert session.state is SessionState.COMPLETED
        assert self.recorded() == PHASES
        actions = [entry.action for entry in session.history]
        assert actions == [
            "session_created",
            "inputs_placed",
            *["phase_succeeded", "phase_advanced"] * 3,
            "budget_warning",  # the budget is that of all phases together, so it is all spent
            "phase_succeeded",
            "session_completed",
        ]
        assert session.token_budget.tokens_used == TOKENS * len(PHASES)
        assert session.attempt_number == 1
        root = self.store.workspace_path(session_id)
        assert sorted(str(path.relative_to(root)) for path in root.rglob("*.*")) == sorted(
            [f"out/{name}.txt" for name in PHASES] + [f"spec/{n}.txt" for n in range(4)]
        )
        # Killed creations are swept by the next creation, all else by the next save.
        left = [path for path in self.base.rglob(".*") if path.name not in {".gitkeep", ".prune"}]
        assert left == []


def measure(workers: Workers, place: Callable[[], Place]) -> float:
    """Return how long an undisturbed run takes, in seconds."""
    times = []
    for _ in range(5):
        one = place()
        begun = time.monotonic()
        assert workers.run(one.base, one.log) == 0
        times.append(time.monotonic() - begun)
        one.check()
    return sorted(times)[2]


def test_every_phase_is_recorded_once_however_often_its_workers_are_killed(
    workers: Workers, tmp_path: Path
) -> None:
    seed = int(os.environ.get("AGENTFORGE_SEED", "20260301"))
    rng = random.Random(seed)
    count = 0

    def place() -> Place:
        nonlocal count
        count += 1
        directory = tmp_path / str(count)
        make_durable_directory(OsFileSystem(), directory)
        return Place(directory / "sessions", directory / "log")

    whole_s = measure(workers, place)
    kills = 0
    hit: set[int] = set()
    again = 0
    while kills < KILLS or (len(hit) < LEAST_HIT and kills < 10 * KILLS):
        one = place()
        patience = 1.0
        while not one.is_complete():
            recorded = one.recorded()
            ran = len(one.executed())
            # What is left of the run takes a part of the whole; a kill falls anywhere in it.
            left_s = whole_s * (len(PHASES) - len(recorded) + 1) / (len(PHASES) + 1)
            life_s = rng.uniform(0, left_s * 1.1) * patience
            code = workers.run(one.base, one.log, life_s=life_s)
            assert code in {0, KILLED}, f"seed {seed}"
            now = one.recorded()
            assert now[: len(recorded)] == recorded
            # Nothing that was recorded before was executed again.
            assert not set(one.executed()[ran:]) & set(recorded), f"seed {seed}"
            # A machine that became slower must not keep us here for ever.
            patience = 1.0 if len(now) > len(recorded) else patience * 1.2
            if code == KILLED:
                kills += 1
                hit.add(len(now))
            elif not recorded:  # the whole run was quicker than it was when it was measured
                whole_s *= 0.9
        one.check()
        again += len(one.executed()) - len(PHASES)
    print(
        f"{kills} kills over {count - 5} sessions, run {whole_s * 1000:.0f} ms; "
        f"kills with n phases recorded: {sorted(hit)}; {again} executions repeated"
    )
    assert len(hit) >= LEAST_HIT, "the kills did not spread over the run"


if __name__ == "__main__":
    serve(work)
