"""Connections that break at random instants: no question is ever left waiting for nobody."""

from __future__ import annotations

import json
import random
import socket
import struct
import time

import httpx2
import pytest

from agentforge_sessions.questions import SessionStatus
from tests.support.mcp_processes import ACCEPT, ASKED, INITIALIZE, HttpProcess, Place, wait_until
from tests.support.soak import examples

MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "0"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def asking(server: HttpProcess, headers: dict[str, str], number: int, meta: object) -> bytes:
    """A whole HTTP request that asks and waits."""
    params = {"name": "ask_user_questions", "arguments": ASKED}
    if meta is not None:
        params["_meta"] = meta
    body = json.dumps(
        {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
    ).encode()
    lines = {
        "Host": f"127.0.0.1:{server.port}",
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "Content-Length": str(len(body)),
        **headers,
    }
    head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"POST /mcp HTTP/1.1\r\n{head}\r\n".encode() + body


def handshake(server: HttpProcess) -> dict[str, str]:
    """Begin a session of 2025; the headers of its requests."""
    answer = httpx2.post(server.url, headers=ACCEPT, json=INITIALIZE, timeout=60)
    return {"Mcp-Session-Id": answer.headers["mcp-session-id"]}


@pytest.mark.soak
@pytest.mark.parametrize("era", ["2025", "2026"])
def test_a_connection_that_breaks_at_any_instant_leaves_no_question_waiting(
    place: Place, http: HttpProcess, era: str
) -> None:
    chance = random.Random(era)
    if era == "2025":
        headers, meta = handshake(http), None
    else:
        headers = {
            "MCP-Protocol-Version": "2026-07-28",
            "Mcp-Method": "tools/call",
            "Mcp-Name": "ask_user_questions",
        }
        meta = MODERN

    def created() -> list[SessionStatus]:
        return [one.status for one in place.questions.list_sessions()]

    number, most = 0, examples(30)
    while (number := number + 1) <= most or (len(created()) <= 5 and number < 20 * most):
        with socket.create_connection(("127.0.0.1", http.port)) as wire:
            request = asking(http, headers, number, meta)
            cut = len(request) if chance.random() < 0.8 else chance.randrange(len(request))
            wire.sendall(request[:cut])
            time.sleep(chance.random() * 0.08)
            if chance.random() < 0.5:  # a reset instead of an orderly end
                wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert handshake(http), "the server goes on"
    # What it has read already may become a question only now.
    wait_until(lambda: set(created()) == {SessionStatus.ABANDONED}, "the end of every question")
    assert len(created()) > 5
    log = (place.directory / "server.log").read_text()
    assert "mcp.call_crashed" not in log
    assert "Traceback" not in log
