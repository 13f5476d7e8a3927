"""Clients that are slow, that are many, or that ask for what was lost, at a server on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.abc
import anyio.lowlevel
import httpx2
import pytest
import uvicorn
from starlette.types import Message, Receive, Scope, Send
from uvicorn.server import ServerState

from agentforge_sessions.entrypoints.mcp_server.server import HarnessServer
from agentforge_sessions.entrypoints.mcp_server.transports.http import (
    HttpServer,
    listening,
)
from agentforge_sessions.entrypoints.mcp_server.transports.http_guard import HttpSettings
from agentforge_sessions.entrypoints.mcp_server.transports.http_limits import (
    BodyTooSlow,
    HttpSessions,
    in_time,
    protocol_with,
)
from tests.support.mcp_processes import ACCEPT, INITIALIZE

pytestmark = pytest.mark.anyio

LIMIT_S = 60
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


@asynccontextmanager
async def served(settings: HttpSettings) -> AsyncIterator[int]:
    """Serve no tools on a free port of 127.0.0.1, and return it."""
    with listening(settings) as listener:
        http = HttpServer(HarnessServer([]), settings, listener)
        with anyio.fail_after(LIMIT_S):
            async with http.serving():
                try:
                    yield int(listener.getsockname()[1])
                finally:
                    http.stop()


async def everything(stream: anyio.abc.ByteReceiveStream) -> bytes:
    """What the server says until it closes the connection."""
    heard = b""
    while True:
        try:
            heard += await stream.receive()
        except (anyio.EndOfStream, anyio.BrokenResourceError):
            return heard


def head(port: int, **headers: str) -> bytes:
    lines = [f"Host: 127.0.0.1:{port}", *(f"{k}: {v}" for k, v in {**ACCEPT, **headers}.items())]
    return ("POST /mcp HTTP/1.1\r\n" + "\r\n".join(lines) + "\r\n\r\n").encode()


# --------------------------------------------------------------------------------------- slowness


@pytest.mark.parametrize("sent", [b"", b"P", b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "])
async def test_a_connection_whose_head_does_not_come_is_closed(sent: bytes) -> None:
    async with (
        served(HttpSettings(port=0, head_timeout_s=0.2)) as port,
        await anyio.connect_tcp("127.0.0.1", port) as wire,
    ):
        if sent:
            await wire.send(sent)
        assert (await everything(wire)).startswith(b"HTTP/1.1 408 ")


class Timer:
    """What a loop would call later."""

    def __init__(self, delay_s: float, callback: Callable[[], object]) -> None:
        self.delay_s, self.callback, self.is_cancelled = delay_s, callback, False

    def cancel(self) -> None:
        self.is_cancelled = True


class Loop:
    """A loop in which time stands still and no task begins."""

    def __init__(self) -> None:
        self.timers: list[Timer] = []

    def call_later(self, delay_s: float, callback: Callable[[], object]) -> Timer:
        self.timers.append(Timer(delay_s, callback))
        return self.timers[-1]

    def create_task(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Future[None]:
        coroutine.close()
        return asyncio.Future()


class Wire(asyncio.Transport):
    """A connection that notes what is written to it."""

    def __init__(self) -> None:
        super().__init__()
        self.written, self.is_closed = b"", False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def close(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed


def connected() -> tuple[Any, Loop, Wire]:
    config = uvicorn.Config(lambda: None, ws="none", log_config=None, lifespan="off")
    loop, wire = Loop(), Wire()
    protocol = protocol_with(7.0)(config, ServerState(), {}, _loop=loop)  # type: ignore[arg-type]
    protocol.connection_made(wire)
    return protocol, loop, wire


async def test_more_bytes_of_a_head_give_it_no_more_time() -> None:
    protocol, loop, wire = connected()
    for _ in range(100):
        protocol.data_received(b"X")
    (timer,) = loop.timers
    assert (timer.delay_s, timer.is_cancelled) == (7.0, False)
    timer.callback()
    assert wire.written.startswith(b"HTTP/1.1 408 ")
    assert wire.is_closed


async def test_a_head_that_came_is_not_timed_any_more() -> None:
    protocol, loop, wire = connected()
    protocol.data_received(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf")
    (timer,) = loop.timers
    assert timer.is_cancelled
    protocol.data_received(b"again")
    assert loop.timers == [timer]
    assert not wire.is_closed


async def test_the_next_head_on_a_connection_is_timed_too() -> None:
    protocol, loop, wire = connected()
    protocol.data_received(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    headers = [(b"content-length", b"2")]
    await protocol.cycle.send({"type": "http.response.start", "status": 200, "headers": headers})
    await protocol.cycle.send({"type": "http.response.body", "body": b"ok"})
    _, keep_alive = loop.timers
    assert not keep_alive.is_cancelled
    protocol.data_received(b"GET / HTT")
    assert keep_alive.is_cancelled
    _, _, timer = loop.timers
    assert (timer.delay_s, timer.is_cancelled) == (7.0, False)
    timer.callback()
    assert wire.written.split(b"ok")[1].startswith(b"HTTP/1.1 408 ")
    assert wire.is_closed


async def test_a_connection_that_its_client_closed_leaves_no_timer() -> None:
    protocol, loop, _ = connected()
    protocol.connection_lost(None)
    assert [one.is_cancelled for one in loop.timers] == [True]


async def test_a_request_whose_body_does_not_come_is_refused() -> None:
    async with served(HttpSettings(port=0, body_timeout_s=0.2)) as port:
        async with await anyio.connect_tcp("127.0.0.1", port) as wire:
            await wire.send(head(port, **{"content-length": "100"}) + b'{"json')
            heard = await everything(wire)
        assert heard.startswith(b"HTTP/1.1 408 ")
        assert b"it was not acted on" in heard
        async with httpx2.AsyncClient(timeout=LIMIT_S) as web:  # and the server goes on
            assert (await web.get(f"http://127.0.0.1:{port}/")).status_code == 404


@pytest.mark.parametrize("pauses", [True, False])
async def test_more_bytes_of_a_body_give_it_no_more_time(pauses: bool) -> None:
    async def trickle() -> Message:
        if pauses:
            await anyio.lowlevel.checkpoint()
        return {"type": "http.request", "body": b"x", "more_body": True}

    receive = in_time(trickle, 0.05)

    async def take_all() -> None:
        while True:
            await receive()

    with anyio.fail_after(LIMIT_S), pytest.raises(BodyTooSlow):
        await take_all()


async def test_a_body_that_came_is_not_timed_any_more() -> None:
    messages: list[Message] = [
        {"type": "http.request", "body": b"x", "more_body": False},
        {"type": "http.disconnect"},
    ]
    moment = anyio.current_time()

    async def arrive() -> Message:
        return messages.pop(0)

    receive = in_time(arrive, LIMIT_S, now=lambda: moment)
    assert (await receive())["type"] == "http.request"
    moment += 2 * LIMIT_S
    assert (await receive())["type"] == "http.disconnect"


# --------------------------------------------------------------------------------------- sessions


@asynccontextmanager
async def web_of(settings: HttpSettings) -> AsyncIterator[tuple[httpx2.AsyncClient, str]]:
    async with served(settings) as port, httpx2.AsyncClient(timeout=LIMIT_S) as web:
        yield web, f"http://127.0.0.1:{port}/mcp"


async def opened(web: httpx2.AsyncClient, url: str) -> str:
    answer = await web.post(url, headers=ACCEPT, json=INITIALIZE)
    assert answer.status_code == 200, answer.text
    return str(answer.headers["mcp-session-id"])


async def status_of(web: httpx2.AsyncClient, url: str, session_id: str) -> int:
    headers = {**ACCEPT, "mcp-session-id": session_id}
    return (await web.post(url, headers=headers, json=PING)).status_code


async def test_the_session_idle_for_longest_makes_room() -> None:
    async with web_of(HttpSettings(port=0, max_sessions=3)) as (web, url):
        first, second, third = [await opened(web, url) for _ in range(3)]
        assert await status_of(web, url, first) == 200  # so the second is idle for longest
        fourth = await opened(web, url)
        found = [await status_of(web, url, one) for one in (first, second, third, fourth)]
        assert found == [200, 404, 200, 200]


async def test_new_clients_are_served_however_many_left_their_sessions_behind() -> None:
    async with web_of(HttpSettings(port=0, max_sessions=2)) as (web, url):
        sessions = [await opened(web, url) for _ in range(40)]
        found = [await status_of(web, url, one) for one in sessions]
        assert found == [404] * 38 + [200] * 2


async def test_a_session_that_is_listened_on_is_not_ended() -> None:
    async with web_of(HttpSettings(port=0, max_sessions=1)) as (web, url):
        listening_on = await opened(web, url)
        headers = {**ACCEPT, "mcp-session-id": listening_on}
        async with web.stream("GET", url, headers=headers) as stream:
            assert stream.status_code == 200
            others = [await opened(web, url) for _ in range(3)]
            assert await status_of(web, url, listening_on) == 200
            assert [await status_of(web, url, one) for one in others] == [404, 404, 404]


async def test_events_that_were_lost_are_not_kept_and_the_client_gets_a_new_stream() -> None:
    async with web_of(HttpSettings(port=0)) as (web, url):
        session_id = await opened(web, url)
        headers = {**ACCEPT, "mcp-session-id": session_id, "last-event-id": "7"}
        async with web.stream("GET", url, headers=headers) as stream:
            assert stream.status_code == 200
            assert stream.headers["content-type"].startswith("text/event-stream")
        without = {**ACCEPT, "last-event-id": "7"}
        assert (await web.get(url, headers=without)).status_code == 400


class FakeSdk:
    """Opens a session for each request without one, and notes which were ended."""

    def __init__(self) -> None:
        self.sessions: list[str] = []
        self.ended: list[str] = []

    async def __call__(self, scope: Scope, _: Receive, send: Send) -> None:
        given = dict(scope["headers"]).get(b"mcp-session-id", b"").decode()
        headers: list[tuple[bytes, bytes]] = []
        status = 200
        if not given:
            given = f"s{len(self.sessions)}"
            self.sessions.append(given)
            headers = [(b"Mcp-Session-Id", given.encode())]
            status = 400 if scope["path"] == "/refused" else 200
        elif scope["method"] == "DELETE":
            self.ended.append(given)
        elif given not in self.sessions or given in self.ended:
            status = 404
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": b""})


def request(method: str = "POST", session: str | None = None, path: str = "/mcp") -> Scope:
    headers: Iterable[tuple[bytes, bytes]] = (
        [(b"mcp-session-id", session.encode())] if session is not None else []
    )
    return {"type": "http", "method": method, "path": path, "headers": headers}


async def no_message() -> Message:
    raise AssertionError


async def nowhere(_: Message) -> None:
    return None


async def test_sessions_are_known_from_their_opening_to_their_end() -> None:
    sdk = FakeSdk()
    sessions = HttpSessions(sdk, 2)

    async def exchange(*given: Any, **named: Any) -> None:
        await sessions(request(*given, **named), no_message, nowhere)

    await exchange()
    await exchange()
    await exchange(path="/refused")  # what is refused opens no session
    assert sessions.session_ids == ["s0", "s1"]
    await exchange(session="s0")
    await exchange(session="unknown")
    assert sessions.session_ids == ["s1", "s0"]
    await exchange("DELETE", "s1")
    assert sessions.session_ids == ["s0"]
    sdk.ended.append("s0")  # as when it was idle for half an hour
    await exchange(session="s0")
    assert sessions.session_ids == []
    assert sdk.ended == ["s1", "s0"]


async def test_an_exchange_that_breaks_leaves_its_session_idle() -> None:
    async def breaking(_: Scope, __: Receive, send: Send) -> None:
        headers = [(b"mcp-session-id", b"s")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        raise ZeroDivisionError

    sessions = HttpSessions(breaking, 1)
    with pytest.raises(ZeroDivisionError):
        await sessions(request(), no_message, nowhere)
    assert sessions._under_way == {"s": 0}
