"""Which HTTP requests are answered."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import Any, ClassVar

import anyio
import pytest
from starlette.requests import Request
from starlette.types import Message, Receive, Scope, Send

from agentforge_sessions.entrypoints.mcp_server import (
    AddressUnavailable,
    NotLoopback,
    TokenRefused,
    TokenRequired,
)
from agentforge_sessions.entrypoints.mcp_server.calls import CancelScopes
from agentforge_sessions.entrypoints.mcp_server.server import exchange_over
from agentforge_sessions.entrypoints.mcp_server.transports.http import guarded, listening, url_of
from agentforge_sessions.entrypoints.mcp_server.transports.http_guard import (
    HttpGuard,
    HttpSettings,
    is_loopback,
    read_token,
)

PORT = 8137
OWN = b"127.0.0.1:8137"
TOKEN = "0123456789abcdef0123"


def status(
    settings: HttpSettings | None = None, port: int = PORT, **headers: bytes | list[bytes]
) -> int | None:
    sent = [(b"user-agent", b"test")]
    for name, value in {"host": OWN, **headers}.items():
        sent += [(name.encode(), one) for one in (value if isinstance(value, list) else [value])]
    refusal = HttpGuard(settings=settings or HttpSettings(), port=port).refusal(sent)
    return refusal.status if refusal is not None else None


@pytest.mark.parametrize(
    "host", [b"127.0.0.1:8137", b"localhost:8137", b"[::1]:8137", b"LocalHost:8137"]
)
def test_the_names_of_this_machine_are_answered(host: bytes) -> None:
    assert status(host=host) is None


@pytest.mark.parametrize(
    "host",
    [
        b"evil.example:8137",
        b"evil.example",
        b"127.0.0.1",
        b"127.0.0.1:80",
        b"127.0.0.1:81370",
        b"127.0.0.1:8137@evil.example",
        b"127.0.0.1:8137.evil.example",
        b"localhost.evil.example:8137",
        b"",
        b" localhost:8137",
        b"\xff\xff",
    ],
)
def test_every_other_name_is_misdirected(host: bytes) -> None:
    assert status(host=host) == 421


def test_a_request_without_host_or_with_two_is_misdirected() -> None:
    assert status(host=[]) == 421
    assert status(host=[OWN, OWN]) == 421


def test_at_port_80_the_name_may_stand_alone() -> None:
    assert status(host=b"localhost", port=80) is None


@pytest.mark.parametrize("host", [b"box.lan", b"box.lan:8137", b"BOX.lan"])
def test_a_name_that_was_allowed_is_answered(host: bytes) -> None:
    assert status(HttpSettings(allowed_hosts=("Box.lan",)), host=host) is None


def test_a_name_that_was_allowed_with_a_port_is_answered_at_that_port_only() -> None:
    settings = HttpSettings(allowed_hosts=("box.lan:443",))
    assert status(settings, host=b"box.lan:443") is None
    assert status(settings, host=b"box.lan:8137") == 421


@pytest.mark.parametrize("origin", [b"http://127.0.0.1:8137", b"http://localhost:8137"])
def test_pages_of_this_server_may_ask(origin: bytes) -> None:
    assert status(origin=origin) is None


@pytest.mark.parametrize(
    "origin",
    [
        b"http://evil.example",
        b"https://127.0.0.1:8137",
        b"http://127.0.0.1:9999",
        b"http://127.0.0.1:8137.evil.example",
        b"http://127.0.0.1:8137/x",
        b"null",
        b"",
        b"file://",
        b"http://[",
        b"http://[::1",
        b"http://\xff:8137",
    ],
)
def test_pages_of_others_may_not(origin: bytes) -> None:
    assert status(origin=origin) == 403


def test_pages_of_an_allowed_origin_may_ask() -> None:
    settings = HttpSettings(allowed_origins=("https://App.example",))
    assert status(settings, origin=b"https://app.example") is None
    assert status(settings, origin=b"https://app.example.evil.example") == 403


@pytest.mark.parametrize(
    ("authorization", "expected"),
    [
        (f"Bearer {TOKEN}".encode(), None),
        ([], 401),
        (b"", 401),
        (TOKEN.encode(), 401),
        (f"bearer {TOKEN}".encode(), 401),
        (f"Bearer {TOKEN}x".encode(), 401),
        (f"Bearer {TOKEN[:-1]}".encode(), 401),
        (b"Bearer \xff", 401),
        ([f"Bearer {TOKEN}".encode()] * 2, 401),
    ],
)
def test_with_a_token_only_those_who_bring_it_are_answered(
    authorization: bytes | list[bytes], expected: int | None
) -> None:
    assert status(HttpSettings(token=TOKEN), authorization=authorization) == expected


def test_the_token_is_in_no_repr() -> None:
    assert TOKEN not in repr(HttpSettings(token=TOKEN))


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost", "LOCALHOST"])
def test_loopback_needs_no_permission(host: str) -> None:
    assert is_loopback(host)
    assert HttpSettings(host=host).host == host


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.1", "box.lan", "localhost.lan"])
def test_an_address_that_others_reach_needs_an_explicit_yes(host: str) -> None:
    with pytest.raises(NotLoopback, match="nothing was started") as caught:
        HttpSettings(host=host)
    assert caught.value.host == host
    assert HttpSettings(host=host, allow_remote=True, token=TOKEN).host == host


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.0.1", "box.lan", "127.0.0.1"])
@pytest.mark.parametrize("token", [None, ""])
def test_other_machines_are_served_with_a_token_alone(host: str, token: str | None) -> None:
    with pytest.raises(TokenRequired, match="nothing was started") as caught:
        HttpSettings(host=host, allow_remote=True, token=token)
    assert caught.value.host == host


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:1/mcp"),
        ("::1", "http://[::1]:1/mcp"),
        ("0.0.0.0", "http://127.0.0.1:1/mcp"),
    ],
)
def test_the_address_told_can_be_connected_to(host: str, url: str) -> None:
    assert url_of(HttpSettings(host=host, allow_remote=True, token=TOKEN), 1) == url


def test_a_port_in_use_is_told() -> None:
    with listening(HttpSettings(port=0)) as first:
        port = first.getsockname()[1]
        with (
            pytest.raises(AddressUnavailable, match="--port 0") as caught,
            listening(HttpSettings(port=port)),
        ):
            pass
    assert (caught.value.port, caught.value.host) == (port, "127.0.0.1")


def test_an_address_that_is_none_is_told() -> None:
    settings = HttpSettings(host="no such host.", allow_remote=True, token=TOKEN)
    with pytest.raises(AddressUnavailable), listening(settings):
        pass


def test_a_peer_that_vanishes_is_noticed_within_half_a_minute() -> None:
    level = socket.IPPROTO_TCP
    with (
        listening(HttpSettings(port=0)) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
        assert accepted.getsockopt(level, socket.TCP_KEEPINTVL) == 10
        if hasattr(socket, "TCP_USER_TIMEOUT"):
            assert accepted.getsockopt(level, socket.TCP_USER_TIMEOUT) == 30_000
            assert accepted.getsockopt(level, socket.TCP_KEEPIDLE) == 10


class TestExchanges:
    SCOPE: ClassVar[dict[str, Any]] = {
        "type": "http",
        "method": "GET",
        "path": "/mcp",
        "headers": [(b"host", OWN)],
    }

    @pytest.mark.anyio
    async def test_a_stream_that_a_client_listens_on_is_closed_in_order(self) -> None:
        sent: list[Message] = []
        begun = anyio.Event()
        listeners = CancelScopes()

        async def app(scope: Scope, _: Receive, send: Send) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            begun.set()
            await anyio.sleep_forever()

        async def send(message: Message) -> None:
            sent.append(message)

        served = guarded(app, HttpGuard(settings=HttpSettings(), port=PORT), listeners)
        with anyio.fail_after(30):
            async with anyio.create_task_group() as group:
                group.start_soon(served, dict(self.SCOPE), no_message, send)
                await begun.wait()
                listeners.stop()
        assert [one["type"] for one in sent] == ["http.response.start", "http.response.body"]
        assert sent[-1]["more_body"] is False

    @pytest.mark.anyio
    @pytest.mark.parametrize("method", ["GET", "POST"])
    async def test_the_end_of_an_exchange_is_told_however_it_ends(self, method: str) -> None:
        over: list[anyio.Event] = []

        async def app(scope: Scope, receive: Receive, __: Send) -> None:
            event = exchange_over(Request(scope, receive))
            assert event is not None
            assert not event.is_set()
            over.append(event)
            raise ZeroDivisionError

        served = guarded(app, HttpGuard(settings=HttpSettings(), port=PORT))
        with pytest.raises(ZeroDivisionError):
            await served({**self.SCOPE, "method": method}, no_message, no_answer)
        assert over[0].is_set()

    def test_without_http_there_is_no_exchange(self) -> None:
        assert exchange_over(None) is None
        assert exchange_over(Request({"type": "http"})) is None


async def no_message() -> Message:
    raise AssertionError


async def no_answer(_: Message) -> None:
    raise AssertionError


class TestReadToken:
    @pytest.fixture
    def file(self, tmp_path: Path) -> Path:
        path = tmp_path / "token"
        path.write_text(f"{TOKEN}\n")
        path.chmod(0o600)
        return path

    def test_it_is_read_without_its_line_end(self, file: Path) -> None:
        assert read_token(file) == TOKEN

    def test_a_file_that_others_may_read_is_refused(self, file: Path) -> None:
        file.chmod(0o640)
        with pytest.raises(TokenRefused, match="0640") as caught:
            read_token(file)
        assert caught.value.path == file

    @pytest.mark.parametrize("text", ["", "short", "two tokens, which is one too many", "é" * 20])
    def test_what_is_no_token_is_refused(self, file: Path, text: str) -> None:
        file.write_text(text)
        with pytest.raises(TokenRefused):
            read_token(file)

    def test_a_missing_file_a_directory_and_a_pipe_are_refused(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe", 0o600)
        for path in (tmp_path / "none", tmp_path, tmp_path / "pipe"):
            with pytest.raises(TokenRefused):
                read_token(path)
