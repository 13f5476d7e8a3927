"""The manager: which session is current, what it refuses to save, ids, budgets, errors."""

from __future__ import annotations

import copy
import subprocess
import sys
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from agentforge_sessions.base import files as durable
from agentforge_sessions.base.errors import AgentForgeError
from agentforge_sessions.base.result import Failure, attempt
from agentforge_sessions.harness import (
    HarnessError,
    InvalidSession,
    InvalidStateTransition,
    NoActiveSession,
    SessionConflict,
    SessionContext,
    SessionCorrupted,
    SessionFenced,
    SessionIdTaken,
    SessionManager,
    SessionNotFound,
    SessionState,
    SessionStore,
    SessionUnreadable,
    WriteError,
)
from agentforge_sessions.harness.disk_errors import LockTimeout
from agentforge_sessions.harness.errors import BudgetExceeded, SessionAlreadyActive
from agentforge_sessions.harness.session_domain import InvalidStateForPhaseAdvance
from agentforge_sessions.harness.views.briefing import estimate_tokens
from tests.support.clock import START, FakeClock
from tests.support.executors import FakeExecutor
from tests.support.ids import sid

ROOT = Path(__file__).parents[3]
GONE = sid("gone")


# --------------------------------------------------------------------------- which one is current


def test_nothing_is_charged_to_the_former_session_when_another_one_is_not_there(
    manager: SessionManager, base: Path
) -> None:
    session = manager.create()

    assert manager.load(GONE) is None

    assert manager.current_session is None
    with pytest.raises(NoActiveSession):
        manager.record_tokens(10)
    assert SessionStore(base).load(session.session_id) == session


def test_open_returns_the_session_or_raises(manager: SessionManager, base: Path) -> None:
    session = manager.create()
    manager.release()

    assert manager.open(session.session_id) == session
    with pytest.raises(SessionNotFound) as caught:
        manager.open(GONE)

    assert caught.value.session_id == GONE
    assert caught.value.path == base
    assert caught.value.user_message == f"Session {GONE} not found."
    assert manager.current_session is None


def test_resume_by_id_opens_and_goes_on(manager: SessionManager) -> None:
    paused = manager.create().session_id
    manager.pause()
    manager.release()
    active = manager.create().session_id
    manager.release()
    ended = manager.create().session_id
    manager.complete()

    assert manager.resume(paused).state is SessionState.ACTIVE
    found = manager.resume(active)
    assert found is manager.current_session
    assert found.revision == 1  # its worker died; there was nothing to save
    with pytest.raises(InvalidStateTransition):
        manager.resume(ended)
    with pytest.raises(SessionNotFound):
        manager.resume(GONE)
    with pytest.raises(NoActiveSession):
        manager.resume()


def test_reload_changes_the_session_in_place(manager: SessionManager, base: Path) -> None:
    session = manager.create()
    other = SessionManager(base)
    other.open(session.session_id)
    other.record_tokens(7)

    assert manager.reload() is session

    assert session.token_budget.tokens_used == 7
    assert session == other.current_session


def test_a_session_is_deleted_and_looked_for_by_its_id(manager: SessionManager) -> None:
    session_id = manager.create().session_id
    assert manager.exists(session_id)

    assert manager.delete(session_id) is True

    assert manager.current_session is None
    assert not manager.exists(session_id)
    assert manager.delete(session_id, missing_ok=True) is False
    with pytest.raises(SessionNotFound):
        manager.delete(session_id)


def test_get_artifacts_gives_those_of_a_phase(manager: SessionManager) -> None:
    manager.create("tdflow", "red")
    manager.add_artifact("a", "created")
    manager.advance_phase("green")
    manager.add_artifact("b", "created")

    assert [one.path for one in manager.get_artifacts("green")] == ["b"]
    assert [one.path for one in manager.get_artifacts()] == ["a", "b"]


def test_a_manager_takes_a_path(tmp_path: Path) -> None:
    for place in (tmp_path / "a", str(tmp_path / "b")):
        session = SessionManager(place).create()
        assert (Path(place) / session.session_id / "session.yaml").is_file()


