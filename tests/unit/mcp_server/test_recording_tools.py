"""What clients record in a session, and that no call touches another session than its own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp import Client

from agentforge_sessions.entrypoints.mcp_server.server import HarnessServer
from agentforge_sessions.entrypoints.mcp_server.tool import tools_of
from agentforge_sessions.entrypoints.mcp_server.tools.code_tool import CodeTool
from agentforge_sessions.entrypoints.mcp_server.tools.recording_tools import RecordingTools
from agentforge_sessions.entrypoints.mcp_server.tools.session_access import SessionAccess
from agentforge_sessions.entrypoints.mcp_server.tools.session_tools import SessionTools
from agentforge_sessions.harness import SessionManager, SessionObserver, SessionStore
from tests.support.executors import FakeExecutor
from tests.support.mcp_processes import text_of, values_of
from tests.support.observers import Failing, Remembering

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def client_of(store: SessionStore, *observers: SessionObserver) -> AsyncIterator[Client]:
    sessions = SessionAccess(store=store, observers=observers)
    owners = (
        SessionTools(sessions),
        RecordingTools(sessions),
        CodeTool(sessions, lambda _: FakeExecutor()),
    )
    tools = [one for owner in owners for one in tools_of(owner)]
    async with Client(HarnessServer(tools)) as client:
        yield client


def new(store: SessionStore, **options: Any) -> str:
    return SessionManager(store).create(initial_phase="red", **{"goal": "g", **options}).session_id


async def test_work_outside_the_sandbox_is_recorded_in_one_save(store: SessionStore) -> None:
    session_id = new(store)
    async with client_of(store) as client:
        result = await client.call_tool(
            "session_record",
            {
                "session_id": session_id,
                "action": "files_edited",
                "details": "split the parser\nfrom the reader",
                "artifacts": [
                    {"path": "src/parser.py", "artifact_type": "created"},
                    {"path": "src/reader.py"},
                ],
                "tokens": 1_200,
            },
        )
    state = values_of(result)
    assert (state["revision"], state["token_budget"]["tokens_used"]) == (2, 1_200)
    session = store.load(session_id)
    assert session is not None
    assert (session.history[-1].action, session.history[-1].details) == (
        "files_edited",
        "split the parser\nfrom the reader",
    )
    assert [(one.path, one.artifact_type, one.phase) for one in session.artifacts] == [
        ("src/parser.py", "created", "red"),
        ("src/reader.py", "modified", "red"),
    ]


@pytest.mark.parametrize("path", ["../x", "/etc/passwd", "a/../../b"])
async def test_a_record_with_a_fault_records_nothing(store: SessionStore, path: str) -> None:
    session_id = new(store)
    before = store.session_path(session_id).read_bytes()
    async with client_of(store) as client:
        result = await client.call_tool(
            "session_record",
            {
                "session_id": session_id,
                "action": "files_edited",
                "artifacts": [{"path": "good"}, {"path": path}],
                "tokens": 5,
            },
        )
    assert result.is_error
    assert store.session_path(session_id).read_bytes() == before


async def test_a_failure_that_was_recorded_is_in_the_briefing(store: SessionStore) -> None:
    session_id = new(store)
    async with client_of(store) as client:
        await client.call_tool(
            "session_record",
            {"session_id": session_id, "action": "phase_failed", "details": "3 tests fail"},
        )
        briefing = await client.call_tool("session_brief", {"session_id": session_id})
    assert "3 tests fail" in text_of(briefing)


async def test_nothing_is_recorded_in_a_session_that_has_ended(store: SessionStore) -> None:
    manager = SessionManager(store)
    session_id = manager.create(goal="g").session_id
    manager.complete()
    async with client_of(store) as client:
        for tool, more in (("session_record", {"action": "noted"}), ("session_checkpoint", {})):
            result = await client.call_tool(tool, {"session_id": session_id, **more})
            assert result.is_error
            assert "completed" in text_of(result)


async def test_more_than_the_budget_is_recorded_and_told(store: SessionStore) -> None:
    session_id = new(store, token_budget=100)
    async with client_of(store) as client:
        result = await client.call_tool(
            "session_record_tokens", {"session_id": session_id, "tokens": 130}
        )
    told = values_of(result)
    assert told["can_continue"] is False
    assert told["session"]["token_budget"]["is_over_budget"] is True
    assert "-30 of 100 tokens are left (over budget)" in text_of(result)


async def test_a_listing_shows_what_each_session_is_for(store: SessionStore) -> None:
    named = new(store, goal="An interval\nscheduler")
    long, none = new(store, goal="x" * 1_000), new(store, goal=None)
    async with client_of(store) as client:
        result = await client.call_tool("session_list", {})
    goals = {one["session_id"]: one["goal"] for one in values_of(result)["sessions"]}
    assert goals[named] == "An interval\nscheduler"
    assert goals[none] is None
    assert "700 characters left out" in goals[long]
    assert f"{named}: An interval scheduler (active; phase red, attempt 1;" in text_of(result)


async def test_a_listing_goes_on_where_a_former_one_ended(store: SessionStore) -> None:
    ids = {new(store, goal=f"The Parser, part {number}") for number in range(3)}
    new(store, goal="another")
    async with client_of(store) as client:
        said = {"goal": "parser", "limit": 2}
        result = await client.call_tool("session_list", said)
        first = values_of(result)
        assert first["total"] == 3
        assert f"(1 more; give a larger limit, a state or after={first['next']})" in text_of(result)
        rest = values_of(await client.call_tool("session_list", {**said, "after": first["next"]}))
        assert (rest["total"], rest["next"]) == (1, None)
        refused = await client.call_tool("session_list", {"after": "nowhere"})
    assert {one["session_id"] for one in (*first["sessions"], *rest["sessions"])} == ids
    assert refused.is_error
    assert "not where a page ended" in text_of(refused)


async def test_a_listing_is_narrowed_and_ordered(store: SessionStore) -> None:
    ids = {name: new(store, goal=name, token_budget=100) for name in ("one", "two", "three")}
    async with client_of(store) as client:
        for name, tokens in (("one", 95), ("two", 5), ("three", 85)):
            spent = {"session_id": ids[name], "tokens": tokens}
            await client.call_tool("session_record_tokens", spent)
        await client.call_tool("session_pause", {"session_id": ids["two"]})

        async def listed(**asked: object) -> list[str]:
            found = values_of(await client.call_tool("session_list", asked))["sessions"]
            return [one["goal"] for one in found]

        assert await listed(order="least_left") == ["one", "three", "two"]
        assert await listed(budget_left="..20%", order="most_left") == ["three", "one"]
        assert await listed(state=["paused", "completed"]) == ["two"]
        assert await listed(state="paused", current_phase="none") == []
        assert await listed(tags=["x"]) == []
        refused = await client.call_tool("session_list", {"budget_left": "20"})
    assert refused.is_error
    assert "is no range" in text_of(refused)


async def test_what_clients_do_is_observed_and_no_observer_fails_a_call(
    store: SessionStore,
) -> None:
    seen = Remembering()
    async with client_of(store, Failing(), seen) as client:
        created = await client.call_tool("session_create", {"goal": "g", "initial_phase": "red"})
        session_id = values_of(created)["session_id"]
        await client.call_tool("run_code", {"session_id": session_id, "code": "pass"})
        await client.call_tool("session_pause", {"session_id": session_id})

    told = [one for one in seen.names if one != "session.loaded"]
    assert told == [
        *("session.created", "phase.started", "phase.succeeded", "session.checkpoint"),
        "session.paused",
    ]
    assert {one.session_id for one in seen.events} == {session_id}
