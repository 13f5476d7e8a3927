"""Back to a step of a program, and a new session from there: what was before it remains."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentforge_sessions.fleet.postgres.store import PostgresStore
from agentforge_sessions.harness import (
    InvalidStateTransition,
    LocalSessions,
    SessionInUse,
    SessionManager,
    SessionStore,
)
from agentforge_sessions.harness.steps.branches import StepNotFound, fork_before, rewind_before
from agentforge_sessions.harness.steps.errors import KeyTaken
from agentforge_sessions.harness.steps.program_sessions import (
    led,
    program_of,
    program_session_id,
    steps_of,
)
from agentforge_sessions.harness.steps.step_log import StepLog
from agentforge_sessions.testing import MemorySessions
from tests.support.clock import FakeClock
from tests.support.recorded_programs import begin_program, recording

STEPS = ("outline#1", "draft#1", "draft#2", "outer#1/inner#1", "outer#1", "publish#1")


@pytest.fixture(params=["files", "memory", "postgres"])
def store(request: pytest.FixtureRequest, base: Path) -> LocalSessions:
    if request.param == "postgres":
        return PostgresStore(request.getfixturevalue("database"), base)
    return SessionStore(base) if request.param == "files" else MemorySessions(base)


@pytest.fixture
def session_id(store: LocalSessions) -> str:
    session_id = begin_program(store)
    with recording(store, session_id) as record:
        record(*STEPS)
    return session_id


def paths(store: LocalSessions, session_id: str) -> tuple[str, ...]:
    return tuple(one.path for one in steps_of(store, session_id))


@pytest.mark.parametrize(
    ("step", "left"),
    [
        ("draft#2", 2),
        ("draft", 1),
        ("outline", 0),
        ("outer", 3),
        ("outer#1/inner", 3),
        ("publish#1", 5),
    ],
)
def test_the_step_and_what_came_after_it_run_again(
    store: LocalSessions, session_id: str, step: str, left: int
) -> None:
    spent = store.load(session_id)
    assert rewind_before(store, session_id, step) == len(STEPS) - left
    assert paths(store, session_id) == STEPS[:left]
    after = store.load(session_id)
    assert spent is not None
    assert after is not None
    assert after.token_budget.tokens_used == spent.token_budget.tokens_used == 600
    note = after.history[-1]
    assert (note.action, note.phase) == ("rewound", None)
    assert note.details == f"before {step}, to run {len(STEPS) - left} of its steps again"


@pytest.mark.parametrize("step", ["inner", "draft#3", "out", "outline#1/x", ""])
def test_a_step_that_is_not_recorded_is_named_with_those_that_are(
    store: LocalSessions, session_id: str, step: str
) -> None:
    with pytest.raises(StepNotFound, match="publish#1") as caught:
        rewind_before(store, session_id, step)
    assert caught.value.recorded == STEPS
    assert paths(store, session_id) == STEPS


def test_a_led_session_is_not_taken_back(store: LocalSessions, session_id: str) -> None:
    with led(store, session_id), pytest.raises(SessionInUse):
        rewind_before(store, session_id, "draft")
    assert paths(store, session_id) == STEPS


def test_a_finished_session_is_forked_instead(store: LocalSessions, session_id: str) -> None:
    manager = SessionManager(store)
    manager.open(session_id)
    manager.complete()
    with pytest.raises(InvalidStateTransition):
        rewind_before(store, session_id, "draft")
    fork, _ = fork_before(store, session_id, "draft")
    assert paths(store, fork.session_id) == ("outline#1",)


def test_a_fork_has_the_steps_before_and_a_key_of_its_own(
    store: LocalSessions, session_id: str
) -> None:
    clock = FakeClock()
    fork, program = fork_before(store, session_id, "draft#2", clock=clock)
    assert program == program_of(store, fork.session_id)
    assert (program.workflow, program.key) == ("report", "AI~2")
    assert fork.session_id == program_session_id("AI~2")
    assert paths(store, fork.session_id) == STEPS[:2]
    found = store.load(fork.session_id)
    assert found is not None
    assert (found.parent_id, found.goal) == (session_id, "A report")
    note = found.history[-1]
    assert (note.action, note.details) == ("forked", f"from {session_id}, before draft#2")
    assert found.token_budget.tokens_used == 600
    log = StepLog(store, fork.session_id)
    assert [log.body(one) for one in log.history.records()] == [b'"outline#1"', b'"draft#1"']
    with recording(store, fork.session_id) as record:
        record("draft#2", tokens=5)
    after = store.load(fork.session_id)
    assert after is not None
    assert after.token_budget.tokens_used == 605
    assert paths(store, session_id) == STEPS


def test_a_fork_with_a_budget_of_its_own_has_spent_nothing(
    store: LocalSessions, session_id: str
) -> None:
    fork, _ = fork_before(store, session_id, "publish", token_budget=1_000)
    with recording(store, fork.session_id) as record:
        record("publish#1", tokens=5)
    found = store.load(fork.session_id)
    assert found is not None
    assert (found.token_budget.total_budget, found.token_budget.tokens_used) == (1_000, 5)


def test_keys_of_forks_are_free_ones(store: LocalSessions, session_id: str) -> None:
    keys = [fork_before(store, session_id, "draft")[1].key for _ in range(2)]
    assert keys == ["AI~2", "AI~3"]
    for taken in ("AI", "AI~3"):
        with pytest.raises(KeyTaken, match=taken):
            fork_before(store, session_id, "draft", key=taken)


def test_a_fork_has_the_files(store: LocalSessions, session_id: str) -> None:
    workspace = store.workspace_path(session_id)
    (workspace / "deep").mkdir(parents=True)
    (workspace / "deep" / "draft.md").write_text("draft")
    fork, _ = fork_before(store, session_id, "publish")
    copied = store.workspace_path(fork.session_id) / "deep" / "draft.md"
    assert copied.read_text() == "draft"
    assert not store.workspace_path(fork.session_id).is_symlink()
