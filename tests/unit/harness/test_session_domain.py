"""Every value is checked when it is built, and all that is wrong is said at once."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta, timezone
from itertools import product
from typing import Any

import pytest

from agentforge_sessions.base.clock import as_utc
from agentforge_sessions.harness import (
    InvalidSession,
    InvalidStateTransition,
    SessionArtifact,
    SessionContext,
    SessionHistory,
    SessionState,
    TokenBudget,
)
from agentforge_sessions.harness.session_domain import (
    HISTORY_ACTIONS,
    MAX_COUNT,
    TRANSITIONS,
    ImmutableSessionId,
)
from tests.support.clock import START
from tests.support.ids import sid

LATER = START + timedelta(hours=1)


def fields(**changed: Any) -> dict[str, Any]:
    return {
        "session_id": sid("s"),
        "state": SessionState.ACTIVE,
        "created_at": START,
        "updated_at": LATER,
        **changed,
    }


NO_NAMES = ["", "  ", "a\nb", "a\x00", "a\x7f", "a\x85", "a\u2028", "x" * 201, 7, b"a", "a\ud800"]
NO_COUNTS = [-1, 1.0, True, "1", None, MAX_COUNT + 1, float("nan")]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *product(["workflow_type", "current_phase"], NO_NAMES),
        *product(["revision"], NO_COUNTS),
        *product(["attempt_number"], [0, *NO_COUNTS]),
        *product(["created_at", "updated_at"], [None, "2026-03-01", 0]),
        ("completed_at", "2026-03-01"),
        ("state", "active"),
        ("state", None),
        ("token_budget", 100),
        ("token_budget", None),
        ("goal", 7),
        ("goal", "x" * 4001),
        ("goal", "a\udfff"),
        ("artifacts", "abc"),
        ("artifacts", None),
        ("artifacts", [1]),
        ("history", {}),
        ("history", [None]),
    ],
)
def test_a_wrong_field_is_named(name: str, value: object) -> None:
    with pytest.raises(InvalidSession) as caught:
        SessionContext(**fields(**{name: value}))

    [fault] = caught.value.faults
    assert fault.startswith(name)
    assert len(fault) < 400


def test_all_faults_are_told_at_once() -> None:
    with pytest.raises(InvalidSession) as caught:
        SessionContext(
            session_id="../x",
            state="active",  # type: ignore[arg-type]
            created_at=LATER,
            updated_at=START,
            token_budget=None,  # type: ignore[arg-type]
            workflow_type="",
            current_phase="a\nb",
            attempt_number=0,
            completed_at="now",  # type: ignore[arg-type]
            artifacts=None,  # type: ignore[arg-type]
            history="x",  # type: ignore[arg-type]
            goal=1,  # type: ignore[arg-type]
            revision=-1,
        )

    named = {fault.split(":")[0] for fault in caught.value.faults}
    assert named == {
        *("session_id", "state", "updated_at", "completed_at", "token_budget", "workflow_type"),
        *("current_phase", "attempt_number", "goal", "revision", "artifacts", "history"),
    }
    assert str(caught.value) == "; ".join(caught.value.faults)
    assert isinstance(caught.value, ValueError)


@pytest.mark.parametrize(
    ("state", "completed", "fault"),
    [
        (SessionState.ACTIVE, LATER, "completed_at: is set"),
        (SessionState.PAUSED, LATER, "completed_at: is set"),
        (SessionState.COMPLETED, None, "completed_at: is missing"),
        (SessionState.ABORTED, None, "completed_at: is missing"),
        (SessionState.COMPLETED, START - timedelta(microseconds=1), "is before created_at"),
    ],
)
def test_the_end_and_the_state_agree(
    state: SessionState, completed: datetime | None, fault: str
) -> None:
    with pytest.raises(InvalidSession, match=fault):
        SessionContext(**fields(state=state, completed_at=completed))


def test_a_session_that_was_never_changed_and_ended_at_once_is_sound() -> None:
    session = SessionContext(
        **fields(updated_at=START, state=SessionState.COMPLETED, completed_at=START)
    )
    assert session.faults() == []


@pytest.mark.parametrize(
    ("path", "fault"),
    [
        ("", "is empty"),
        ("/a", "not inside the workspace"),
        ("..", "not inside the workspace"),
        ("a/../b", "not inside the workspace"),
        ("a\0b", "NUL"),
        ("x" * 4097, "4,097 characters"),
        ("a\ud800", "surrogate"),
        (7, "expected text"),
    ],
)
def test_an_artifact_stays_in_the_workspace(path: Any, fault: str) -> None:
    with pytest.raises(InvalidSession, match=fault) as caught:
        SessionArtifact(path, "created", START)
    assert len(caught.value.faults) == 1


@pytest.mark.parametrize("path", ["a", "a/b", "..a", "a..", "a/..b", "a b", ".hidden", "x" * 4096])
def test_an_artifact_may_have_any_path_inside(path: str) -> None:
    assert SessionArtifact(path, "created", START).path == path


def test_an_artifact_and_an_entry_tell_all_their_faults() -> None:
    with pytest.raises(InvalidSession) as artifact:
        SessionArtifact("/a", "deleted", None, "")  # type: ignore[arg-type]
    with pytest.raises(InvalidSession) as entry:
        SessionHistory("now", "", "a\nb", 7)  # type: ignore[arg-type]

    assert [f.split(":")[0] for f in artifact.value.faults] == [
        *("path", "artifact_type", "timestamp", "phase"),
    ]
    assert [f.split(":")[0] for f in entry.value.faults] == [
        *("timestamp", "action", "phase", "details"),
    ]


def test_a_naive_time_is_utc_and_every_other_becomes_utc() -> None:
    naive = datetime(2026, 3, 1, 9, 30)
    there = naive.replace(tzinfo=timezone(timedelta(hours=5, minutes=30)))

    assert as_utc(naive) == START
    assert as_utc(naive).tzinfo is UTC
    assert as_utc(there) == START - timedelta(hours=5, minutes=30)
    assert SessionHistory(naive, "a").timestamp is not naive
    assert SessionHistory(naive, "a").timestamp == START
    assert SessionArtifact("a", "created", there).timestamp.tzinfo is UTC
    session = SessionContext(**fields(created_at=naive, updated_at=there.replace(hour=23)))
    assert session.created_at.tzinfo is session.updated_at.tzinfo is UTC
    assert SessionContext.create(now=naive).created_at == START


def test_a_time_that_has_none_in_utc_is_a_fault() -> None:
    edge = datetime.max.replace(tzinfo=timezone(timedelta(hours=-14)))
    with pytest.raises(InvalidSession, match="can't be told in UTC"):
        SessionHistory(edge, "a")


@pytest.mark.parametrize("operation", sorted({operation for _, operation in TRANSITIONS}))
@pytest.mark.parametrize("state", SessionState)
def test_the_table_of_transitions_is_all_there_is(state: SessionState, operation: str) -> None:
    completed = LATER if state.is_terminal else None
    session = SessionContext(**fields(state=state, completed_at=completed))
    target = TRANSITIONS.get((state, operation))
    if target is None:
        with pytest.raises(InvalidStateTransition) as caught:
            session.apply(operation, now=LATER)
        assert caught.value.current_state is state
        assert caught.value.operation == operation
        assert session.state is state
        assert [entry.action for entry in session.history] == ["session_created"]
        assert session.completed_at == completed
    else:
        entry = session.apply(operation, details="why", now=LATER + timedelta(1))
        assert session.state is target
        assert entry.action == HISTORY_ACTIONS[operation]
        assert session.history[1:] == [entry]
        assert session.completed_at == (entry.timestamp if target.is_terminal else None)
        assert session.faults() == []


def test_the_life_cycle_is_the_one_that_is_documented() -> None:
    assert {
        (state.value, operation): to.value for (state, operation), to in TRANSITIONS.items()
    } == {
        ("active", "pause"): "paused",
        ("active", "complete"): "completed",
        ("active", "abort"): "aborted",
        ("paused", "resume"): "active",
        ("paused", "abort"): "aborted",
    }
    assert {state for state in SessionState if state.is_terminal} == {
        SessionState.COMPLETED,
        SessionState.ABORTED,
    }


def test_an_unknown_operation_is_refused() -> None:
    session = SessionContext(**fields())
    with pytest.raises(InvalidStateTransition):
        session.apply("sleep")


@pytest.mark.parametrize("value", NO_COUNTS)
def test_a_budget_refuses_what_is_no_count(value: Any) -> None:
    for arguments in ({"total_budget": value}, {"tokens_used": value}):
        with pytest.raises(InvalidSession, match=next(iter(arguments))):
            TokenBudget(**arguments)
    budget = TokenBudget(10, 1)
    for call in (budget.record_usage, budget.extend, budget.can_continue):
        with pytest.raises(InvalidSession):
            call(value)
    assert (budget.total_budget, budget.tokens_used) == (10, 1)


def test_a_budget_of_nothing_is_none() -> None:
    with pytest.raises(InvalidSession, match="total_budget: 0 is less than 1"):
        TokenBudget(0)


def test_a_budget_never_grows_over_what_can_be_kept() -> None:
    budget = TokenBudget(MAX_COUNT, MAX_COUNT)
    for call in (budget.record_usage, budget.extend):
        with pytest.raises(InvalidSession, match="more than"):
            call(1)
    assert budget.faults() == []


def test_the_entities_are_dataclasses_of_the_standard_library() -> None:
    session = SessionContext.create("tdflow", "red", 500, session_id=sid("s"), now=START)
    session.add_artifact("a.py", "created", now=START)

    plain = dataclasses.asdict(session)
    assert plain["token_budget"]["total_budget"] == 500
    assert plain["artifacts"][0]["path"] == "a.py"
    assert plain["history"][0]["action"] == "session_created"
    copied = dataclasses.replace(session, goal="another")
    assert (copied.goal, copied.history, session.goal) == ("another", session.history, None)
    assert copied.history is not session.history
    with pytest.raises(InvalidSession, match="tokens_used"):
        dataclasses.replace(session.token_budget, tokens_used=-1)
    with pytest.raises(InvalidSession, match="path"):
        dataclasses.replace(session.artifacts[0], path="/etc/passwd")


def test_a_session_needs_no_more_than_its_id() -> None:
    session = SessionContext(sid("s"), created_at=START)

    assert session.state is SessionState.ACTIVE
    assert session.updated_at == START
    assert [(one.action, one.timestamp) for one in session.history] == [("session_created", START)]


def test_a_session_keeps_its_id() -> None:
    session = SessionContext(sid("s"))
    for given in (sid("other"), "../x", None):
        with pytest.raises(ImmutableSessionId) as caught:
            session.session_id = given  # type: ignore[assignment]
        assert isinstance(caught.value, dataclasses.FrozenInstanceError)
    assert session.session_id == sid("s")


def test_a_history_never_becomes_empty() -> None:
    session = SessionContext(sid("s"))
    session.history.clear()

    assert [fault.partition(":")[0] for fault in session.faults()] == ["history"]


def test_entries_and_artifacts_cannot_be_changed() -> None:
    for made in (SessionHistory(START, "a"), SessionArtifact("a", "created", START)):
        with pytest.raises(AttributeError):
            made.phase = "x"  # type: ignore[misc]