def test_list_takes_the_name_of_a_state(manager: SessionManager) -> None:
    session = manager.create()

    assert [one.session_id for one in manager.list(state="active")] == [session.session_id]
    assert manager.list(state="paused") == []
    with pytest.raises(InvalidSession, match="'asleep' is none of active, paused"):
        manager.list(state="asleep")


# ------------------------------------------------------------------------------ what is not saved


@pytest.mark.parametrize("end", ["complete", "abort"])
def test_save_writes_nothing_of_a_session_that_has_ended(manager: SessionManager, end: str) -> None:
    session = manager.create()
    getattr(manager, end)()
    path = manager.store.session_path(session.session_id)
    content = path.read_bytes()

    assert manager.save() == path  # nothing was changed, so there is nothing to refuse
    session.goal = "another"
    with pytest.raises(InvalidStateTransition, match="cannot save session"):
        manager.save()

    assert path.read_bytes() == content
    assert manager.reload().goal is None


def test_a_state_that_is_set_by_hand_is_not_saved(manager: SessionManager) -> None:
    session = manager.create()
    session.state = SessionState.PAUSED

    with pytest.raises(InvalidStateTransition) as caught:
        manager.save()

    states = (SessionState.ACTIVE, SessionState.PAUSED)
    assert (caught.value.current_state, caught.value.target_state) == states

    assert manager.reload().state is SessionState.ACTIVE


# --------------------------------------------------------------------------------------- identity


def test_ids_tell_the_moment_and_a_taken_one_moves_on_by_a_microsecond(
    base: Path, clock: FakeClock
) -> None:
    clock.now = START.replace(microsecond=999_998)
    made = [SessionManager(base, clock=clock).create().session_id for _ in range(3)]

    assert made == [
        "session_20260301_093000_999998",
        "session_20260301_093000_999999",
        "session_20260301_093001_000000",
    ]
    assert SessionStore(base).list_sessions() == made


CREATE = """
import sys
from tests.support.clock import FakeClock
from agentforge_sessions.harness import SessionManager

for _ in range(10):
    print(SessionManager(sys.argv[1], clock=FakeClock()).create().session_id)
"""


def test_processes_that_create_at_the_same_moment_get_ids_of_their_own(base: Path) -> None:
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", CREATE, str(base)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    made = [line for worker in workers for line in worker.communicate(timeout=300)[0].split()]

    assert [worker.returncode for worker in workers] == [0, 0, 0]
    assert sorted(made) == [f"session_20260301_093000_{number:06d}" for number in range(30)]
    assert SessionStore(base).list_sessions() == sorted(made)


def test_an_id_is_taken_by_whatever_has_its_name(base: Path, clock: FakeClock) -> None:
    (base / "session_20260301_093000_000000").mkdir(parents=True)
    (base / "session_20260301_093000_000001").write_text("x")

    session = SessionManager(base, clock=clock).create(goal="g")

    assert session.session_id == "session_20260301_093000_000002"
    assert session.goal == "g"


def test_a_session_whose_id_is_of_a_hash_is_led_on(base: Path) -> None:
    hashed = "session_20260301_093000_0badf11e"
    SessionStore(base).save(SessionContext.create(session_id=hashed))
    manager = SessionManager(base)

    manager.open(hashed)
    manager.record_tokens(1)

    assert [one.session_id for one in manager.list()] == [hashed]


# ----------------------------------------------------------------------------------------- budget


def test_each_crossing_of_a_line_is_in_the_history_and_in_the_log_once(
    manager: SessionManager, base: Path
) -> None:
    session = manager.create(token_budget=100)
    with capture_logs() as events:
        for tokens in (79, 1, 19, 1, 1, 5):
            manager.record_tokens(tokens)

    told = [(entry.action, entry.details) for entry in session.history[1:]]
    assert told == [
        ("budget_warning", "80 of 100 tokens used (80 %)"),
        ("budget_exceeded", "101 of 100 tokens used (101 %)"),
    ]
    assert [(one["event"], one["tokens_used"], one["log_level"]) for one in events] == [
        ("session.budget.warning", 80, "warning"),
        ("session.budget.exceeded", 101, "warning"),
    ]
    assert SessionStore(base).load(session.session_id) == session


