"""Sessions and code, through the official client, over each transport and handshake."""

from __future__ import annotations

import time

import anyio
import pytest
from mcp import MCPError
from mcp_types import CallToolResult, TextResourceContents

from tests.support.mcp_processes import (
    BY_HTTP,
    BY_STDIO,
    EITHER,
    Way,
    error_of,
    eventually,
    text_of,
    values_of,
)

pytestmark = pytest.mark.anyio


async def begun(way: Way, client: object) -> str:
    result = await client.call_tool(  # type: ignore[attr-defined]
        "session_create", {"goal": "try it", "initial_phase": "red"}
    )
    return str(values_of(result)["session_id"])


async def test_a_session_is_led_from_beginning_to_end(way: Way) -> None:
    async with way.connected() as client:
        session_id = await begun(way, client)
        on_disk = way.place.store

        async def call(tool: str, **arguments: object) -> CallToolResult:
            return await client.call_tool(tool, {"session_id": session_id, **arguments})

        state = values_of(await call("session_advance", phase="green"))
        assert (state["current_phase"], state["attempt_number"]) == ("green", 1)
        state = values_of(await call("session_retry", reason="again, with care"))
        assert state["attempt_number"] == 2
        told = values_of(await call("session_record_tokens", tokens=85_000))
        assert told["can_continue"] is True
        assert told["session"]["token_budget"]["is_warning"] is True
        assert values_of(await call("session_pause", reason="lunch"))["state"] == "paused"
        briefing = await call("session_brief", max_tokens=200)
        assert "try it" in values_of(briefing)["briefing"]
        assert text_of(briefing) == values_of(briefing)["briefing"]
        assert values_of(await call("session_resume"))["state"] == "active"
        result = await call("run_code", code="print(open('a.txt', 'w').write('x'))", tokens=7)
        ran = values_of(result)
        assert (ran["success"], ran["stdout"], ran["files_created"]) == (True, "1\n", ["a.txt"])
        assert ran["session"]["token_budget"]["tokens_used"] == 85_007
        shown = values_of(await call("session_show", history_limit=2))
        assert shown["history_total"] == 7
        assert [one["action"] for one in shown["history"]] == ["session_resumed", "phase_succeeded"]
        assert shown["artifacts"][0]["path"] == "a.txt"
        listed = values_of(await client.call_tool("session_list", {"state": "active"}))
        assert [(one["session_id"], one["goal"]) for one in listed["sessions"]] == [
            (session_id, "try it")
        ]
        assert values_of(await call("session_complete"))["state"] == "completed"
        kind, text = error_of(await call("session_resume"))
        assert kind == "InvalidStateTransition"
        assert "it is completed; it has ended for good. Nothing was changed" in text
    session = on_disk.load(session_id)
    assert session is not None
    assert session.state.value == "completed"
    assert session.token_budget.tokens_used == 85_007


REFUSED = (
    ("session_show", {"session_id": "session_20260101_000000_00000000"}, "SessionNotFound"),
    ("run_code", {"session_id": "nosuch", "code": "1"}, "SessionNotFound"),
    ("session_show", {"session_id": "../../etc/passwd"}, "InvalidSessionId"),
    ("session_complete", {"session_id": "a\x00b"}, "InvalidSessionId"),
    (
        "get_answered_questions",
        {"session_id": "00000000-0000-4000-8000-000000000000"},
        "SessionNotFound",
    ),
    ("get_answered_questions", {"session_id": "../x"}, "InvalidSessionId"),
    ("ask_user_questions", {"questions": []}, "InvalidQuestions"),
    ("run_code", None, "InvalidArguments"),
    ("run_code", {"session_id": "x", "code": "#" * 1_000_001}, "InvalidArguments"),
)


@pytest.mark.parametrize("way", BY_STDIO, indirect=True, ids="-".join)
async def test_unknown_ids_and_malformed_arguments_are_errors_and_the_server_goes_on(
    way: Way,
) -> None:
    async with way.connected() as client:
        for tool, arguments, kind in REFUSED:
            assert error_of(await client.call_tool(tool, arguments))[0] == kind
        kind, text = error_of(
            await client.call_tool(
                "session_create",
                {"goal": "", "token_budget": -1, "phase": "red", "workflow_type": 3},
            )
        )
        assert kind == "InvalidArguments"
        for name in ("goal", "token_budget", "workflow_type", "phase: is no argument"):
            assert name in text
        assert "Nothing was done" in text
        with pytest.raises(MCPError, match="Unknown tool: 'session_destroy'") as caught:
            await client.call_tool("session_destroy", {})
        assert caught.value.code == -32602
        assert values_of(await client.call_tool("session_list", {}))["total"] == 0
        await begun(way, client)


@pytest.mark.parametrize("way", BY_HTTP, indirect=True, ids="-".join)
async def test_code_that_runs_out_of_time_or_fails_is_a_result_and_is_recorded(way: Way) -> None:
    async with way.connected() as client:
        session_id = await begun(way, client)
        result = await client.call_tool(
            "run_code",
            {
                "session_id": session_id,
                "code": "print('begun', flush=True)\nwhile True: pass",
                "deadline_s": 0.5,
            },
        )
        ran = values_of(result)
        assert (ran["success"], ran["trapped"], ran["exit_code"]) == (False, "deadline", None)
        shown = values_of(await client.call_tool("session_show", {"session_id": session_id}))
        assert shown["history"][-1]["action"] == "phase_failed"
        result = await client.call_tool(
            "run_code",
            {
                "session_id": session_id,
                "code": "print('x' * 5000)\nraise ValueError('no')",
                "output_chars": 100,
            },
        )
        ran = values_of(result)
    assert (ran["success"], ran["exit_code"], ran["truncated"]) == (False, 1, True)
    assert "ValueError: no" in ran["stderr"]
    assert "characters left out" in ran["stdout"]
    assert len(ran["stdout"]) < 200


