"""Calls that change one session run one after the other, and what ran is never lost."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest
from attrs import define, field
from mcp import Client
from mcp_types import CallToolResult

from agentforge_sessions.entrypoints.mcp_server.calls import SessionTurns
from agentforge_sessions.entrypoints.mcp_server.server import HarnessServer
from agentforge_sessions.entrypoints.mcp_server.tool import tools_of
from agentforge_sessions.entrypoints.mcp_server.tools.code_tool import CodeTool
from agentforge_sessions.entrypoints.mcp_server.tools.session_access import SessionAccess
from agentforge_sessions.entrypoints.mcp_server.tools.session_tools import SessionTools
from agentforge_sessions.harness import PhaseResult, SessionManager, SessionStore
from tests.support.executors import FakeExecutor
from tests.support.filesystem import FaultyFileSystem, every_call_from
from tests.support.mcp_calls import DirectCall, answer
from tests.support.mcp_processes import text_of

pytestmark = pytest.mark.anyio

AT_ONCE = 16


@define
class FileMaker:
    """Claims that each code made a file of its name, and counts how many run at the same time."""

    running: int = 0
    most: int = 0
    codes: list[str] = field(factory=list)
    go: threading.Event = field(factory=threading.Event)
    began: threading.Event = field(factory=threading.Event)
    _lock: threading.Lock = field(factory=threading.Lock)

    def execute(
        self,
        code: str,
        *,
        session_id: str,
        deadline_s: float | None = None,
        fuel: int | None = None,
    ) -> PhaseResult:
        with self._lock:
            self.running += 1
            self.most = max(self.most, self.running)
            self.codes.append(code)
        self.began.set()
        self.go.wait(60)
        with self._lock:
            self.running -= 1
        return PhaseResult(success=True, exit_code=0, stdout=code, files_created=[code])


def new(store: SessionStore) -> str:
    return SessionManager(store).create(goal="g", initial_phase="red").session_id


def tools_over(
    store: SessionStore, executor: FakeExecutor | FileMaker
) -> tuple[SessionTools, CodeTool]:
    sessions = SessionAccess(store=store)
    return SessionTools(sessions), CodeTool(sessions, lambda _: executor)


async def test_all_calls_that_come_at_once_are_recorded(store: SessionStore) -> None:
    session_id, executor = new(store), FileMaker()
    results: list[CallToolResult] = []
    with anyio.fail_after(60):
        tools = [one for owner in tools_over(store, executor) for one in tools_of(owner)]
        async with Client(HarnessServer(tools)) as client:

            async def call(tool: str, **arguments: object) -> None:
                results.append(
                    await client.call_tool(tool, {"session_id": session_id, **arguments})
                )

            async with anyio.create_task_group() as group:
                for number in range(AT_ONCE):
                    group.start_soon(
                        lambda n=number: call("run_code", code=f"f{n:02}", tokens=n + 1)
                    )
                    group.start_soon(lambda n=number: call("session_advance", phase=f"phase {n}"))
                await anyio.to_thread.run_sync(executor.began.wait)
                executor.go.set()
    assert [text_of(one) for one in results if one.is_error] == []
    assert executor.most == 1
    session = store.load(session_id)
    assert session is not None
    assert session.token_budget.tokens_used == sum(range(1, AT_ONCE + 1))
    assert sorted(one.path for one in session.artifacts) == [f"f{n:02}" for n in range(AT_ONCE)]
    actions = [one.action for one in session.history]
    assert actions.count("phase_succeeded") == AT_ONCE
    assert actions.count("phase_advanced") == AT_ONCE
    ran = [one.structured_content for one in results if one.structured_content]
    assert all(one["recorded"] for one in ran if "recorded" in one)


async def test_a_call_that_is_cancelled_while_it_waits_has_done_nothing(
    store: SessionStore,
) -> None:
    session_id, executor = new(store), FileMaker()
    sessions, code = tools_over(store, executor)
    told: list[str | None] = []
    waits = anyio.Event()

    async def report(_: float, __: float | None, message: str | None) -> None:
        told.append(message)
        waits.set()

    async def run(name: str) -> None:
        await code.run_code(DirectCall(), session_id, name)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(run, "first")
            await anyio.to_thread.run_sync(executor.began.wait)
            async with anyio.create_task_group() as waiting:
                waiting.start_soon(
                    sessions.session_advance, DirectCall(report), session_id, "green"
                )
                waiting.start_soon(run, "third")
                await waits.wait()
                await anyio.wait_all_tasks_blocked()
                assert sessions.sessions.workers.turns.waiting(session_id) == 3
                waiting.cancel_scope.cancel()
            assert sessions.sessions.workers.turns.waiting(session_id) == 1
            group.start_soon(run, "fourth")
            executor.go.set()
    assert told == [f"waiting for earlier calls on session {session_id} (0 s)"]
    assert executor.codes == ["first", "fourth"]
    assert sessions.sessions.workers.turns.waiting(session_id) == 0
    session = store.load(session_id)
    assert session is not None
    assert [one.action for one in session.history] == [
        "session_created",
        "phase_succeeded",
        "phase_succeeded",
    ]


async def test_sessions_do_not_wait_for_each_other(store: SessionStore) -> None:
    one, other, executor = new(store), new(store), FileMaker()
    sessions, code = tools_over(store, executor)
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(code.run_code, DirectCall(), one, "while True: pass")
            await anyio.to_thread.run_sync(executor.began.wait)
            await sessions.session_advance(DirectCall(), other, "p")
            executor.go.set()


async def test_calls_get_their_turn_in_the_order_in_which_they_came() -> None:
    turns, order = SessionTurns(), []

    async def take(number: int) -> None:
        async with turns.turn("s"):
            order.append(number)
            await anyio.lowlevel.checkpoint()
            order.append(number)

    async with anyio.create_task_group() as group:
        for number in range(5):
            group.start_soon(take, number)
            await anyio.lowlevel.checkpoint()
    assert order == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert turns.waiting("s") == 0


async def test_a_call_that_fails_passes_its_turn_on() -> None:
    turns = SessionTurns()
    with pytest.raises(ZeroDivisionError):
        async with turns.turn("s"):
            raise ZeroDivisionError
    async with turns.turn("s"):
        assert turns.waiting("s") == 1


# ---------------------------------------------------------------- what ran and can't be recorded


def advanced(store: SessionStore, session_id: str) -> None:
    other = SessionManager(store)
    other.load(session_id)
    other.advance_phase("green")


def deleted(store: SessionStore, session_id: str) -> None:
    store.delete(session_id)


def made_unreadable(store: SessionStore, session_id: str) -> None:
    store.session_path(session_id).write_text("broken")


@pytest.mark.parametrize(
    ("interfere", "error", "phase"),
    [
        (advanced, "SessionConflict", "green"),
        (deleted, "SessionConflict", "red"),
        (made_unreadable, "", "red"),
    ],
)
async def test_code_that_ran_and_cant_be_recorded_is_returned_all_the_same(
    store: SessionStore,
    interfere: Callable[[SessionStore, str], None],
    error: str,
    phase: str,
) -> None:
    session_id = new(store)
    executor = FakeExecutor(
        [PhaseResult(success=True, exit_code=0, stdout="42\n", files_created=["a.txt"])],
        during=lambda: interfere(store, session_id),
    )
    _, code = tools_over(store, executor)
    result = await answer(code, "run_code", session_id=session_id, code="x", tokens=5)
    assert not result.is_error, text_of(result)
    values = result.structured_content
    assert (values["success"], values["stdout"], values["files_created"]) == (
        True,
        "42\n",
        ["a.txt"],
    )
    assert values["recorded"] is False
    assert values["session"]["current_phase"] == phase
    assert values["session"]["token_budget"]["tokens_used"] == 0
    assert values["record_problem"].startswith(error)
    text = text_of(result)
    assert text.startswith("The code ran, but its result is NOT recorded in the session: ")
    assert "Nothing was written; load it again and repeat the change" not in text
    assert "session_record" in text
    assert "42" in text


async def test_code_that_ran_on_a_full_disk_is_returned_all_the_same(
    base: Path, fs: FaultyFileSystem
) -> None:
    store = SessionStore(base, fs=fs, lock_timeout_s=0.5)
    session_id = new(store)
    executor = FakeExecutor(during=lambda: fs.begin(every_call_from(0, errno.ENOSPC, ["fsync"])))
    _, code = tools_over(store, executor)
    result = await answer(code, "run_code", session_id=session_id, code="x")
    assert not result.is_error, text_of(result)
    assert result.structured_content["recorded"] is False
    assert "Free the disk" in text_of(result)


async def test_code_that_did_not_run_is_an_error(store: SessionStore) -> None:
    session_id, executor = new(store), FakeExecutor()
    deleted(store, session_id)
    _, code = tools_over(store, executor)
    result = await answer(code, "run_code", session_id=session_id, code="x")
    assert result.is_error
    assert executor.executions == []