def test_a_line_is_crossed_again_after_an_extension(manager: SessionManager) -> None:
    session = manager.create(token_budget=100)
    manager.record_tokens(101)
    manager.extend_budget(900)
    manager.record_tokens(900)

    assert [entry.action for entry in session.history[1:]] == [
        *("budget_warning", "budget_exceeded", "budget_extended"),
        *("budget_warning", "budget_exceeded"),
    ]


def test_what_a_phase_costs_crosses_the_lines_too(base: Path, clock: FakeClock) -> None:
    manager = SessionManager(base, executor=FakeExecutor(), clock=clock)
    session = manager.create("tdflow", "red", 10)
    with capture_logs() as events:
        manager.run_phase("pass", tokens=8)
        manager.record("agent_answered", tokens=3)

    assert [entry.action for entry in session.history[1:]] == [
        *("budget_warning", "phase_succeeded", "budget_exceeded", "agent_answered"),
    ]
    told = [event["event"] for event in events if "budget" in event["event"]]
    assert told == ["session.budget.warning", "session.budget.exceeded"]


def test_record_tokens_returns_how_the_budget_stands(manager: SessionManager) -> None:
    manager.create(token_budget=100)

    low = manager.record_tokens(50)
    high = manager.record_tokens(30)
    over = manager.record_tokens(21)

    assert (low.tokens_remaining, low.utilization_percent) == (50, 50.0)
    assert not low
    assert high
    assert (high.is_warning, high.is_over_budget) == (True, False)
    assert (over.is_warning, over.is_over_budget, over.tokens_remaining) == (True, True, -1)


@pytest.mark.parametrize("tokens", [0, -1, True, 1.0, "5", None])
def test_tokens_that_are_no_positive_number_are_refused(
    manager: SessionManager, tokens: object
) -> None:
    session = manager.create()
    before = copy.deepcopy(session)

    with pytest.raises(InvalidSession, match="tokens"):
        manager.record_tokens(tokens)  # type: ignore[arg-type]

    assert session == before


def test_nothing_spent_is_recorded_without_a_charge(manager: SessionManager) -> None:
    session = manager.create()

    manager.record("noted", tokens=0)

    assert session.token_budget.tokens_used == 0


@pytest.mark.parametrize("total", [0, -1, True, 1.5])
def test_a_budget_is_a_positive_number(manager: SessionManager, base: Path, total: object) -> None:
    with pytest.raises(InvalidSession, match="total_budget"):
        manager.create(token_budget=total)  # type: ignore[arg-type]

    assert manager.current_session is None
    assert not base.exists()


def test_a_caller_may_have_a_step_refused_that_the_budget_does_not_cover(
    manager: SessionManager,
) -> None:
    session = manager.create(token_budget=100)
    manager.require_budget(100)

    with pytest.raises(BudgetExceeded) as caught:
        manager.require_budget(101)

    assert (caught.value.required, caught.value.remaining) == (101, 100)
    assert caught.value.session_id == session.session_id
    assert caught.value.user_message == (
        "Token budget exceeded. Consider extending budget or completing session."
    )


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2)])
def test_tokens_are_estimated_at_4_characters_each(text: str, tokens: int) -> None:
    assert estimate_tokens(text) == tokens
    assert estimate_tokens("ü" * 8) == 2


# ----------------------------------------------------------------------------------------- errors


def test_a_session_that_has_not_ended_stands_in_the_way_of_another(
    manager: SessionManager,
) -> None:
    session = manager.create()
    with pytest.raises(SessionAlreadyActive) as caught:
        manager.create()

    assert caught.value.session_id == session.session_id
    assert caught.value.user_message == ("A session is already active. Complete or abort it first.")


@pytest.mark.parametrize("operation", ["pause", "record_tokens", "can_continue", "briefing"])
def test_without_a_session_there_is_nothing_to_do(manager: SessionManager, operation: str) -> None:
    arguments = (1,) if operation == "record_tokens" else ()
    with pytest.raises(NoActiveSession) as caught:
        getattr(manager, operation)(*arguments)

    assert str(caught.value).startswith(f"{operation}() needs a current session")
    assert caught.value.user_message == ("No active session. Create or load a session first.")
    assert caught.value.session_id is None


