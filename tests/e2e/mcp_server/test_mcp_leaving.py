"""Clients that die, hang up or leave, and servers that are told to stop."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import anyio
import httpx2
import psutil
import pytest
from mcp import Client
from mcp_types import CallToolResult

from agentforge_sessions.questions import SessionStatus
from tests.support.mcp_processes import (
    ACCEPT,
    ASKED,
    DEADLINE_S,
    INITIALIZE,
    HttpProcess,
    Place,
    Way,
    Wire,
    ended_anyhow,
    environment,
    error_of,
    eventually,
    start_http,
    wait_until,
)
from tests.support.trusting import trusted

CLIENT = """
import json, sys
import anyio
from mcp import Client, StdioServerParameters

target, mode, asked = json.loads(sys.argv[1])
if not isinstance(target, str):
    target = StdioServerParameters(**target)

async def main():
    async with Client(target, mode=mode) as client:
        await client.call_tool("ask_user_questions", asked)

anyio.run(main)
"""
OWN_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""
ABANDONED = SessionStatus.ABANDONED


@contextlib.contextmanager
def a_client(way: Way) -> Iterator[subprocess.Popen[bytes]]:
    """A client in a process of its own, that asks and waits."""
    target: Any = way.url or way.place.stdio().model_dump(mode="json")
    process = subprocess.Popen(
        [sys.executable, "-c", CLIENT, json.dumps([target, way.mode, ASKED])],
        env=environment(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait(DEADLINE_S)


def test_a_client_killed_with_sigkill_leaves_its_questions_abandoned(way: Way, cold: Place) -> None:
    if way.transport == "stdio":
        way = Way(cold, way.transport, way.mode)  # the processes are looked at
    with a_client(way) as client:
        session_id = way.place.waiting_now()
        servers = psutil.Process(client.pid).children(recursive=True)
        client.kill()
        way.place.wait_for(session_id, ABANDONED)
        if way.transport == "stdio":
            assert servers
            gone, alive = psutil.wait_procs(servers, DEADLINE_S)
            assert (len(gone), alive) == (len(servers), [])


@pytest.fixture
def wire(place: Place) -> Iterator[Wire]:
    process = place.started()
    with ended_anyhow(process):
        yield Wire(process)


@pytest.fixture
def cold_wire(cold: Place) -> Iterator[Wire]:
    process = cold.started()
    with ended_anyhow(process):
        yield Wire(process)


def test_a_client_that_closes_its_end_ends_the_server(place: Place, wire: Wire) -> None:
    wire.call(1, "ask_user_questions", ASKED)
    session_id = place.waiting_now()
    assert wire.process.stdin is not None
    wire.process.stdin.close()
    code, errors = wire.ended()
    assert code == 0, errors
    assert place.status(session_id) is ABANDONED
    assert "Traceback" not in errors


def test_a_client_that_stops_reading_ends_the_server_though_nothing_is_written(
    place: Place, wire: Wire
) -> None:
    wire.call(1, "ask_user_questions", ASKED)
    session_id = place.waiting_now()
    assert wire.process.stdout is not None
    wire.process.stdout.close()
    place.wait_for(session_id, ABANDONED)
    code, errors = wire.ended()
    assert code == 0, errors
    assert "Traceback" not in errors


def test_an_answer_that_nobody_takes_ends_the_server_without_a_traceback(
    place: Place, wire: Wire
) -> None:
    assert wire.process.stdout is not None
    wire.process.stdout.close()
    with contextlib.suppress(BrokenPipeError):
        wire.call(1, "session_list", {})
    code, errors = wire.ended()
    assert code == 0, errors
    assert "Traceback" not in errors


@pytest.mark.parametrize(
    ("number", "expected"), [(signal.SIGTERM, 0), (signal.SIGHUP, 0), (signal.SIGINT, 130)]
)
def test_a_signal_withdraws_questions_answers_the_call_and_ends_the_server(
    place: Place, wire: Wire, number: signal.Signals, expected: int
) -> None:
    wire.call(1, "ask_user_questions", ASKED)
    session_id = place.waiting_now()
    wire.process.send_signal(number)
    answer = wire.hear()
    assert answer["result"]["isError"] is True
    assert "the server is stopping" in answer["result"]["content"][0]["text"]
    code, errors = wire.ended()
    assert code == expected, errors
    assert "Traceback" not in errors
    assert place.status(session_id) is ABANDONED


def test_code_that_runs_is_stopped_and_recorded_when_the_client_dies(
    place: Place, wire: Wire
) -> None:
    wire.call(1, "session_create", {"goal": "g", "initial_phase": "red"})
    session_id = wire.hear()["result"]["structuredContent"]["session_id"]
    code = "open('begun', 'w')\nwhile True: pass"
    wire.call(2, "run_code", {"session_id": session_id, "code": code, "deadline_s": 600})
    begun = place.store.workspace_path(session_id) / "begun"
    wait_until(begun.exists, "the code")
    assert wire.process.stdin is not None
    wire.process.stdin.close()
    code_of_exit, errors = wire.ended()
    assert code_of_exit == 0, errors
    session = place.store.load(session_id)
    assert session is not None
    assert session.history[-1].action == "phase_failed"
    assert "cancelled before its end" in str(session.history[-1].details)


def test_the_configuration_holds_and_the_person_is_told(place: Place) -> None:
    trusted(
        place.directory,
        '[questions]\nmax_sessions = 1\n[notify]\non_question = "cat > told"\n',
    )
    process = place.started()
    with ended_anyhow(process):
        wire = Wire(process)
        wire.call(1, "ask_user_questions", {**ASKED, "non_blocking": True})
        asked = wire.hear()["result"]["structuredContent"]["session_id"]
        told = place.directory / "told"
        wait_until(lambda: told.exists() and asked in told.read_text(), "the command")
        wire.call(2, "ask_user_questions", {**ASKED, "non_blocking": True})
        refused = wire.hear()["result"]
        assert refused["isError"] is True
        assert "max_sessions is 1; nothing was created" in refused["content"][0]["text"]
    trusted(place.directory, "[questions]\nmax_session = 1\n")
    ended = place.run("mcp", "--all")
    assert ended.returncode == 7
    assert "did you mean 'max_sessions'?" in ended.stderr


def test_the_next_server_withdraws_what_a_killed_one_waited_for(
    place: Place, cold_wire: Wire
) -> None:
    wire = cold_wire  # that it is dead when it has been waited for
    wire.call(1, "ask_user_questions", ASKED)
    killed = place.waiting_now()
    wire.call(2, "ask_user_questions", {**ASKED, "non_blocking": True})
    stays = wire.hear()["result"]["structuredContent"]["session_id"]
    wire.process.kill()
    wire.process.wait(DEADLINE_S)
    assert place.status(killed) is SessionStatus.PENDING
    place.run("mcp", "--all")  # its standard input is empty, so it ends at once
    assert place.status(killed) is ABANDONED
    assert place.status(stays) is SessionStatus.PENDING


def test_what_is_no_message_is_refused_and_the_server_goes_on(place: Place, wire: Wire) -> None:
    wire.say(b"")
    wire.say(b"no json")
    assert wire.hear()["error"]["code"] == -32700
    wire.say(b'{"jsonrpc": "2.0", "id": 5}')
    refusal = wire.hear()
    assert (refusal["id"], refusal["error"]["code"]) == (5, -32600)
    wire.say(b"x" * (5 * 1024 * 1024))
    assert "5,242,880 bytes, more than the 4,194,304" in wire.hear()["error"]["message"]
    wire.say(b'{"jsonrpc": "2.0", "id": 6, "method": "ping", "params": {"x": "\\ud800"}}')
    assert "error" in wire.hear()
    wire.say({"id": 7, "method": "no/such"})
    assert wire.hear()["error"]["code"] == -32601
    wire.say({"id": 8, "method": "tools/call", "params": {"name": 3}})
    assert wire.hear()["error"]["code"] == -32602
    wire.say({"id": 9, "method": "ping"})
    assert wire.hear() == {"jsonrpc": "2.0", "id": 9, "result": {}}


def test_standard_output_holds_protocol_alone_also_when_all_is_told(place: Place) -> None:
    process = place.started("--verbose", "mcp")
    with ended_anyhow(process):
        wire = Wire(process)
        wire.call(1, "session_create", {"goal": "g", "initial_phase": "red"})
        session_id = wire.hear()["result"]["structuredContent"]["session_id"]
        wire.call(2, "run_code", {"session_id": session_id, "code": "print('from the guest')"})
        assert wire.hear()["result"]["structuredContent"]["stdout"] == "from the guest\n"
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        assert process.stdout.read() == b""
        code, errors = wire.ended()
        assert code == 0
        assert "session.created" in errors
        assert "mcp.call_done" in errors


@pytest.mark.anyio
async def test_ending_the_http_session_abandons_its_questions(
    place: Place, http: HttpProcess
) -> None:
    async with httpx2.AsyncClient(base_url=http.url[: -len("/mcp")], timeout=60) as web:
        begun = await web.post("/mcp", headers=ACCEPT, json=INITIALIZE)
        headers = {**ACCEPT, "mcp-session-id": begun.headers["mcp-session-id"]}
        async with anyio.create_task_group() as group:

            async def ask() -> None:
                await web.post(
                    "/mcp",
                    headers=headers,
                    json={
                        "jsonrpc": "2.0",
                        "id": 1,
                        "method": "tools/call",
                        "params": {"name": "ask_user_questions", "arguments": ASKED},
                    },
                )

            group.start_soon(ask)
            session_id = await eventually(place.waiting, "the question")
            assert (await web.delete("/mcp", headers=headers)).status_code == 200
            await eventually(lambda: place.waiting() is None, "the end")
    assert place.status(session_id) is ABANDONED


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_a_signal_withdraws_the_questions_of_http_clients(place: Place, mode: str) -> None:
    server = start_http(place)
    results: list[CallToolResult] = []
    try:
        async with Client(server.url, mode=mode) as client:

            async def ask() -> None:
                results.append(await client.call_tool("ask_user_questions", ASKED))

            async with anyio.create_task_group() as group:
                group.start_soon(ask)
                session_id = await eventually(place.waiting, "the question")
                server.process.send_signal(signal.SIGTERM)
        # A second signal would end it wherever it stands.
        assert server.process.wait(DEADLINE_S) == 0
    finally:
        server.stop(signal.SIGKILL)
    assert error_of(results[0])[0] == "ServerStopping"
    assert place.status(session_id) is ABANDONED
    log = (place.directory / "server.log").read_text()
    assert "Traceback" not in log
    assert "timeout graceful shutdown exceeded" not in log


def test_a_server_whose_standard_error_is_closed_still_serves(cold: Place) -> None:
    process = cold.started(through=("sh", "-c", 'exec "$@" 2>&-', "sh"))
    with ended_anyhow(process):
        wire = Wire(process)
        wire.say({"id": 1, "method": "ping"})
        assert wire.hear()["id"] == 1
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(DEADLINE_S) == 0


def test_a_person_at_a_terminal_is_told_what_this_is_for_and_ctrl_c_ends_it(cold: Place) -> None:
    keyboard, terminal = pty.openpty()
    at_terminal = (sys.executable, "-c", OWN_TERMINAL)
    process = cold.started(through=at_terminal, stdin=terminal, start_new_session=True)
    os.close(terminal)
    with ended_anyhow(process):
        assert process.stderr is not None
        assert process.stdout is not None
        assert b"use --http" in process.stderr.readline()
        os.write(keyboard, b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n')
        assert json.loads(process.stdout.readline())["id"] == 1
        os.write(keyboard, b"\x03")
        assert process.wait(DEADLINE_S) == 130
        assert b"stopped with Ctrl-C" in process.stderr.read()
    os.close(keyboard)
