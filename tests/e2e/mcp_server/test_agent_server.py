"""The server of four tools, as agent programs start it: through the official client, and raw."""

from __future__ import annotations

import json
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from attrs import evolve
from mcp import Client, MCPError
from mcp.client.stdio import stdio_client
from mcp_types import CallToolResult

from agentforge_sessions.harness import SessionManager
from agentforge_sessions.questions import SessionStatus, UserAnswer
from tests.support.mcp_processes import (
    Place,
    Wire,
    ended_anyhow,
    environment,
    eventually,
    text_of,
    values_of,
    wait_until,
)

pytestmark = pytest.mark.anyio

ABANDONED = SessionStatus.ABANDONED
ASKED: dict[str, Any] = {"question": "Which database?", "options": ["PostgreSQL", "SQLite"]}


@pytest.fixture
def place(place: Place) -> Place:
    """A project; the server offers what it does without options."""
    (place.directory / ".agentforge").mkdir()
    return evolve(place, offer=())


@pytest.fixture
def session_id(place: Place) -> str:
    session = SessionManager(place.store).create(goal="Count the words")
    return session.session_id


@pytest.fixture
def wire(place: Place) -> Iterator[Wire]:
    process = place.started()
    with ended_anyhow(process):
        yield Wire(process)


@asynccontextmanager
async def connected(place: Place, mode: str = "auto", **options: Any) -> AsyncIterator[Client]:
    with open(place.directory / "server.log", "a") as log:
        own = place.stdio().model_copy(update={"env": environment()})
        transport = stdio_client(own, errlog=log)
        async with Client(transport, mode=mode, **options) as client:
            yield client


def answer(place: Place, label: str) -> None:
    given = UserAnswer(question_index=0, selected_option=label)
    place.questions.save_session_answers(place.waiting_now(), [given])


def refused(result: CallToolResult) -> str:
    assert result.is_error
    return text_of(result)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_the_official_client_uses_all_four_tools(
    place: Place, session_id: str, mode: str
) -> None:
    async with connected(place, mode) as client:
        assert client.server_info.name == "agentforge"
        listed = [one.name for one in (await client.list_tools()).tools]
        assert listed == ["session", "checkpoint", "ask", "find"]
        done = await client.call_tool("checkpoint", {"note": "Words are split at blanks."})
        assert session_id in text_of(done)
        told = text_of(await client.call_tool("session", {}))
        assert "Count the words" in told
        assert "Words are split at blanks." in told
        found = text_of(await client.call_tool("find", {"words": "blanks"}))
        assert found.startswith(session_id)
        assert found.endswith("Count the words")
        asked = values_of(await client.call_tool("ask", {**ASKED, "wait": False}))
        assert asked["status"] == "pending"
        await anyio.to_thread.run_sync(answer, place, "SQLite")
        got = await client.call_tool("ask", {"id": asked["session_id"]})
        assert values_of(got)["status"] == "completed"
        assert "SQLite" in text_of(got)
    session = place.store.load(session_id)
    assert session is not None
    actions = [one.action for one in session.history]
    assert actions[-2:] == ["noted", "checkpoint"]


async def test_a_call_that_waits_for_a_person_delays_no_other_message(place: Place) -> None:
    reports = []

    async def progress(done: float, total: float | None, message: str | None) -> None:
        del done, total
        reports.append(message)

    async with connected(place, "legacy") as client, anyio.create_task_group() as group:
        results = []

        async def ask() -> None:
            results.append(await client.call_tool("ask", ASKED, progress_callback=progress))

        group.start_soon(ask)
        await eventually(place.waiting, "a question")
        await client.list_tools()
        assert refused(await client.call_tool("session", {})).startswith("no session is open")
        assert not results
        await anyio.to_thread.run_sync(answer, place, "PostgreSQL")
    assert "PostgreSQL" in text_of(results[0])
    assert reports[0] == "waiting for the person's answer"


async def test_a_form_of_the_client_answers_and_is_withdrawn_once_another_did(place: Place) -> None:
    asked: list[str] = []

    async def fill(context: object, params: Any) -> Any:
        from mcp_types import ElicitResult

        del context
        asked.append(params.message)
        if len(asked) > 1:
            await anyio.sleep_forever()
        return ElicitResult(action="accept", content={"q1": "SQLite"})

    async with connected(place, "legacy", elicitation_callback=fill) as client:
        result = await client.call_tool("ask", ASKED)
        assert "SQLite" in text_of(result)
        assert asked == ["1. Which database?"]
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "ask", ASKED)
            await eventually(lambda: len(asked) > 1 and place.waiting(), "a second question")
            await anyio.to_thread.run_sync(answer, place, "PostgreSQL")
        await client.list_tools()


@pytest.mark.parametrize(
    ("tool", "given", "fault"),
    [
        ("session", {"session": 5}, "session: expected a text"),
        ("session", {"session": "no-such"}, "no-such"),
        ("checkpoint", {}, "note: is missing"),
        ("ask", {"question": "?", "options": "no list"}, "options: expected a list"),
        ("ask", {"question": "?", "options": [1]}, "options: expected a list of texts"),
        ("ask", {}, "question: is missing"),
        ("ask", {"id": "x", "question": "?"}, "leave one of both"),
        ("ask", {"question": "?", "options": ["one"]}, "2"),
        ("find", {"words": "x", "limit": 5}, "limit: is no argument"),
        ("find", {"words": " "}, "word"),
    ],
)
async def test_a_refused_call_says_every_fault_and_does_nothing(
    place: Place, session_id: str, tool: str, given: dict[str, Any], fault: str
) -> None:
    async with connected(place) as client:
        assert fault in refused(await client.call_tool(tool, given))
    assert place.waiting() is None
    session = place.store.load(session_id)
    assert session is not None
    assert [one.action for one in session.history] == ["session_created"]


