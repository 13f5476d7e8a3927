"""What a run reads from the history of a session that went back, or began at a checkpoint."""

from __future__ import annotations

from datetime import UTC, datetime

from agentforge_sessions.harness import SessionContext
from agentforge_sessions.harness.domain.history_events import (
    BackAtCheckpoint,
    InputsPlaced,
    PhaseFailed,
    PhaseSucceeded,
    SessionForked,
    SessionRewound,
)
from agentforge_sessions.workflows.run.progress import has_inputs, progress_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def at_green_that_failed() -> SessionContext:
    """Red succeeded (entry 2), green failed twice (entries 4 and 6)."""
    session = SessionContext.create("tdflow", "red", now=NOW)
    session.add_event(InputsPlaced(paths=("a",)), now=NOW)
    session.add_event(PhaseSucceeded(attempt=1), now=NOW)
    session.enter_phase("green", now=NOW)
    session.add_event(PhaseFailed(attempt=1), now=NOW)
    session.next_attempt(now=NOW)
    session.add_event(PhaseFailed(attempt=2), now=NOW)
    return session


def go_back(session: SessionContext, event: BackAtCheckpoint, phase: str) -> SessionContext:
    session.go_back(event, phase=phase, now=NOW)
    return session


def test_after_going_back_to_a_success_the_next_phase_follows_anew() -> None:
    session = at_green_that_failed()
    before = progress_of(session)
    assert [key.serial for key in before.keys] == [1, 2, 3]
    go_back(session, SessionRewound(position=2, attempt=1, succeeded=True), "red")
    progress = progress_of(session)
    assert progress.succeeded
    assert progress.key == before.keys[0]  # so its verdict is found
    assert progress.round_number == 1
    session.enter_phase("green", now=NOW)
    progress = progress_of(session)
    assert (progress.key.serial, progress.key.attempt) == (4, 1)  # no stored answer is met again
    assert progress.failures == 0  # the attempts behind the checkpoint don't count
    assert not progress.succeeded


def test_after_going_back_to_a_failure_its_verdict_is_found_again() -> None:
    session = at_green_that_failed()
    go_back(session, SessionRewound(position=4, attempt=1, succeeded=False), "green")
    progress = progress_of(session)
    assert progress.failed
    assert (progress.key.serial, progress.key.attempt, progress.failures) == (2, 1, 1)


def test_going_back_to_where_there_was_no_result_begins_another_attempt() -> None:
    session = at_green_that_failed()
    go_back(session, SessionRewound(position=3, attempt=1), "green")
    progress = progress_of(session)
    assert not progress.failed
    assert not progress.succeeded
    assert (progress.key.serial, progress.key.attempt) == (4, 1)


def test_inputs_are_placed_again_where_the_session_went_back_behind_them() -> None:
    session = at_green_that_failed()
    assert has_inputs(session)
    go_back(session, SessionRewound(position=0, attempt=1), "red")
    assert not has_inputs(session)


def test_a_fork_meets_none_of_its_parents_later_steps() -> None:
    session = at_green_that_failed()
    parent_entries = len(session.history)
    del session.history[3:]
    fork = go_back(
        session,
        SessionForked(position=2, attempt=1, succeeded=True, parent_entries=parent_entries),
        "red",
    )
    assert progress_of(fork).key.serial == 1
    fork.enter_phase("green", now=NOW)
    first = progress_of(fork).key.serial
    fork.next_attempt(now=NOW)
    assert (first, progress_of(fork).key.serial) == (parent_entries + 1, parent_entries + 2)
