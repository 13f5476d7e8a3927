"""A manager as a context manager, its workspace, and files for a phase."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from agentforge_sessions.harness import (
    InvalidSession,
    NoActiveSession,
    PhaseResult,
    SessionManager,
    SessionNotFound,
    SessionState,
    SessionStore,
)
from tests.support.executors import FakeExecutor


class ClosingExecutor(FakeExecutor):
    """Counts how often it was closed."""

    closed = 0

    def close(self) -> None:
        self.closed += 1


class ClosingStore(SessionStore):
    """Counts how often it was closed."""

    closed = 0

    def close(self) -> None:
        self.closed += 1
        super().close()


def test_a_manager_closes_what_it_works_with_and_leaves_the_session_as_it_is(base: Path) -> None:
    store, executor = ClosingStore(base), ClosingExecutor()
    with SessionManager(store, executor=executor) as manager:
        session_id = manager.create("tdflow", "red").session_id
    assert manager.current_session is None
    assert (store.closed, executor.closed) == (1, 1)
    found = SessionStore(base).load(session_id)
    assert found is not None
    assert found.state is SessionState.ACTIVE
    manager.close()
    assert manager.open(session_id).session_id == session_id, "what is used again, opens again"


def test_a_manager_without_an_executor_is_closed_where_its_block_raises(base: Path) -> None:
    store = ClosingStore(base)
    manager = SessionManager(store)

    def lead() -> None:
        with manager:
            manager.create()
            raise KeyError

    with pytest.raises(KeyError):
        lead()
    assert store.closed == 1
    assert manager.current_session is None


def test_the_workspace_is_there_when_it_is_told(base: Path) -> None:
    manager = SessionManager(base)
    with pytest.raises(NoActiveSession):
        manager.workspace_path()
    session_id = manager.create().session_id
    workspace = manager.workspace_path()
    assert workspace == manager.store.workspace_path(session_id)
    assert workspace.stat().st_mode & 0o777 == 0o700
    (workspace / "input.txt").write_text("kept")
    assert (manager.workspace_path() / "input.txt").read_text() == "kept"
    SessionManager(base).delete(session_id)
    with pytest.raises(SessionNotFound):
        manager.workspace_path()
    assert not workspace.parent.exists()


def test_files_for_a_phase_reach_the_executor(base: Path) -> None:
    executor = FakeExecutor([PhaseResult(success=True, exit_code=0)])
    manager = SessionManager(base, executor=executor)
    manager.create("tdflow", "red")
    files = {"data/in.csv": b"a,b\n", "note.txt": "ä"}
    assert manager.run_phase("pass", files=files).success
    assert manager.run_phase("pass").success
    assert [one.files for one in executor.executions] == [files, None]


@pytest.mark.parametrize(
    "files",
    [
        *({"../x": b""}, {"/x": b""}, {"": b""}, {"a/../../x": b""}, {"a\0": b""}, {1: b""}),
        *({"a": 1}, {"a": "\ud800"}, {"a": None}, [("a", b"")], "a"),
    ],
)
def test_files_that_no_workspace_can_have_are_refused_and_nothing_runs(
    base: Path, files: Any
) -> None:
    executor = FakeExecutor()
    manager = SessionManager(base, executor=executor)
    session = manager.create("tdflow", "red")
    with pytest.raises(InvalidSession, match="files: "):
        manager.run_phase("pass", files=files)
    assert executor.executions == []
    assert SessionStore(base).load(session.session_id) == session