async def test_a_tool_that_does_not_exist_is_named(place: Place) -> None:
    async with connected(place) as client:
        with pytest.raises(MCPError, match="session, checkpoint, ask, find"):
            await client.call_tool("run_code", {"code": "1"})


def test_a_cancelled_call_withdraws_its_question_and_is_not_answered(
    place: Place, wire: Wire
) -> None:
    wire.call(1, "ask", ASKED)
    session_id = place.waiting_now()
    wire.say({"method": "notifications/cancelled", "params": {"requestId": 1}})
    place.wait_for(session_id, ABANDONED)
    wire.say({"id": 2, "method": "ping"})
    assert wire.hear() == {"jsonrpc": "2.0", "id": 2, "result": {}}


def test_a_client_that_leaves_withdraws_its_question_but_none_that_need_not_wait(
    place: Place, wire: Wire
) -> None:
    wire.call(1, "ask", {**ASKED, "wait": False})
    stays = wire.hear()["result"]["structuredContent"]["session_id"]
    wire.call(2, "ask", ASKED)
    waits = wait_until(
        lambda: next((one for one in _waiting(place) if one != stays), None), "a question"
    )
    assert wire.process.stdin is not None
    wire.process.stdin.close()
    code, errors = wire.ended()
    assert (code, "Traceback" in errors) == (0, False), errors
    assert place.status(waits) is ABANDONED
    assert place.status(stays) is SessionStatus.PENDING


def _waiting(place: Place) -> list[str]:
    return [one.session_id for one in place.questions.pending()]


def test_a_client_that_stops_reading_ends_the_server(place: Place, wire: Wire) -> None:
    wire.call(1, "ask", ASKED)
    session_id = place.waiting_now()
    assert wire.process.stdout is not None
    wire.process.stdout.close()
    assert wire.ended()[0] == 0
    assert place.status(session_id) is ABANDONED


@pytest.mark.parametrize(
    ("number", "expected"), [(signal.SIGTERM, 0), (signal.SIGHUP, 0), (signal.SIGINT, 130)]
)
def test_a_signal_withdraws_questions_answers_the_call_and_ends_the_server(
    place: Place, wire: Wire, number: signal.Signals, expected: int
) -> None:
    wire.call(1, "ask", ASKED)
    session_id = place.waiting_now()
    wire.process.send_signal(number)
    result = wire.hear()["result"]
    assert result["isError"] is True
    assert "the server is stopping" in result["content"][0]["text"]
    code, errors = wire.ended()
    assert (code, "Traceback" in errors) == (expected, False), errors
    assert place.status(session_id) is ABANDONED


@pytest.mark.parametrize(
    ("line", "code", "request_id"),
    [
        (b"{", -32700, None),
        (b"[]", -32600, None),
        (b'{"id": 4, "method": "ping"}', -32600, 4),
        (b'{"jsonrpc": "2.0", "id": true, "method": "ping"}', -32600, None),
        (b'{"jsonrpc": "2.0", "id": 4, "method": "ping", "params": []}', -32600, 4),
        (b'{"jsonrpc": "2.0", "id": 4, "method": "resources/list"}', -32601, 4),
        (b'{"jsonrpc": "2.0", "id": 4, "method": "tools/call"}', -32602, 4),
        (b'"' + b"x" * 5_000_000 + b'"', -32600, None),
    ],
)
def test_a_line_that_is_no_message_is_refused_and_the_next_is_answered(
    wire: Wire, line: bytes, code: int, request_id: int | None
) -> None:
    wire.say(line)
    heard = wire.hear()
    assert (heard["id"], heard["error"]["code"]) == (request_id, code)
    wire.say({"id": 5, "method": "ping"})
    assert wire.hear()["id"] == 5


@pytest.mark.parametrize(
    ("wanted", "spoken"),
    [("2024-11-05", "2024-11-05"), ("2025-11-25", "2025-11-25"), ("1999-01-01", "2025-11-25")],
)
def test_the_version_that_the_client_wants_is_spoken_if_it_is_known(
    place: Place, wanted: str, spoken: str
) -> None:
    process = place.started()
    assert process.stdin is not None
    assert process.stdout is not None
    with ended_anyhow(process):
        params = {"protocolVersion": wanted, "capabilities": {}, "clientInfo": {"name": "raw"}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
        process.stdin.write(json.dumps(message).encode() + b"\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["result"]["protocolVersion"] == spoken


def test_the_server_that_has_listed_its_tools_needs_at_most_40_megabytes(cold: Place) -> None:
    process = evolve(cold, offer=()).started()
    with ended_anyhow(process):
        wire = Wire(process)
        wire.say({"id": 1, "method": "tools/list"})
        tools = wire.hear()["result"]["tools"]
        status = Path(f"/proc/{process.pid}/status").read_text()
    assert len(json.dumps(tools, separators=(",", ":"))) <= 2_500
    (resident,) = [line.split()[1] for line in status.splitlines() if line.startswith("VmRSS:")]
    assert int(resident) <= 40_000
