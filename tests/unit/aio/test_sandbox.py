"""Code in the sandbox, run from an event loop."""

from __future__ import annotations

import inspect
from pathlib import Path

import anyio
import pytest

from agentforge_sessions.entrypoints.aio import AsyncSandbox
from agentforge_sessions.sandbox import Sandbox, SandboxClosed, create_sandbox

pytestmark = pytest.mark.anyio

SYNCHRONOUS_ONLY = {"execute_async", "restore"}
BEGINS = "open('begun', 'w').close()\nimport time; time.sleep(3600)"


def public(owner: type) -> dict[str, object]:
    return {name: one for name, one in vars(owner).items() if not name.startswith("_")}


def test_every_method_of_the_sandbox_is_there_with_its_parameters_and_its_words() -> None:
    ours, theirs = public(AsyncSandbox), public(Sandbox)
    assert set(theirs) - SYNCHRONOUS_ONLY == set(ours) - {"synchronous"}
    for name in set(theirs) - SYNCHRONOUS_ONLY:
        if isinstance(theirs[name], property):
            assert isinstance(ours[name], property), name
            continue
        assert inspect.iscoroutinefunction(ours[name]), name
        assert inspect.signature(ours[name]) == inspect.signature(theirs[name]), name  # type: ignore[arg-type]
        assert ours[name].__doc__ == theirs[name].__doc__, name


async def test_code_runs_and_the_sandbox_is_closed_with_its_block(tmp_path: Path) -> None:
    async with AsyncSandbox(create_sandbox(workspace=tmp_path / "work")) as sandbox:
        result = await sandbox.execute("print('done')")
    assert result.stdout == "done\n"
    assert sandbox.closed
    with pytest.raises(SandboxClosed):
        await sandbox.execute("print('done')")


async def test_cancelled_code_ends_and_what_it_wrote_stays(tmp_path: Path) -> None:
    workspace = tmp_path / "work"
    async with AsyncSandbox(create_sandbox(workspace=workspace)) as sandbox:
        async with anyio.create_task_group() as group:
            group.start_soon(sandbox.execute, BEGINS)
            while not (workspace / "begun").exists():
                await anyio.sleep(0.005)
            group.cancel_scope.cancel()
        assert (await sandbox.execute("import os; print(os.listdir())")).stdout == "['begun']\n"


async def test_block_that_is_cancelled_closes_the_sandbox(tmp_path: Path) -> None:
    with anyio.CancelScope() as scope:
        async with AsyncSandbox(create_sandbox(workspace=tmp_path / "work")) as sandbox:
            scope.cancel()
            await anyio.sleep(3600)
    assert sandbox.closed
