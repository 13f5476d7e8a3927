"""Workflows run from an event loop, ended there, and gone on with."""

from __future__ import annotations

import inspect
from pathlib import Path

import anyio
import pytest

from agentforge_sessions.entrypoints.aio import AsyncSessionManager, AsyncWorkflowRunner
from agentforge_sessions.harness import SessionState, SessionStore
from agentforge_sessions.wiring.bootstrap import build_agent_runner, build_manager
from agentforge_sessions.workflows import RunObserver, WorkflowRunner, load_workflow
from agentforge_sessions.workflows.job import Job

pytestmark = pytest.mark.anyio

WORKFLOW = """
schema_version: 1
name: two-steps
workflow_type: steps
phases:
  - name: first
    script: first.py
  - name: second
    script: second.py
"""
FIRST = """
import os, time
open('begun', 'a').write('x')
if os.path.getsize('begun') == 1:
    time.sleep(3600)
"""


class IdKeeper(RunObserver):
    """Keeps the session's id as soon as there is one."""

    session_id = ""

    def run_started(self, session_id: str, job: Job, *, resumed: bool) -> None:
        self.session_id = session_id


def has_begun(workspace: Path) -> bool:
    """Return whether the guest has written: the file is there before that."""
    begun = workspace / "begun"
    return begun.exists() and begun.stat().st_size > 0


def test_every_method_of_the_runner_is_there_with_its_parameters_and_its_words() -> None:
    for name, method in vars(WorkflowRunner).items():
        if name.startswith("_") or isinstance(method, property):
            continue
        face = vars(AsyncWorkflowRunner)[name]
        assert inspect.iscoroutinefunction(face), name
        assert inspect.signature(face) == inspect.signature(method), name
        assert face.__doc__ == method.__doc__, name


async def test_cancelled_run_is_gone_on_with_by_the_next_one(base: Path, tmp_path: Path) -> None:
    folder = tmp_path / "workflow"
    folder.mkdir()
    (folder / "workflow.yaml").write_text(WORKFLOW)
    (folder / "first.py").write_text(FIRST)
    (folder / "second.py").write_text("print('done')")
    ids = IdKeeper()
    manager = build_manager(base)
    runner = AsyncWorkflowRunner(build_agent_runner(manager=manager, observer=ids))
    async with anyio.create_task_group() as group:
        group.start_soon(runner.start, load_workflow(folder / "workflow.yaml"))
        while not (ids.session_id and has_begun(SessionStore(base).workspace_path(ids.session_id))):
            await anyio.sleep(0.005)
        group.cancel_scope.cancel()
    left = SessionStore(base).load(ids.session_id)
    assert left is not None
    assert (left.state, left.current_phase) == (SessionState.ACTIVE, "first")
    assert manager.current_session == left
    outcome = await runner.resume(ids.session_id)
    assert outcome.state is SessionState.COMPLETED
    assert outcome.phases_done == ("first", "second")
    assert (await runner.outcome(ids.session_id)).state is SessionState.COMPLETED


async def test_runner_takes_turns_with_the_face_of_its_manager(base: Path) -> None:
    manager = build_manager(base)
    runner = AsyncWorkflowRunner(build_agent_runner(manager=manager))
    face = AsyncSessionManager(manager)
    assert runner._turns.manager is face._turns.manager
