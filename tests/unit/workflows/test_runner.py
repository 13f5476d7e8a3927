"""What start, resume and retry do with phases that succeed, fail and never end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from attrs import evolve

from agentforge_sessions.base.files import DirectoryLock, FileLock, OsFileSystem
from agentforge_sessions.harness import (
    InvalidSessionId,
    InvalidStateTransition,
    SessionManager,
    SessionNotFound,
    SessionState,
    SessionStore,
)
from agentforge_sessions.workflows import (
    AlreadyRunning,
    AttemptsExhausted,
    BudgetTooSmall,
    Input,
    InvalidWorkflow,
    NotAWorkflowSession,
    NothingToRetry,
    Phase,
    PhaseNotInWorkflow,
    Script,
    Workflow,
)
from agentforge_sessions.workflows.job import is_agent_session
from tests.support.ids import sid
from tests.unit.workflows.fakes import Ground, Killed

THREE = Workflow(
    name="three",
    workflow_type="tdflow",
    goal="See three phases through.",
    token_budget=1000,
    phases=[
        Phase(name="red", gate=Script(code="write a.txt red\nexit 1", exit_code=1), tokens=100),
        Phase(
            name="green",
            gate=Script(code="write b.txt green", artifacts=["a.txt", "b.txt"]),
            tokens=200,
        ),
        Phase(
            name="refactor",
            gate=Script(code="write c/d.txt more", artifacts=["c/d.txt"]),
            tokens=300,
        ),
    ],
)
FLAKY = Workflow(
    name="flaky",
    workflow_type="tdflow",
    token_budget=1000,
    phases=[
        Phase(name="collect", gate=Script(code="append log collect."), tokens=10),
        Phase(name="calibrate", gate=Script(code="fails-first"), tokens=20, max_attempts=2),
        Phase(name="publish", gate=Script(code="append log publish."), tokens=30),
    ],
)
HOPELESS = Workflow(
    name="hopeless",
    workflow_type="tdflow",
    token_budget=1000,
    phases=[Phase(name="only", gate=Script(code="exit 7"), tokens=5, max_attempts=2)],
)


def of_one(code: str = "say hello", *, tokens: int = 0, **more: object) -> Workflow:
    script = Script(code=code, **more)  # type: ignore[arg-type]
    return Workflow(
        name="one",
        workflow_type="tdflow",
        phases=[Phase(name="only", gate=script, tokens=tokens)],
    )


# --- running through -------------------------------------------------------------------------


def test_runs_every_phase_in_order_and_completes(ground: Ground) -> None:
    outcome = ground.worker().start(THREE)
    assert outcome.state is SessionState.COMPLETED
    assert outcome.phases_done == ("red", "green", "refactor")
    assert outcome.reason is None
    assert outcome.attempts == {"red": 1, "green": 1, "refactor": 1}
    assert ground.actions(outcome.session_id) == [
        ("session_created", "red"),
        ("phase_succeeded", "red"),
        ("phase_advanced", "green"),
        ("phase_succeeded", "green"),
        ("phase_advanced", "refactor"),
        ("phase_succeeded", "refactor"),
        ("session_completed", "refactor"),
    ]
    session = SessionStore(ground.base).load(outcome.session_id)
    assert session is not None
    assert (session.workflow_type, session.goal) == ("tdflow", "See three phases through.")
    assert session.token_budget.total_budget == 1000
    assert session.token_budget.tokens_used == 600


def test_hands_the_limits_of_a_phase_to_the_executor(ground: Ground) -> None:
    workflow = evolve(
        THREE,
        phases=[
            Phase(name="a", gate=Script(code="say a", deadline_s=1.5, fuel=10)),
            Phase(name="b", gate=Script(code="say b")),
        ],
    )
    ground.worker().start(workflow)
    assert ground.executor.limits == [(1.5, 10), (None, None)]


def test_tells_the_observer_everything_in_order(ground: Ground) -> None:
    outcome = ground.worker().start(FLAKY)
    assert ground.diary.session_id == outcome.session_id
    assert ground.diary.lines == [
        "started flaky",
        "budget 0/1000",
        "collect 1/3 attempt 1",
        "collect: done",
        "budget 10/1000",
        "calibrate 2/3 attempt 1",
        "calibrate: exit code 1, expected 0",
        "budget 30/1000",
        f"paused: {outcome.reason}",
    ]
    ground.diary.lines.clear()
    ground.worker().resume(outcome.session_id)
    assert ground.diary.lines == [
        "resumed flaky",
        "budget 30/1000",
        "calibrate 2/3 attempt 2",
        "calibrate: done",
        "budget 50/1000",
        "publish 3/3 attempt 1",
        "publish: done",
        "budget 80/1000",
        "completed",
    ]


def test_observer_that_raises_leaves_a_session_that_can_be_resumed(ground: Ground) -> None:
    def broken(*_: object) -> None:
        raise BrokenPipeError

    ground.diary.phase_finished = broken  # type: ignore[method-assign]
    with pytest.raises(BrokenPipeError):
        ground.worker().start(THREE)
    session_id = ground.only_session()
    assert session_id is not None
    assert session_id == ground.diary.session_id
    del ground.diary.phase_finished  # type: ignore[method-assign]
    assert ground.worker().resume(session_id).state is SessionState.COMPLETED
    assert len(ground.executor.codes) == 3


def test_workflow_built_by_hand_against_the_rules_begins_nothing(ground: Ground) -> None:
    with pytest.raises(InvalidWorkflow, match="phases: is an empty list"):
        ground.worker().start(evolve(THREE, phases=[]))
    assert ground.only_session() is None


# --- success ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "more", "problem"),
    [
        ("exit 3", {}, "exit code 3, expected 0"),
        ("say fine", {"exit_code": 1}, "exit code 0, expected 1"),
        ("trap deadline", {}, "stopped by the limit on deadline"),
        ("trap fuel", {"exit_code": 1}, "stopped by the limit on fuel"),
        ("say fine", {"artifacts": ["x"]}, "x is missing"),
        ("say fine", {"artifacts": ["x/y"]}, "x/y is missing"),
        ("mkdir x", {"artifacts": ["x"]}, "x is not a regular file"),
        ("fifo x", {"artifacts": ["x"]}, "x is not a regular file"),
        ("write y hi\nlink x y", {"artifacts": ["x"]}, "x is a symbolic link"),
        ("link x /etc/hostname", {"artifacts": ["x"]}, "x is a symbolic link"),
        ("write d/y hi\nlink x d", {"artifacts": ["x/y"]}, "x/y is missing, or behind a link"),
        ("link x /etc", {"artifacts": ["x/passwd"]}, "x/passwd is missing, or behind a link"),
        ("write x hi", {"artifacts": ["x/y"]}, "x/y is missing, or behind a link"),
        ("exit 2", {"artifacts": ["x"]}, "exit code 2, expected 0, x is missing"),
        ("write x hi", {"artifacts": ["x", "y", "z"]}, "y is missing, z is missing"),
        ("lose x", {}, "not kept: x (ENOSPC)"),
    ],
)
def test_what_is_no_success_pauses_the_session_and_says_why(
    ground: Ground, code: str, more: dict[str, object], problem: str
) -> None:
    outcome = ground.worker().start(of_one(code, **more))
    assert outcome.state is SessionState.PAUSED
    assert outcome.phases_done == ()
    assert outcome.reason is not None
    assert f"attempt 1 of 3: {problem}; resume begins the next attempt" in outcome.reason
    assert [action for action, _ in ground.actions(outcome.session_id)] == [
        "session_created",
        "phase_failed",
        "session_paused",
    ]
    session = SessionStore(ground.base).load(outcome.session_id)
    assert session is not None
    assert session.history[-1].details == outcome.reason


def test_artifact_that_cannot_be_opened_is_no_success(
    ground: Ground, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = ground.worker()
    ordinary = os.open

    def refuse(path: str, *rest: object, **more: object) -> int:
        if path == "x":
            raise PermissionError(13, "refused")
        return ordinary(path, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", refuse)
    workflow = of_one("write sub/f hi", artifacts=["x"])
    outcome = worker.start(workflow)
    assert outcome.reason is not None
    assert "x can't be opened (Permission denied)" in outcome.reason


# --- failure, resume, retry ------------------------------------------------------------------


def test_resume_begins_the_next_attempt_of_a_failed_phase(ground: Ground) -> None:
    session_id = ground.worker().start(FLAKY).session_id
    outcome = ground.worker().resume(session_id)
    assert outcome.state is SessionState.COMPLETED
    assert outcome.attempts == {"collect": 1, "calibrate": 2, "publish": 1}
    assert (ground.workspace(session_id) / "log").read_text() == "collect.publish."
    assert ground.actions(session_id)[4:8] == [
        ("session_paused", "calibrate"),
        ("session_resumed", "calibrate"),
        ("phase_retried", "calibrate"),
        ("phase_succeeded", "calibrate"),
    ]


def test_resume_refuses_beyond_the_attempts_of_the_workflow_and_changes_nothing(
    ground: Ground,
) -> None:
    session_id = ground.worker().start(HOPELESS).session_id
    second = ground.worker().resume(session_id)
    assert second.reason is not None
    assert second.reason.endswith(
        "attempt 2 of 2: exit code 7, expected 0; only retry begins another attempt"
    )
    before = ground.raw(session_id)
    with pytest.raises(AttemptsExhausted) as caught:
        ground.worker().resume(session_id)
    assert (caught.value.phase, caught.value.attempts, caught.value.max_attempts) == ("only", 2, 2)
    assert caught.value.session_id == session_id
    assert f"agentforge session retry {session_id}" in str(caught.value)
    assert ground.raw(session_id) == before
    assert len(ground.executor.codes) == 2


def test_retry_goes_beyond_the_attempts_of_the_workflow_with_its_reason(ground: Ground) -> None:
    session_id = ground.worker().start(HOPELESS).session_id
    ground.worker().resume(session_id)
    outcome = ground.worker().retry(session_id, "the moon is right")
    assert outcome.attempts == {"only": 3}
    assert outcome.state is SessionState.PAUSED
    session = SessionStore(ground.base).load(session_id)
    assert session is not None
    assert "attempt 3: the moon is right" in [entry.details for entry in session.history]


def test_retry_within_the_attempts_needs_no_reason(ground: Ground) -> None:
    session_id = ground.worker().start(FLAKY).session_id
    assert ground.worker().retry(session_id).state is SessionState.COMPLETED


def test_retry_of_a_phase_that_did_not_fail_changes_nothing(ground: Ground) -> None:
    session_id = ground.worker().start(evolve(THREE, token_budget=100)).session_id
    before = ground.raw(session_id)
    with pytest.raises(NothingToRetry, match=f"agentforge resume {session_id}") as caught:
        ground.worker().retry(session_id)
    assert caught.value.phase == "green"
    assert ground.raw(session_id) == before


def test_refused_run_is_not_told_to_have_started(ground: Ground) -> None:
    session_id = ground.worker().start(evolve(HOPELESS, token_budget=5)).session_id
    ground.diary.lines.clear()
    for word in ("resume", "retry"):
        with pytest.raises(BudgetTooSmall):
            getattr(ground.worker(), word)(session_id)
    assert ground.diary.lines == []


def test_result_of_another_phase_does_not_stand_for_the_current_one(ground: Ground) -> None:
    session_id = ground.worker().start(evolve(THREE, token_budget=100)).session_id
    store = SessionStore(ground.base)
    session = store.load(session_id)
    assert session is not None
    session.add_history("phase_succeeded", "red")
    session.token_budget.extend(900)
    store.save(session)
    assert ground.worker().resume(session_id).state is SessionState.COMPLETED
    assert len(ground.executor.codes) == 3


def test_earlier_success_of_a_phase_does_not_stand_for_its_new_attempt(ground: Ground) -> None:
    """A session that was led back by hand to a phase that had succeeded runs it anew."""
    session_id = ground.worker().start(FLAKY).session_id
    manager = SessionManager(SessionStore(ground.base))
    manager.load(session_id)
    manager.resume()
    manager.advance_phase("collect")
    ground.worker().resume(session_id)
    assert ground.executor.codes.count("append log collect.") == 2


# --- budget ----------------------------------------------------------------------------------


def test_phase_that_the_budget_does_not_cover_pauses_before_it_runs(ground: Ground) -> None:
    outcome = ground.worker().start(evolve(THREE, token_budget=299))
    assert outcome.state is SessionState.PAUSED
    assert outcome.phases_done == ("red",)
    assert outcome.attempts == {"red": 1, "green": 1}
    assert outcome.reason == (
        "phase 'green' needs 200 tokens, and of 299 199 are left; "
        "extend the budget by 1 or more, then resume"
    )
    assert len(ground.executor.codes) == 1


def test_budget_that_just_covers_a_phase_is_enough(ground: Ground) -> None:
    assert ground.worker().start(evolve(THREE, token_budget=600)).state is SessionState.COMPLETED


def test_resume_changes_nothing_until_the_budget_covers_the_phase(
    ground: Ground,
) -> None:
    session_id = ground.worker().start(evolve(THREE, token_budget=250)).session_id
    before = ground.raw(session_id)
    with pytest.raises(BudgetTooSmall) as caught:
        ground.worker().resume(session_id)
    error = caught.value
    assert (error.phase, error.required, error.remaining, error.missing) == ("green", 200, 150, 50)
    assert f"agentforge session budget {session_id} --extend 50" in str(error)
    assert ground.raw(session_id) == before
    manager = SessionManager(SessionStore(ground.base))
    manager.load(session_id)
    manager.extend_budget(350)
    outcome = ground.worker().resume(session_id)
    assert outcome.state is SessionState.COMPLETED
    assert outcome.attempts == {"red": 1, "green": 1, "refactor": 1}


@pytest.mark.parametrize("word", ["resume", "retry"])
def test_next_attempt_that_the_budget_does_not_cover_is_not_begun(
    ground: Ground, word: str
) -> None:
    session_id = ground.worker().start(evolve(HOPELESS, token_budget=9)).session_id
    before = ground.raw(session_id)
    with pytest.raises(BudgetTooSmall) as caught:
        getattr(ground.worker(), word)(session_id)
    assert (caught.value.required, caught.value.remaining) == (5, 4)
    assert ground.raw(session_id) == before


def test_overdrawn_budget_stops_even_a_phase_that_costs_nothing(ground: Ground) -> None:
    session_id = ground.worker().start(FLAKY).session_id
    manager = SessionManager(SessionStore(ground.base))
    manager.load(session_id)
    manager.record_tokens(2000)
    with pytest.raises(BudgetTooSmall) as caught:
        ground.worker().resume(session_id)
    assert caught.value.remaining == -1030
    assert caught.value.missing == 1050


def paused_after_a_success(ground: Ground, workflow: Workflow) -> str:
    """Have the first phase succeed and the session paused before it is advanced."""

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    ground.diary.phase_finished = stop  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        ground.worker().start(workflow)
    del ground.diary.phase_finished  # type: ignore[method-assign]
    manager = SessionManager(SessionStore(ground.base))
    manager.load(ground.diary.session_id)
    manager.pause()
    return ground.diary.session_id


def test_what_has_to_be_covered_is_the_phase_that_runs_next(ground: Ground) -> None:
    """The one that has succeeded costs less, the one after it more, than is left."""
    session_id = paused_after_a_success(ground, evolve(THREE, token_budget=250))
    before = ground.raw(session_id)
    with pytest.raises(BudgetTooSmall) as caught:
        ground.worker().resume(session_id)
    assert (caught.value.phase, caught.value.required) == ("green", 200)
    assert ground.raw(session_id) == before


def test_session_with_nothing_left_to_run_needs_no_budget(ground: Ground) -> None:
    session_id = paused_after_a_success(ground, of_one(tokens=100_000))
    assert ground.worker().resume(session_id).state is SessionState.COMPLETED


# --- what can be resumed ---------------------------------------------------------------------


def test_resume_needs_no_file_of_the_workflow_any_more(ground: Ground, tmp_path: Path) -> None:
    from agentforge_sessions.workflows import load_workflow

    (tmp_path / "a.py").write_text("exit 1")
    (tmp_path / "in.txt").write_text("input")
    (tmp_path / "w.yaml").write_text(
        "schema_version: 1\nname: w\nworkflow_type: t\nphases:\n"
        "  - {name: a, script: a.py}\n"
        "inputs:\n  - {source: in.txt, target: in.txt}\n"
    )
    session_id = ground.worker().start(load_workflow(tmp_path / "w.yaml")).session_id
    (tmp_path / "a.py").write_text("say edited")
    (tmp_path / "w.yaml").unlink()
    (tmp_path / "in.txt").unlink()
    assert ground.worker().resume(session_id).state is SessionState.PAUSED
    assert ground.executor.codes == ["exit 1", "exit 1"]


@pytest.mark.parametrize("word", ["resume", "retry"])
@pytest.mark.parametrize("end", ["complete", "abort"])
def test_session_that_has_ended_is_refused(ground: Ground, word: str, end: str) -> None:
    if end == "complete":
        session_id = ground.worker().start(THREE).session_id
    else:
        session_id = ground.worker().start(FLAKY).session_id
        manager = SessionManager(SessionStore(ground.base))
        manager.load(session_id)
        manager.abort()
    before = ground.raw(session_id)
    with pytest.raises(InvalidStateTransition, match="it has ended for good") as caught:
        getattr(ground.worker(), word)(session_id)
    assert caught.value.operation == word
    assert ground.raw(session_id) == before


@pytest.mark.parametrize("word", ["resume", "retry"])
def test_session_that_no_workflow_began_is_refused(ground: Ground, word: str) -> None:
    session = SessionManager(SessionStore(ground.base)).create(initial_phase="red")
    with pytest.raises(NotAWorkflowSession) as caught:
        getattr(ground.worker(), word)(session.session_id)
    assert caught.value.session_id == session.session_id
    assert not ground.workspace(session.session_id).exists()
    assert not is_agent_session(SessionStore(ground.base), session.session_id)


def test_session_that_is_not_there_is_refused(ground: Ground) -> None:
    with pytest.raises(SessionNotFound):
        ground.worker().resume(sid("nobody"))
    with pytest.raises(InvalidSessionId):
        ground.worker().resume("../../etc")


def test_session_led_into_a_phase_of_its_own_is_refused(ground: Ground) -> None:
    session_id = ground.worker().start(FLAKY).session_id
    manager = SessionManager(SessionStore(ground.base))
    manager.load(session_id)
    manager.resume()
    manager.advance_phase("elsewhere")
    with pytest.raises(PhaseNotInWorkflow) as caught:
        ground.worker().resume(session_id)
    assert caught.value.phase == "elsewhere"
    assert caught.value.known == ("collect", "calibrate", "publish")


def test_damaged_workflow_of_a_session_is_told_with_its_faults(ground: Ground) -> None:
    session_id = ground.worker().start(FLAKY).session_id
    path = ground.workspace(session_id).with_name("workflow.yaml")
    path.write_text(path.read_text().replace("tokens: 10", "tokens: ten"))
    with pytest.raises(InvalidWorkflow, match="tokens: expected a whole number") as caught:
        ground.worker().resume(session_id)
    assert caught.value.path == path


# --- one worker at a time --------------------------------------------------------------------


@pytest.mark.parametrize("word", ["resume", "retry"])
def test_second_worker_is_refused_while_the_first_runs(ground: Ground, word: str) -> None:
    refusals = []

    def meanwhile(session_id: str) -> None:
        other = Ground(ground.base)
        with pytest.raises(AlreadyRunning) as caught:
            getattr(other.worker(), word)(session_id)
        refusals.append(caught.value.session_id)
        assert other.executor.codes == []

    ground.executor.before = meanwhile
    outcome = ground.worker().start(THREE)
    assert outcome.state is SessionState.COMPLETED
    assert refusals == [outcome.session_id] * 3


def test_run_lock_does_not_stand_in_the_way_of_saves_and_readers(ground: Ground) -> None:
    session_id = ground.worker().start(FLAKY).session_id
    snapshot = ground.workspace(session_id).parent / "workflow.yaml"
    with FileLock(OsFileSystem(), snapshot, timeout_s=0):
        manager = SessionManager(SessionStore(ground.base, lock_timeout_s=0))
        manager.load(session_id)
        manager.extend_budget(5)
        with pytest.raises(AlreadyRunning):
            ground.worker().resume(session_id)


def test_run_lock_leaves_the_workspace_to_whoever_runs_code_in_it(ground: Ground) -> None:
    taken: list[int] = []

    def take(session_id: str) -> None:
        with DirectoryLock(OsFileSystem(), ground.workspace(session_id), timeout_s=0) as lock:
            taken.append(lock.fd)

    ground.executor.before = take
    assert ground.worker().start(THREE).state is SessionState.COMPLETED
    assert len(taken) == 3


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError, Killed])
def test_run_that_ends_in_the_middle_records_nothing_and_releases_its_lock(
    ground: Ground, error: type[BaseException]
) -> None:
    def fail(session_id: str) -> None:
        raise error

    ground.executor.before = fail
    with pytest.raises(error):
        ground.worker().start(THREE)
    session = SessionStore(ground.base).load(ground.diary.session_id)
    assert session is not None
    assert session.state is SessionState.ACTIVE
    assert [entry.action for entry in session.history] == ["session_created"]
    assert session.token_budget.tokens_used == 0
    ground.executor.before = lambda _: None
    assert ground.worker().resume(ground.diary.session_id).state is SessionState.COMPLETED


def test_session_that_was_completed_while_waiting_for_the_lock_is_refused(ground: Ground) -> None:
    session_id = ground.worker().start(FLAKY).session_id
    worker = ground.worker()
    ordinary = ground.manager.store.read_attachment

    def slow(session_id: str, name: str) -> bytes | None:
        Ground(ground.base).worker().resume(session_id)
        return ordinary(session_id, name)

    ground.manager.store.read_attachment = slow  # type: ignore[method-assign]
    with pytest.raises(InvalidStateTransition) as caught:
        worker.resume(session_id)
    assert caught.value.operation == "resume"


@pytest.mark.parametrize("late", [False, True], ids=["before the lock", "after it"])
def test_session_that_is_deleted_meanwhile_is_not_found(ground: Ground, late: bool) -> None:
    session_id = ground.worker().start(FLAKY).session_id
    worker = ground.worker()
    store = ground.manager.store

    def read(session_id: str, name: str) -> bytes | None:
        data = SessionStore(ground.base).read_attachment(session_id, name)
        SessionStore(ground.base).delete(session_id)
        return data

    if late:
        ground.manager.load = lambda session_id: None  # type: ignore[method-assign]
    else:
        store.read_attachment = read  # type: ignore[method-assign]
    with pytest.raises(SessionNotFound):
        worker.resume(session_id)
    assert late or not (ground.base / session_id).exists()


# --- inputs ----------------------------------------------------------------------------------

WITH_INPUTS = evolve(
    THREE,
    inputs=[
        Input(target="spec/deep/x.yaml", content=b"x: 1\n"),
        Input(target="data.bin", content=b"\xff\x00\n"),
    ],
)


def test_inputs_are_in_the_workspace_before_the_first_phase_runs(ground: Ground) -> None:
    seen = []

    def look(session_id: str) -> None:
        root = ground.workspace(session_id)
        seen.append((root / "spec/deep/x.yaml").read_bytes() + (root / "data.bin").read_bytes())

    ground.executor.before = look
    outcome = ground.worker().start(WITH_INPUTS)
    assert seen == [b"x: 1\n\xff\x00\n"] * 3
    assert ground.actions(outcome.session_id)[1] == ("inputs_placed", "red")
    assert ground.workspace(outcome.session_id).stat().st_mode & 0o777 == 0o700


def test_input_that_a_killed_phase_changed_is_left_as_it_is(ground: Ground) -> None:
    worker = ground.worker()

    def killed(session_id: str) -> None:
        (ground.workspace(session_id) / "data.bin").write_text("changed")
        raise Killed

    ground.executor.before = killed
    with pytest.raises(Killed):
        worker.start(WITH_INPUTS)
    ground.executor.before = lambda _: None
    session_id = ground.diary.session_id
    ground.worker().resume(session_id)
    assert (ground.workspace(session_id) / "data.bin").read_text() == "changed"


def test_inputs_are_never_written_through_a_link(ground: Ground, tmp_path: Path) -> None:
    """The workspace of a session that was created and not begun may have been tampered with."""
    outside = tmp_path / "outside"
    outside.mkdir()
    worker = ground.worker()
    placed = []

    def tamper(session_id: str, *_: object, **__: object) -> None:
        root = ground.workspace(session_id)
        root.mkdir(mode=0o700)
        (root / "spec").symlink_to(outside)
        placed.append(root)

    ground.diary.run_started = tamper  # type: ignore[method-assign,assignment]
    from agentforge_sessions.base.files import WriteError

    with pytest.raises(WriteError):
        worker.start(WITH_INPUTS)
    assert list(outside.iterdir()) == []
    del ground.diary.run_started  # type: ignore[method-assign]
    (placed[0] / "spec").unlink()
    session_id = ground.only_session()
    assert session_id is not None
    assert ground.worker().resume(session_id).state is SessionState.COMPLETED
