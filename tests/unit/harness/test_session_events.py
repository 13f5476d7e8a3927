"""Whoever reads the log can tell what happened to a session."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from agentforge_sessions.base.files import WriteError
from agentforge_sessions.harness import (
    InvalidStateTransition,
    SessionConflict,
    SessionManager,
    SessionStore,
)
from tests.support.clock import FakeClock
from tests.support.executors import FAILED, SUCCEEDED, FakeExecutor
from tests.support.filesystem import FaultyFileSystem, nth_of

Events = list[Any]


def named(events: Events) -> list[str]:
    return [event["event"] for event in events]


def test_creation_and_loading_are_told(manager: SessionManager, base: Path) -> None:
    with capture_logs() as events:
        session = manager.create("tdflow", "red", 500)
        SessionManager(SessionStore(base)).load(session.session_id)

    created, loaded = events
    assert created == {
        "event": "session.created",
        "log_level": "info",
        "session_id": session.session_id,
        "workflow_type": "tdflow",
        "phase": "red",
        "token_budget": 500,
    }
    assert (loaded["event"], loaded["revision"], loaded["state"]) == ("session.loaded", 1, "active")


@pytest.mark.parametrize(
    ("steps", "came_from", "to"),
    [
        (["pause"], "active", "paused"),
        (["pause", "resume"], "paused", "active"),
        (["complete"], "active", "completed"),
        (["abort"], "active", "aborted"),
        (["pause", "abort"], "paused", "aborted"),
    ],
)
def test_every_transition_is_told(
    manager: SessionManager, steps: list[str], came_from: str, to: str
) -> None:
    session = manager.create()
    for step in steps[:-1]:
        getattr(manager, step)()

    with capture_logs() as events:
        getattr(manager, steps[-1])()

    [event] = events
    assert event["event"] == "session.state_changed"
    assert event["session_id"] == session.session_id
    assert event["operation"] == steps[-1]
    assert (event["from_state"], event["to_state"]) == (came_from, to)


def test_a_refused_transition_is_not_told_as_done(manager: SessionManager) -> None:
    manager.create()
    with capture_logs() as events, pytest.raises(InvalidStateTransition):
        manager.resume()
    assert events == []


def test_a_checkpoint_is_told_with_its_entry(manager: SessionManager) -> None:
    manager.create("tdflow", "red")
    with capture_logs() as events:
        manager.advance_phase("green")
        manager.checkpoint_session()

    assert named(events) == ["phase.advanced", "session.checkpoint", "session.checkpoint"]
    assert (events[0]["from_phase"], events[0]["to_phase"]) == ("red", "green")
    assert [event["entry"] for event in events[1:]] == [2, 3]


def test_a_run_is_told_from_its_start_to_its_end(base: Path, clock: FakeClock) -> None:
    executor = FakeExecutor.answering([SUCCEEDED, FAILED])
    manager = SessionManager(SessionStore(base), executor=executor, clock=clock)
    manager.create("tdflow", "red", 10)
    with capture_logs() as events:
        manager.run_phase("pass", tokens=9)
        manager.run_phase("fail")

    assert named(events) == [
        *("phase.started", "phase.succeeded", "session.checkpoint", "session.budget.warning"),
        *("phase.started", "phase.failed", "session.checkpoint"),
    ]
    assert events[5]["problem"] == "exit code 1"


def test_a_conflict_is_told(manager: SessionManager, base: Path) -> None:
    session = manager.create()
    other = SessionManager(SessionStore(base))
    other.load(session.session_id)
    other.add_history("first")

    with capture_logs() as events, pytest.raises(SessionConflict):
        manager.add_history("second")

    [event] = events
    assert event["event"] == "session.conflict"
    assert (event["expected_revision"], event["actual_revision"]) == (1, 2)
    assert event["log_level"] == "warning"


def test_a_failed_save_is_told_with_its_errno(
    manager: SessionManager, fs: FaultyFileSystem
) -> None:
    session = manager.create()
    fs.begin(nth_of("fsync", 0, errno.EDQUOT))

    with capture_logs() as events, pytest.raises(WriteError):
        manager.add_history("noted")

    [event] = events
    assert event["event"] == "session.save_failed"
    assert event["errno"] == errno.EDQUOT
    assert event["session_id"] == session.session_id
    assert event["log_level"] == "error"


def test_a_cleanup_tells_each_deletion_and_their_number(
    manager: SessionManager, clock: FakeClock
) -> None:
    session = manager.create()
    manager.complete()
    clock.advance(90_000)
    with capture_logs() as events:
        manager.cleanup_old_sessions(1, dry_run=True)
        manager.cleanup_old_sessions(1)

    assert named(events) == ["sessions.cleaned_up", "session.deleted", "sessions.cleaned_up"]
    assert events[1]["session_id"] == session.session_id
    assert [events[0]["dry_run"], events[2]["dry_run"]] == [True, False]
    assert events[2]["count"] == 1


def test_an_unreadable_session_is_told(manager: SessionManager) -> None:
    session = manager.create()
    manager.store.session_path(session.session_id).write_text("x")
    with capture_logs() as events:
        assert manager.list() == []

    assert named(events) == ["session.unreadable"]
    assert events[0]["session_id"] == session.session_id
