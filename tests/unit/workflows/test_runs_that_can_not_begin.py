"""A run that can't begin leaves no session behind, and says why."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from agentforge_sessions.base.files import WriteError
from agentforge_sessions.harness import SessionManager, SessionStore
from agentforge_sessions.harness.errors import NoPhaseExecutor
from agentforge_sessions.jail import JailUnavailable
from agentforge_sessions.wiring.phases.jail_executor import JailPhaseExecutor
from agentforge_sessions.workflows import Phase, Script, Workflow, WorkflowRunner
from agentforge_sessions.workflows.errors import NoAgent
from tests.support.agents import AgentGround, tdflow_work
from tests.support.executors import FakeExecutor
from tests.support.filesystem import Call, FaultyFileSystem

WORK = Workflow(
    name="work", workflow_type="work", phases=[Phase(name="one", gate=Script(code="pass"))]
)


def test_without_an_executor(base: Path) -> None:
    manager = SessionManager(SessionStore(base))
    with pytest.raises(NoPhaseExecutor):
        WorkflowRunner(manager).start(WORK)
    assert manager.store.list_sessions() == []


def test_where_no_jail_can_be_made(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGENTFORGE_BWRAP", str(base / "nothing"))
    store = SessionStore(base)
    runner = WorkflowRunner(SessionManager(store, executor=JailPhaseExecutor(store)))
    with pytest.raises(JailUnavailable):
        runner.start(WORK)
    assert store.list_sessions() == []


def test_without_an_agent(tmp_path: Path) -> None:
    ground = AgentGround(tmp_path / "sessions")
    with pytest.raises(NoAgent):
        ground.worker().start(tdflow_work())
    assert SessionStore(ground.base).list_sessions() == []


def test_where_its_workspace_can_not_be_made(base: Path, fs: FaultyFileSystem) -> None:
    manager = SessionManager(SessionStore(base, fs=fs), executor=FakeExecutor())
    runner = WorkflowRunner(manager, fs=fs)

    def full(_: int, call: Call) -> int | None:
        is_workspace = call.operation == "mkdir" and call.path.endswith("workspace")
        return errno.ENOSPC if is_workspace else None

    fs.begin(full)
    with pytest.raises(WriteError):
        runner.start(WORK)
    assert (manager.store.list_sessions(), manager.current_session) == ([], None)
    fs.begin()
    assert runner.start(WORK).reason is None
