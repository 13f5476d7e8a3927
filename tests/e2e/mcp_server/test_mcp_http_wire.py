"""What the HTTP server answers to those who are no clients of its own, and how it is started."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import httpx2
import pytest

from agentforge_sessions.entrypoints.mcp_server.transports.http import MAX_CONNECTIONS
from tests.support.mcp_processes import ACCEPT, COMMAND, INITIALIZE, HttpProcess, Place, start_http

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, warm: Sequence[str]) -> Iterator[HttpProcess]:
    process = start_http(
        Place(tmp_path_factory.mktemp("http"), (*warm, *COMMAND[1:])),
        *("--allowed-host", "box.lan", "--allowed-origin", "https://app.example"),
    )
    yield process
    assert process.stop() == 0


def post(server: HttpProcess, headers: dict[str, str], **body: object) -> httpx2.Response:
    with httpx2.Client(timeout=60) as web:
        return web.post(server.url, headers={**ACCEPT, **headers}, **(body or {"json": INITIALIZE}))


def test_a_request_that_names_the_server_is_answered(server: HttpProcess) -> None:
    answer = post(server, {})
    assert answer.status_code == 200
    assert "mcp-session-id" in answer.headers
    assert "server" not in answer.headers


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"host": "evil.example"}, 421),
        ({"host": "evil.example:8137"}, 421),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"host": "box.lan"}, 200),
        ({"origin": "https://app.example"}, 200),
    ],
)
def test_foreign_names_and_foreign_pages_are_refused(
    server: HttpProcess, headers: dict[str, str], status: int
) -> None:
    answer = post(server, headers)
    assert answer.status_code == status
    if status != 200:
        assert "--allowed-" in answer.json()["error"]["message"]


def test_a_foreign_name_is_refused_in_the_protocol_of_2026_too(server: HttpProcess) -> None:
    headers = {"host": "evil.example", "mcp-protocol-version": "2026-07-28"}
    assert post(server, headers, json=PING).status_code == 421


def test_other_paths_hold_nothing(server: HttpProcess) -> None:
    with httpx2.Client(timeout=60) as web:
        answer = web.get(server.url[: -len("/mcp")] + "/")
    assert answer.status_code == 404
    assert "/mcp" in answer.json()["error"]["message"]


def test_a_body_that_is_too_large_is_refused(server: HttpProcess) -> None:
    headers = {"content-type": "application/json"}
    assert post(server, headers, content=b" " * (4 * 1024 * 1024 + 1)).status_code == 413


def test_what_is_no_json_is_refused_and_the_server_goes_on(server: HttpProcess) -> None:
    headers = {"content-type": "application/json"}
    assert post(server, headers, content=b"{").status_code == 400
    assert post(server, {}, json=PING).status_code == 400
    assert post(server, {"mcp-session-id": "nosuch"}, json=PING).status_code == 404
    assert post(server, {}).status_code == 200


def test_more_half_sent_requests_than_there_may_be_connections_shut_nobody_out(
    server: HttpProcess,
) -> None:
    with ExitStack() as opened:
        for _ in range(MAX_CONNECTIONS + 20):
            one = socket.create_connection(("127.0.0.1", server.port), timeout=60)
            opened.enter_context(one).sendall(b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1")
        assert post(server, {}).status_code == 200


def test_only_loopback_is_listened_at(server: HttpProcess) -> None:
    listening = [
        line.split()[1]
        for name in ("tcp", "tcp6")
        for line in Path(f"/proc/{server.process.pid}/net/{name}").read_text().splitlines()[1:]
        if line.split()[3] == "0A" and line.split()[1].endswith(f":{server.port:04X}")
    ]
    assert listening == [f"0100007F:{server.port:04X}"]


def test_with_a_token_only_those_who_bring_it_are_answered(place: Place) -> None:
    process = start_http(place, "--token-file", token_in(place))
    try:
        refused = post(process, {})
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"] == "Bearer"
        wrong = {"authorization": "Bearer 0123456789abcdeX"}
        assert post(process, wrong).status_code == 401
        assert post(process, {"authorization": "Bearer 0123456789abcdef"}).status_code == 200
    finally:
        assert process.stop() == 0
    assert "0123456789abcdef" not in (place.directory / "server.log").read_text()


def test_ctrl_c_stops_the_server(cold: Place) -> None:
    process = start_http(cold)
    assert process.stop(signal.SIGINT) == 130
    assert "Traceback" not in (cold.directory / "server.log").read_text()


def test_an_address_that_others_reach_is_refused_without_an_explicit_yes(place: Place) -> None:
    ended = place.run("mcp", "--http", "--host", "0.0.0.0", "--port", "0")
    assert ended.returncode == 2
    assert "add --allow-remote" in ended.stderr
    assert "nothing was started" in ended.stderr


def test_other_machines_are_not_served_without_a_token(place: Place) -> None:
    options = ("--http", "--host", "0.0.0.0", "--port", "0", "--allow-remote")
    ended = place.run("--json", "mcp", *options)
    assert ended.returncode == 2
    assert '"type": "TokenRequired"' in ended.stdout
    assert "add --token-file" in ended.stdout
    assert "nothing was started" in ended.stdout


def token_in(place: Place) -> str:
    token = place.directory / "token"
    token.write_text("0123456789abcdef\n")
    token.chmod(0o600)
    return str(token)


def test_an_address_that_others_reach_is_warned_of(place: Place) -> None:
    process = start_http(
        place, "--host", "0.0.0.0", "--allow-remote", "--token-file", token_in(place)
    )
    mine = {"authorization": "Bearer 0123456789abcdef"}
    try:
        assert process.url.startswith("http://127.0.0.1:")
        assert post(process, mine).status_code == 200
        assert post(process, {}).status_code == 401
        assert post(process, {**mine, "host": "192.0.2.1"}).status_code == 421
    finally:
        assert process.stop() == 0
    log = (place.directory / "server.log").read_text()
    assert "warning: other machines can reach this server at 0.0.0.0. Clients that have" in log
