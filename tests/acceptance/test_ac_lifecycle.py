"""AC-001 … AC-006, AC-024: a session's identity and life."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC

import pytest

from agentforge_sessions.harness import (
    InvalidStateTransition,
    SessionContext,
    SessionManager,
    SessionState,
    SessionStore,
)
from tests.support.clock import START, FakeClock

Step = Callable[[SessionManager], object]
EVERY_STEP: dict[str, Step] = {
    "pause": lambda manager: manager.pause(),
    "resume": lambda manager: manager.resume(),
    "complete": lambda manager: manager.complete(),
    "abort": lambda manager: manager.abort(),
    "advance_phase": lambda manager: manager.advance_phase("green"),
    "retry_phase": lambda manager: manager.retry_phase(),
    "record_tokens": lambda manager: manager.record_tokens(1),
    "extend_budget": lambda manager: manager.extend_budget(1),
    "add_artifact": lambda manager: manager.add_artifact("a.py", "created"),
    "add_history": lambda manager: manager.add_history("noted"),
    "checkpoint_session": lambda manager: manager.checkpoint_session(),
}


def on_disk(manager: SessionManager) -> SessionContext:
    assert manager.current_session is not None
    found = SessionStore(manager.store.base_path).load(manager.current_session.session_id)
    assert found is not None
    return found


def test_ac_001_create_gives_a_unique_id_an_active_state_and_a_budget_of_100_000(
    manager: SessionManager,
) -> None:
    session = manager.create()

    assert re.fullmatch(r"session_\d{8}_\d{6}_\d{6}", session.session_id)
    assert session.state is SessionState.ACTIVE
    assert session.token_budget.total_budget == 100_000
    assert session.token_budget.tokens_used == 0
    assert on_disk(manager) == session


def test_ac_001_create_keeps_the_time_of_its_creation(
    manager: SessionManager, clock: FakeClock
) -> None:
    session = manager.create()

    assert session.created_at == session.updated_at == clock.now
    assert session.created_at.tzinfo is UTC
    assert session.session_id.startswith(f"session_{START:%Y%m%d_%H%M%S}_")


def test_ac_002_create_takes_a_workflow_type_a_first_phase_and_a_budget(
    manager: SessionManager,
) -> None:
    session = manager.create("tdflow", "red", 5_000, goal="Schedule intervals.")

    assert session.workflow_type == "tdflow"
    assert session.current_phase == "red"
    assert session.token_budget.total_budget == 5_000
    assert session.goal == "Schedule intervals."
    assert on_disk(manager) == session


def test_ac_003_ids_are_unique_even_within_one_microsecond(
    store: SessionStore, clock: FakeClock
) -> None:
    manager = SessionManager(store, clock=clock)
    ids = set()
    for _ in range(50):
        ids.add(manager.create().session_id)
        manager.release()

    assert len(ids) == 50
    assert store.list_sessions() == sorted(ids)


def test_ac_004_pause_makes_an_active_session_paused_and_says_so_in_the_history(
    manager: SessionManager, clock: FakeClock
) -> None:
    manager.create(initial_phase="red")
    clock.advance(60)

    session = manager.pause("waiting for a review")

    assert session.state is SessionState.PAUSED
    last = session.history[-1]
    assert (last.action, last.phase, last.details) == (
        "session_paused",
        "red",
        "waiting for a review",
    )
    assert last.timestamp == session.updated_at == clock.now
    assert on_disk(manager) == session


def test_ac_005_resume_makes_a_paused_session_active_and_says_so_in_the_history(
    manager: SessionManager, clock: FakeClock
) -> None:
    manager.create()
    manager.pause()
    clock.advance(60)

    session = manager.resume()

    assert session.state is SessionState.ACTIVE
    assert session.history[-1].action == "session_resumed"
    assert session.history[-1].timestamp == clock.now
    assert on_disk(manager) == session


@pytest.mark.parametrize("operation", EVERY_STEP)
@pytest.mark.parametrize("end", ["complete", "abort"])
def test_ac_006_nothing_leaves_a_terminal_state(
    manager: SessionManager, end: str, operation: str
) -> None:
    session = manager.create("tdflow", "red")
    EVERY_STEP[end](manager)
    before = on_disk(manager)
    file = manager.store.session_path(session.session_id)
    content = file.read_bytes()

    with pytest.raises(InvalidStateTransition) as caught:
        EVERY_STEP[operation](manager)

    assert caught.value.current_state is before.state
    assert caught.value.operation == operation
    assert caught.value.session_id == session.session_id
    assert session == before
    assert file.read_bytes() == content


@pytest.mark.parametrize("operation", ["resume"])
def test_ac_006_an_active_session_refuses_to_be_resumed(
    manager: SessionManager, operation: str
) -> None:
    session = manager.create()

    with pytest.raises(InvalidStateTransition, match="it is active"):
        EVERY_STEP[operation](manager)

    assert session.state is SessionState.ACTIVE
    assert on_disk(manager) == session


@pytest.mark.parametrize("operation", ["pause", "complete", "advance_phase", "retry_phase"])
def test_ac_006_a_paused_session_refuses_work(manager: SessionManager, operation: str) -> None:
    session = manager.create("tdflow", "red")
    manager.pause()

    with pytest.raises(InvalidStateTransition, match="it is paused"):
        EVERY_STEP[operation](manager)

    assert session.state is SessionState.PAUSED
    assert on_disk(manager) == session


@pytest.mark.parametrize("end", ["complete", "abort"])
def test_ac_006_the_end_is_dated(manager: SessionManager, clock: FakeClock, end: str) -> None:
    session = manager.create()
    clock.advance(3600)

    EVERY_STEP[end](manager)

    assert session.completed_at == clock.now
    assert on_disk(manager).completed_at == clock.now


def test_ac_024_the_history_holds_every_state_transition_in_order(
    manager: SessionManager, clock: FakeClock
) -> None:
    session = manager.create()
    for step in ("pause", "resume", "pause", "resume", "complete"):
        clock.advance(1)
        EVERY_STEP[step](manager)

    assert [entry.action for entry in on_disk(manager).history] == [
        "session_created",
        "session_paused",
        "session_resumed",
        "session_paused",
        "session_resumed",
        "session_completed",
    ]
    times = [entry.timestamp for entry in session.history]
    assert times == sorted(times)
    assert len(set(times)) == 6


def test_ac_024_an_abort_is_in_the_history_with_its_reason(manager: SessionManager) -> None:
    manager.create()
    manager.abort("the goal was withdrawn")

    last = on_disk(manager).history[-1]
    assert (last.action, last.details) == ("session_aborted", "the goal was withdrawn")
