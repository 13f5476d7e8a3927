"""A worker that dies at any of its changes to the disk, and the one that comes after it."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from agentforge_sessions.base.files.atomic_file import is_temporary
from agentforge_sessions.harness import SessionState, SessionStore
from agentforge_sessions.harness.session_layout import SESSION_FILE
from agentforge_sessions.workflows import AttemptsExhausted, Input, Phase, Script, Workflow
from tests.support.soak import SOAKING
from tests.unit.workflows.fakes import DyingFileSystem, Ground, Killed

PLAIN = Workflow(
    name="plain",
    workflow_type="tdflow",
    token_budget=1000,
    phases=[
        Phase(name="red", gate=Script(code="append log red.\nexit 1", exit_code=1), tokens=10),
        Phase(name="green", gate=Script(code="write x/y green", artifacts=["x/y"]), tokens=20),
        Phase(name="last", gate=Script(code="say done"), tokens=30),
    ],
    inputs=[Input(target="spec/a", content=b"a"), Input(target="b", content=b"b")],
)
FAILING = Workflow(
    name="failing",
    workflow_type="tdflow",
    token_budget=1000,
    phases=[
        Phase(name="first", gate=Script(code="say first"), tokens=10),
        Phase(name="second", gate=Script(code="fails-first"), tokens=20, max_attempts=9),
        Phase(name="third", gate=Script(code="say third"), tokens=30),
    ],
)


def never_run_what_succeeded(ground: Ground) -> None:
    """Let the executor look at the disk before each run."""

    def look(session_id: str) -> None:
        session = SessionStore(ground.base).load(session_id)
        assert session is not None
        assert session.state is SessionState.ACTIVE
        last = [
            entry
            for entry in session.history
            if entry.action
            in {
                "session_created",
                "phase_advanced",
                "phase_retried",
                "phase_succeeded",
                "phase_failed",
            }
        ][-1]
        assert last.action not in {"phase_succeeded", "phase_failed"}

    ground.executor.before = look


def go_on(ground: Ground, workflow: Workflow, fs: DyingFileSystem) -> bool:
    """Do what a person does who wants it done; say whether it is."""
    worker = ground.worker(fs=fs)
    session_id = ground.only_session()
    if session_id is None:
        outcome = worker.start(workflow)
    else:
        session = SessionStore(ground.base).load(session_id)
        assert session is not None
        if session.state is SessionState.COMPLETED:
            return True
        outcome = worker.resume(session_id)
    while outcome.state is SessionState.PAUSED:
        outcome = worker.resume(outcome.session_id)
    return True


def check(ground: Ground, workflow: Workflow, *, failures: int) -> None:
    session_id = ground.only_session()
    assert session_id is not None
    session = SessionStore(ground.base).load(session_id)
    assert session is not None
    assert session.state is SessionState.COMPLETED
    succeeded = [entry.phase for entry in session.history if entry.action == "phase_succeeded"]
    assert succeeded == [phase.name for phase in workflow.phases]
    counts = Counter(entry.action for entry in session.history)
    assert counts["phase_failed"] == counts["phase_retried"] == failures
    assert counts["phase_advanced"] == len(workflow.phases) - 1
    assert counts["session_completed"] == counts["session_created"] == 1
    assert counts["inputs_placed"] == bool(workflow.inputs)
    charged = sum(phase.tokens for phase in workflow.phases)
    charged += failures * sum(phase.tokens for phase in workflow.phases if phase.name == "second")
    assert session.token_budget.tokens_used == charged
    root = ground.workspace(session_id)
    for one in workflow.inputs:
        assert (root / one.target).read_bytes() == one.content
    left = {path.name for path in ground.base.rglob(".*")} - {".gitkeep", ".prune"}
    # No save follows the last one, which may have been killed after it was in place.
    assert [name for name in left if not is_temporary(name, SESSION_FILE)] == []


def changes_of(ground: Ground, workflow: Workflow) -> int:
    fs = DyingFileSystem()
    go_on(ground, workflow, fs)
    ground.wipe()
    return fs.changes


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize(
    ("workflow", "failures"), [(PLAIN, 0), (FAILING, 1)], ids=["plain", "failing"]
)
def test_wherever_a_worker_dies_the_next_one_finishes_the_session(
    ground: Ground, workflow: Workflow, failures: int, after: bool
) -> None:
    total = changes_of(ground, workflow)
    assert total > 60
    never_run_what_succeeded(ground)
    # Dying after a change leaves what dying before the next one leaves.
    for die_at in range(0, total, 5 if after and not SOAKING else 1):
        with pytest.raises(Killed):
            go_on(ground, workflow, DyingFileSystem(die_at=die_at, after=after))
        assert go_on(ground, workflow, DyingFileSystem()), die_at
        check(ground, workflow, failures=failures)
        ground.wipe()


@pytest.mark.parametrize("seed", range(20))
def test_worker_after_worker_may_die_and_the_session_is_finished(ground: Ground, seed: int) -> None:
    rng = random.Random(seed)
    never_run_what_succeeded(ground)
    deaths = 0
    done = False
    while not done:
        fs = DyingFileSystem(die_at=rng.randrange(1, 60), after=rng.random() < 0.5)
        try:
            done = go_on(ground, FAILING, fs)
        except Killed:
            deaths += 1
    check(ground, FAILING, failures=1)
    assert deaths


def test_killed_after_the_last_allowed_failure_is_paused_and_refused_when_resumed(
    ground: Ground,
) -> None:
    workflow = Workflow(
        name="w",
        workflow_type="t",
        phases=[Phase(name="only", gate=Script(code="exit 1"), max_attempts=1)],
    )

    class AtTheSave(DyingFileSystem):
        """Kills a worker right after the save that recorded the failure."""

        def fsync(self, fd: int) -> None:  # type: ignore[override]
            super().fsync(fd)
            session_id = ground.only_session()
            if session_id and "phase_failed" in dict(ground.actions(session_id)):
                self.dead = True
                raise Killed

    with pytest.raises(Killed):
        ground.worker(fs=AtTheSave()).start(workflow)
    session_id = ground.diary.session_id
    assert ground.actions(session_id)[-1][0] == "phase_failed"
    with pytest.raises(AttemptsExhausted):
        ground.worker().resume(session_id)
    assert ground.actions(session_id)[-1] == ("session_paused", "only")
    before = ground.raw(session_id)
    with pytest.raises(AttemptsExhausted):
        ground.worker().resume(session_id)
    assert ground.raw(session_id) == before
    assert len(ground.executor.codes) == 1
