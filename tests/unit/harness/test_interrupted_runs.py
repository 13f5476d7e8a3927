"""Whether a worker is at a session."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentforge_sessions.base.files import FileLock, OsFileSystem
from agentforge_sessions.harness import SessionManager, SessionState, SessionStore
from agentforge_sessions.harness.prune_target import HarnessTarget
from agentforge_sessions.harness.session_layout import GUARDS, PROGRAM_FILE, RUN_LOCKS, WORKSPACE
from agentforge_sessions.workflows.job import SNAPSHOT_NAME, WORKFLOW_NAME


def started(base: Path, attachment: str | None) -> tuple[SessionStore, str]:
    """Return the store, and the id of an active session, as a runner begins one."""
    store = SessionStore(base)
    session = SessionManager(store).create(
        "tdflow", "red", attachments={attachment: b"name: x\n"} if attachment else None
    )
    return store, session.session_id


@pytest.mark.parametrize("attachment", RUN_LOCKS)
def test_an_active_session_is_interrupted_once_its_runner_holds_no_lock(
    base: Path, attachment: str
) -> None:
    store, session_id = started(base, attachment)
    lock = FileLock(OsFileSystem(), store.session_path(session_id).with_name(attachment))
    with lock:
        assert not store.is_interrupted(session_id, SessionState.ACTIVE)
    assert store.is_interrupted(session_id, SessionState.ACTIVE)


def test_looking_does_not_keep_the_lock(base: Path) -> None:
    store, session_id = started(base, "workflow.yaml")
    assert store.is_interrupted(session_id, SessionState.ACTIVE)
    file = store.session_path(session_id).with_name("workflow.yaml")
    with FileLock(OsFileSystem(), file, timeout_s=0.0):
        pass


@pytest.mark.parametrize(
    "state", [SessionState.PAUSED, SessionState.COMPLETED, SessionState.ABORTED]
)
def test_a_session_that_waits_or_ended_is_not_interrupted(base: Path, state: SessionState) -> None:
    store, session_id = started(base, "workflow.yaml")
    assert not store.is_interrupted(session_id, state)


def test_a_session_that_no_runner_leads_is_not_interrupted(base: Path) -> None:
    store, session_id = started(base, None)
    assert not store.is_interrupted(session_id, SessionState.ACTIVE)


def test_the_locks_are_those_that_the_runners_take() -> None:
    names = ("workflow.yaml", "agent-workflow.yaml", "program.json")
    assert RUN_LOCKS == (SNAPSHOT_NAME, WORKFLOW_NAME, PROGRAM_FILE) == names


def test_a_deletion_and_a_prune_heed_every_lock_of_a_run() -> None:
    assert (*RUN_LOCKS, WORKSPACE) == GUARDS == HarnessTarget().guards
