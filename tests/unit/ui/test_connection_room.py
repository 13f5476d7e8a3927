"""Connections of those without the key: few, for a short time, and in nobody's way."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from agentforge_sessions.entrypoints.connection_room import MAX_STRANGERS, ConnectionRoom
from tests.support.page_address import PATIENCE_S, exchange, key_of
from tests.support.python_path import python_path

ROOT = Path(__file__).parents[3]
PAGES = ("ui", "--port", "0", "--json")
HALF = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Never-Ends: "


@contextmanager
def serving(folder: Path, *words: str) -> Iterator[str]:
    """Run a server of pages; yield the address that it prints."""
    kept = ("PATH", "HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME")
    process = subprocess.Popen(
        [sys.executable, "-m", "agentforge_sessions.entrypoints.cli", *words],
        cwd=folder,
        env={
            **{name: os.environ[name] for name in kept if name in os.environ},
            "PYTHONPATH": python_path(ROOT),
        },
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate()
        yield str(json.loads(line)["url"])
    finally:
        process.terminate()
        _, said = process.communicate(timeout=PATIENCE_S)
    assert "Traceback" not in said, said  # nobody writes to the terminal of the person


def was_closed(one: socket.socket) -> bool:
    """Wait until the server closes a connection."""
    try:
        return one.recv(1) == b""
    except ConnectionError:
        return True


def test_300_half_sent_requests_shut_nobody_out(tmp_path: Path) -> None:
    """They have sent the half of a head before the key is asked for, and are open meanwhile."""
    with serving(tmp_path, *PAGES) as url, ExitStack() as opened:
        place = urlsplit(url)
        assert place.hostname is not None
        half_sent = []
        for _ in range(300):
            one = socket.create_connection((place.hostname, place.port or 0), timeout=PATIENCE_S)
            one.sendall(HALF)
            half_sent.append(opened.enter_context(one))
        assert key_of(url)
        assert exchange(url)[0] == 403
        for one in half_sent[: 300 - MAX_STRANGERS]:  # they made room for those after them
            assert was_closed(one)


SLOW_BODY = (
    b"POST /key HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\n"
    b"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\ncode="
)
SLOW_CHUNKS = SLOW_BODY.replace(b"Content-Length: 100", b"Transfer-Encoding: chunked").replace(
    b"code=", b"5\r\ncode=\r\n"
)
ANSWERED = b"GET / HTTP/1.1\r\nHost: {host}\r\n\r\n"
STREAM_WITHOUT_KEY = SLOW_BODY.replace(b"/key", b"/events")


@pytest.mark.parametrize(
    "sent",
    [b"", SLOW_BODY, SLOW_CHUNKS, ANSWERED, STREAM_WITHOUT_KEY],
    ids=["silent", "slow body", "slow chunks", "idle after an answer", "stream without the key"],
)
def test_300_connections_of_any_kind_leave_a_persons_pages_alone(
    tmp_path: Path, sent: bytes
) -> None:
    """Its open stream goes on, it opens another one, and a new address is exchanged."""
    with serving(tmp_path, *PAGES) as url, ExitStack() as opened:
        place = urlsplit(url)
        host = place.netloc.encode()

        def connect(data: bytes) -> socket.socket:
            one = socket.create_connection((place.hostname, place.port or 0), timeout=PATIENCE_S)
            one.sendall(data.replace(b"{host}", host))
            return opened.enter_context(one)

        key = key_of(url).encode()
        listen = STREAM_WITHOUT_KEY.replace(b"100\r\n\r\ncode=", b"0\r\n") + (
            b"X-Agentforge-Key: " + key + b"\r\n\r\n"
        )
        before = connect(listen)
        assert before.recv(15) == b"HTTP/1.1 200 OK"
        for _ in range(300):
            connect(sent)
        assert connect(listen).recv(15) == b"HTTP/1.1 200 OK"
        assert exchange(url)[0] == 403
        assert not is_over(before)


def is_over(one: socket.socket) -> bool:
    """Return whether the server has closed a connection, whatever it sent before."""
    one.setblocking(False)
    try:
        while one.recv(65_536):
            pass
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
    return True


# ------------------------------------------------------------------------------------- the room


class Echo(asyncio.Protocol):
    """Answers what comes with the same."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


@asynccontextmanager
async def listening(room: ConnectionRoom, host: str = "127.0.0.1") -> AsyncIterator[int]:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(room.watched(Echo), host, 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connected(port: int, host: str = "127.0.0.1") -> Stream:
    """Open a connection; the server has it when this returns."""
    stream = await asyncio.open_connection(host, port)
    await answered(stream)
    return stream


async def answered(stream: Stream) -> None:
    reader, writer = stream
    writer.write(b"?")
    async with asyncio.timeout(PATIENCE_S):
        assert await reader.read(1) == b"?"


async def is_closed(stream: Stream) -> bool:
    async with asyncio.timeout(PATIENCE_S):
        try:
            return await stream[0].read(1) == b""
        except ConnectionError:
            return True
        finally:
            stream[1].close()


def peer_of(stream: Stream) -> object:
    """Return the client's address as a request's scope has it: its host and its port."""
    return tuple(stream[1].get_extra_info("sockname")[:2])


def has_address(host: str) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.create_server((host, 0), family=family):
            return True
    except OSError:
        return False


@pytest.mark.anyio
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_the_oldest_without_the_key_makes_room_and_who_has_it_stays(
    anyio_backend: str, host: str
) -> None:
    if not has_address(host):
        pytest.skip(f"this machine has no {host}")
    room = ConnectionRoom(most=2, head_timeout_s=3600)
    async with listening(room, host) as port:
        keyed, *others = [await connected(port, host) for _ in range(2)]
        room.heard(peer_of(keyed), has_key=True)
        others += [await connected(port, host) for _ in range(3)]
        assert [await is_closed(one) for one in others[:2]] == [True, True]
        for one in (keyed, *others[2:]):
            await answered(one)
            one[1].close()


class Wire(asyncio.Transport):
    """A connection that notes that it was closed."""

    def __init__(self) -> None:
        super().__init__()
        self.closed = asyncio.Event()

    def abort(self) -> None:
        self.closed.set()


@pytest.mark.anyio
async def test_a_connection_without_a_head_is_closed_after_its_time_unless_it_showed_the_key(
    anyio_backend: str,
) -> None:
    room = ConnectionRoom(head_timeout_s=0.01)
    keyed, silent, asking = Wire(), Wire(), Wire()
    room.opened("keyed", keyed)
    room.opened("asking", asking)
    room.opened("silent", silent)
    room.heard("keyed", has_key=True)
    room.heard("asking", has_key=False)
    room.heard("nobody", has_key=False)
    for one in (silent, asking):  # who asked has the time anew, and no more
        await asyncio.wait_for(one.closed.wait(), PATIENCE_S)
    assert not keyed.closed.is_set()


@pytest.mark.anyio
async def test_a_connection_that_ends_gives_its_place_up(anyio_backend: str) -> None:
    room = ConnectionRoom(most=1, head_timeout_s=3600)
    async with listening(room) as port:
        for _ in range(3):
            one = await connected(port)
            one[1].close()
            await one[1].wait_closed()


def test_a_connection_that_ended_before_it_was_looked_at_is_taken_like_any_other() -> None:
    """The system then knows no address of it."""
    protocol = ConnectionRoom().watched(Echo)()
    loop = asyncio.new_event_loop()

    async def end() -> None:
        protocol.connection_made(Wire())
        protocol.connection_lost(None)

    try:
        loop.run_until_complete(end())
    finally:
        loop.close()