def test_a_refused_transition_names_both_states(manager: SessionManager) -> None:
    session = manager.create()
    manager.complete()

    failed = attempt(manager.pause)

    assert isinstance(failed, Failure)
    assert failed.code == "InvalidStateTransition"
    assert failed.message == "Cannot transition from completed to paused."
    assert failed.fields == {
        "session_id": session.session_id,
        "current_state": SessionState.COMPLETED,
        "target_state": SessionState.PAUSED,
        "operation": "pause",
    }


@pytest.mark.parametrize("end", ["pause", "complete", "abort"])
def test_only_an_active_session_goes_to_another_phase(manager: SessionManager, end: str) -> None:
    manager.create("tdflow", "red")
    getattr(manager, end)()

    with pytest.raises(InvalidStateForPhaseAdvance) as caught:
        manager.advance_phase("green")

    assert isinstance(caught.value, InvalidStateTransition)
    assert caught.value.target_state is SessionState.ACTIVE


def test_what_is_refused_is_said_in_words(manager: SessionManager) -> None:
    session = manager.create()
    manager.complete()

    with pytest.raises(
        InvalidStateTransition, match=f"cannot record tokens in session {session.session_id}: "
    ):
        manager.record_tokens(1)
    with pytest.raises(InvalidStateTransition, match="cannot make a checkpoint of session "):
        manager.checkpoint_session()


def test_a_corrupted_file_is_told_with_its_session_and_details(manager: SessionManager) -> None:
    session_id = manager.create().session_id
    manager.store.session_path(session_id).write_text("state: [\n")

    with pytest.raises(SessionCorrupted) as caught:
        manager.load(session_id)

    assert caught.value.session_id == session_id
    assert caught.value.details
    assert caught.value.user_message == (
        f"Session {session_id} state file is corrupted: {caught.value.details}"
    )


@pytest.mark.parametrize("kind", ["directory", "link", "too large"])
def test_what_can_not_be_read_is_of_the_same_family(
    manager: SessionManager, base: Path, kind: str
) -> None:
    session_id = manager.create().session_id
    path = manager.store.session_path(session_id)
    if kind == "too large":
        manager = SessionManager(SessionStore(base, max_file_bytes=10))
    else:
        path.rename(path.with_name("elsewhere"))
        path.mkdir() if kind == "directory" else path.symlink_to("elsewhere")

    with pytest.raises(SessionUnreadable) as caught:
        manager.load(session_id)

    assert isinstance(caught.value, SessionCorrupted)
    assert isinstance(caught.value, durable.ReadError)
    assert caught.value.session_id == session_id
    assert str(path) in caught.value.details
    assert caught.value.user_message.startswith(f"Session {session_id} state file is corrupted: ")


def test_a_failed_write_is_an_error_of_the_harness_and_of_the_disk(
    manager: SessionManager, base: Path
) -> None:
    session = manager.create()
    store = SessionStore(base, lock_timeout_s=0)
    other = SessionManager(store)
    other.open(session.session_id)
    lock = durable.DirectoryLock(durable.OsFileSystem(), base / session.session_id)
    with lock, pytest.raises(HarnessError) as caught:
        other.record_tokens(1)

    error = caught.value
    assert isinstance(error, LockTimeout)
    assert isinstance(error, WriteError)
    assert isinstance(error, durable.LockTimeout)
    assert (error.session_id, error.timeout_s) == (session.session_id, 0)
    assert error.retryable
    assert isinstance(error.__cause__, durable.LockTimeout)


def test_an_error_says_whether_the_same_call_may_succeed_later() -> None:
    kinds: dict[type[AgentForgeError], bool] = {
        SessionConflict: True,
        WriteError: True,
        LockTimeout: True,
        SessionFenced: False,
        SessionIdTaken: False,
        SessionNotFound: False,
        SessionCorrupted: False,
        InvalidStateTransition: False,
    }
    assert {kind: kind.retryable for kind in kinds} == kinds