async def test_others_are_answered_while_code_runs_and_cancelling_stops_it(way: Way) -> None:
    async with way.connected() as client:
        session_id = await begun(way, client)
        began = time.monotonic()
        async with anyio.create_task_group() as group:
            group.start_soon(
                client.call_tool,
                "run_code",
                {
                    "session_id": session_id,
                    "code": "open('begun', 'w')\nwhile True: pass",
                    "deadline_s": 600,
                },
            )
            workspace = way.place.store.workspace_path(session_id)
            await eventually((workspace / "begun").exists, "the code")
            other = await begun(way, client)
            assert other != session_id
            group.cancel_scope.cancel()

        def recorded() -> str | None:
            session = way.place.store.load(session_id)
            assert session is not None
            last = session.history[-1]
            return last.details if last.action == "phase_failed" else None

        assert "cancelled before its end" in await eventually(recorded, "the record")
        assert time.monotonic() - began < 300


async def test_sixteen_runs_at_once_beside_changes_of_phase_are_all_recorded(way: Way) -> None:
    async with way.connected() as client:
        session_id = await begun(way, client)
        results: list[CallToolResult] = []

        async def call(tool: str, **arguments: object) -> None:
            results.append(await client.call_tool(tool, {"session_id": session_id, **arguments}))

        async with anyio.create_task_group() as group:
            for n in range(16):
                code = f"open('f{n:02}', 'w').write('x'); print({n})"
                group.start_soon(lambda c=code, t=n + 1: call("run_code", code=c, tokens=t))
                if n % 4 == 0:
                    group.start_soon(lambda n=n: call("session_advance", phase=f"phase {n}"))
                    group.start_soon(lambda: call("session_record_tokens", tokens=1000))
    assert [text_of(one) for one in results if one.is_error] == []
    ran = [values_of(one) for one in results if "stdout" in values_of(one)]
    assert sorted(int(one["stdout"]) for one in ran) == list(range(16))
    assert all(one["recorded"] for one in ran)
    session = way.place.store.load(session_id)
    assert session is not None
    assert session.token_budget.tokens_used == sum(range(1, 17)) + 4 * 1000
    assert sorted(one.path for one in session.artifacts) == [f"f{n:02}" for n in range(16)]
    actions = [one.action for one in session.history]
    assert (actions.count("phase_succeeded"), actions.count("phase_advanced")) == (16, 4)


@pytest.mark.parametrize("way", [EITHER[0]], indirect=True, ids="-".join)
async def test_code_of_two_servers_at_once_is_recorded_or_returned_unrecorded(way: Way) -> None:
    async with way.connected() as one, way.connected() as two:
        session_id = await begun(way, one)
        results: list[CallToolResult] = []

        async def run(client: object, name: str) -> None:
            code = f"open({name!r}, 'w').write('x'); print({name!r})"
            results.append(
                await client.call_tool(  # type: ignore[attr-defined]
                    "run_code", {"session_id": session_id, "code": code, "tokens": 7}
                )
            )

        async with anyio.create_task_group() as group:
            for n in range(4):
                group.start_soon(run, one, f"one{n}")
                group.start_soon(run, two, f"two{n}")
    names = {values_of(result)["stdout"].strip() for result in results}
    assert names == {f"{server}{n}" for server in ("one", "two") for n in range(4)}
    recorded = [values_of(result) for result in results if values_of(result)["recorded"]]
    assert recorded
    session = way.place.store.load(session_id)
    assert session is not None
    assert session.token_budget.tokens_used == 7 * len(recorded)
    assert [one.action for one in session.history].count("phase_succeeded") == len(recorded)


@pytest.mark.parametrize("way", BY_STDIO, indirect=True, ids="-".join)
async def test_variables_last_from_server_to_server(way: Way) -> None:
    async with way.connected() as client:
        session_id = await begun(way, client)
        first = {"session_id": session_id, "code": "x = [20]", "state": True}
        assert values_of(await client.call_tool("run_code", first))["success"]
    async with way.connected() as client:
        second = {"session_id": session_id, "code": "print(x[0] + 1)", "state": True}
        assert values_of(await client.call_tool("run_code", second))["stdout"] == "21\n"


@pytest.mark.parametrize("way", BY_STDIO, indirect=True, ids="-".join)
async def test_two_clients_lead_sessions_of_the_same_store(way: Way) -> None:
    async with way.connected() as one, way.connected() as two:
        session_id = await begun(way, one)
        async with anyio.create_task_group() as group:
            for client in (one, two):
                for _ in range(5):
                    group.start_soon(
                        client.call_tool,
                        "session_record_tokens",
                        {"session_id": session_id, "tokens": 10},
                    )
        told = values_of(await two.call_tool("session_show", {"session_id": session_id}))
    assert told["session"]["token_budget"]["tokens_used"] == 100


async def test_a_session_is_read_without_a_tool(way: Way) -> None:
    async with way.connected() as client:
        session_id = await begun(way, client)
        (content,) = (
            await client.read_resource(f"agentforge://sessions/{session_id}/briefing")
        ).contents
        assert isinstance(content, TextResourceContents)
        assert "try it" in content.text
        got = await client.get_prompt("take_up_session", {"session_id": session_id})
        assert session_id in str(got.messages[0].content)
