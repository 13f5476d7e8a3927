"""Lines out of bytes, however they arrive, and messages out of lines."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCError, JSONRPCNotification

from agentforge_sessions.entrypoints.mcp_server.lines import LineFramer, TooLong
from agentforge_sessions.entrypoints.mcp_server.stdio import (
    _some,
    _watch_hangup,
    _write,
    parse,
    stdio_streams,
)

PING = b'{"jsonrpc":"2.0","id":7,"method":"ping"}'


def fed(framer: LineFramer, *pieces: bytes) -> list[bytes | TooLong]:
    return [frame for piece in pieces for frame in framer.feed(piece)]


@given(
    lines=st.lists(st.binary(max_size=40).map(lambda b: b.replace(b"\n", b"")), max_size=8),
    cuts=st.lists(st.integers(0, 400), max_size=8),
)
def test_the_same_lines_come_out_however_the_bytes_are_cut(
    lines: list[bytes], cuts: list[int]
) -> None:
    data = b"".join(line + b"\n" for line in lines)
    places = sorted({min(cut, len(data)) for cut in cuts} | {0, len(data)})
    pieces = [data[a:b] for a, b in pairwise(places)]
    assert fed(LineFramer(max_bytes=20), *pieces) == [
        line if len(line) <= 20 else TooLong(len(line)) for line in lines
    ]


def test_a_line_that_is_too_long_is_not_held_while_it_comes() -> None:
    framer = LineFramer(max_bytes=100)
    for _ in range(1000):
        assert framer.feed(b"x" * 1000) == []
        assert len(framer._held) <= 100
    assert framer.feed(b"\nnext\n") == [TooLong(1_000_000), b"next"]


def test_a_line_of_the_greatest_length_is_kept() -> None:
    assert LineFramer(max_bytes=3).feed(b"abc\nabcd\n") == [b"abc", TooLong(4)]


def test_a_request_is_read() -> None:
    parsed = parse(PING)
    assert isinstance(parsed, SessionMessage)


@pytest.mark.parametrize("line", [b"not json", b"{", b"\xff\xfe", b'{"a": \xff}', b"[" * 100_000])
def test_what_is_no_json_gets_a_parse_error_without_an_id(line: bytes) -> None:
    parsed = parse(line)
    assert isinstance(parsed, JSONRPCError)
    assert (parsed.error.code, parsed.id) == (-32700, None)


@pytest.mark.parametrize(
    ("line", "request_id"),
    [
        (b'{"id": 5, "method": "ping"}', 5),
        (b'{"jsonrpc": "2.0", "id": "a", "method": 3}', "a"),
        (b'{"jsonrpc": "2.0", "id": true, "method": "ping"}', None),
        (b'{"jsonrpc": "2.0", "id": {}, "method": "ping"}', None),
        (b"[]", None),
        (b"3", None),
        (b"[" + PING + b"]", None),
    ],
)
def test_json_that_is_no_message_gets_an_error_with_its_id_if_it_has_one(
    line: bytes, request_id: object
) -> None:
    parsed = parse(line)
    assert isinstance(parsed, JSONRPCError)
    assert (parsed.error.code, parsed.id) == (-32600, request_id)
    assert "not acted on" in parsed.error.message


class Pipes:
    """Two pipes, and the ends that a client would hold."""

    def __init__(self) -> None:
        self.source, self.to_server = os.pipe()
        self.from_server, self.sink = os.pipe()
        self._heard = b""

    def say(self, data: bytes) -> None:
        os.write(self.to_server, data)

    async def hear(self) -> dict[str, object]:
        while b"\n" not in self._heard:
            await anyio.wait_readable(self.from_server)
            self._heard += os.read(self.from_server, 1 << 16)
        line, _, self._heard = self._heard.partition(b"\n")
        found = json.loads(line)
        assert isinstance(found, dict)
        return found

    def close(self) -> None:
        for fd in (self.source, self.to_server, self.from_server, self.sink):
            with suppress(OSError):
                os.close(fd)


@pytest.fixture
def pipes() -> Pipes:
    return Pipes()


@pytest.mark.anyio
async def test_messages_go_in_and_out_and_refusals_go_between(pipes: Pipes) -> None:
    with anyio.fail_after(30):
        async with stdio_streams(
            input_fd=pipes.source, output_fd=pipes.sink, max_message_bytes=100
        ) as streams:
            pipes.say(b"\n  \nnonsense\n" + b"x" * 500 + b"\n" + PING + b"\n")
            assert (await pipes.hear())["error"]["code"] == -32700  # type: ignore[index]
            too_long = (await pipes.hear())["error"]
            assert "500 bytes, more than the 100" in too_long["message"]  # type: ignore[index]
            got = await streams.read.receive()
            assert isinstance(got, SessionMessage)
            note = JSONRPCNotification(jsonrpc="2.0", method="a/b")
            await streams.write.send(SessionMessage(note))
            assert await pipes.hear() == {"jsonrpc": "2.0", "method": "a/b"}
    pipes.close()


@pytest.mark.anyio
async def test_the_stream_ends_when_the_client_closes_its_end(pipes: Pipes) -> None:
    with anyio.fail_after(30):
        async with stdio_streams(input_fd=pipes.source, output_fd=pipes.sink) as streams:
            os.close(pipes.to_server)
            with pytest.raises(anyio.EndOfStream):
                await streams.read.receive()
    pipes.close()


@pytest.mark.anyio
async def test_the_stream_ends_when_nobody_reads_any_more_and_nothing_is_written(
    pipes: Pipes,
) -> None:
    with anyio.fail_after(30):
        async with stdio_streams(input_fd=pipes.source, output_fd=pipes.sink) as streams:
            os.close(pipes.from_server)
            with pytest.raises(anyio.EndOfStream):
                await streams.read.receive()
    pipes.close()


@pytest.mark.anyio
async def test_what_was_sent_is_written_before_the_streams_close(pipes: Pipes) -> None:
    words = "x" * 50_000  # less than a pipe holds, more than one write
    with anyio.fail_after(30):
        async with stdio_streams(input_fd=pipes.source, output_fd=pipes.sink) as streams:
            note = JSONRPCNotification(jsonrpc="2.0", method="a/b", params={"x": words})
            await streams.write.send(SessionMessage(note))
        assert (await pipes.hear())["params"] == {"x": words}
    pipes.close()


@pytest.mark.anyio
async def test_what_others_write_to_the_descriptor_does_not_reach_the_client(
    pipes: Pipes, capfd: pytest.CaptureFixture[str]
) -> None:
    with anyio.fail_after(30):
        async with stdio_streams(input_fd=pipes.source, output_fd=pipes.sink) as streams:
            os.write(pipes.sink, b"stray\n")
            assert os.read(pipes.source, 10) == b""
            note = JSONRPCNotification(jsonrpc="2.0", method="a/b")
            await streams.write.send(SessionMessage(note))
            assert (await pipes.hear())["method"] == "a/b"
    assert "stray" in capfd.readouterr().err
    os.write(pipes.sink, b"mine again")
    assert os.read(pipes.from_server, 10) == b"mine again"
    pipes.close()


@pytest.mark.anyio
async def test_files_serve_as_well_as_pipes(tmp_path: object) -> None:
    requests, answers = f"{tmp_path}/in", f"{tmp_path}/out"
    with open(requests, "wb") as file:
        file.write(PING + b"\n")
    source = os.open(requests, os.O_RDONLY)
    sink = os.open(answers, os.O_WRONLY | os.O_CREAT)
    with anyio.fail_after(30):
        async with stdio_streams(input_fd=source, output_fd=sink) as streams:
            assert isinstance(await streams.read.receive(), SessionMessage)
            note = JSONRPCNotification(jsonrpc="2.0", method="a/b")
            await streams.write.send(SessionMessage(note))
    os.close(source)
    os.close(sink)
    with open(answers, "rb") as file:
        assert json.load(file)["method"] == "a/b"


@pytest.mark.anyio
@pytest.mark.parametrize("blocking", [True, False])
async def test_a_client_that_reads_slowly_over_a_socket_gets_every_byte(blocking: bool) -> None:
    ours, theirs = socket.socketpair()
    words = "x" * 2_000_000
    heard = bytearray()
    with ours, theirs, anyio.fail_after(60):
        ours.setblocking(blocking)
        fd = ours.fileno()
        async with (
            stdio_streams(input_fd=os.dup(fd), output_fd=fd) as streams,
            anyio.create_task_group() as group,
        ):
            note = JSONRPCNotification(jsonrpc="2.0", method="a/b", params={"x": words})
            group.start_soon(streams.write.send, SessionMessage(note))
            while not heard.endswith(b"\n"):
                await anyio.wait_readable(theirs)
                heard += theirs.recv(10_000)
    assert json.loads(heard)["params"] == {"x": words}


@pytest.mark.anyio
async def test_a_message_to_nobody_ends_the_streams_instead_of_raising(pipes: Pipes) -> None:
    arrived, receive = anyio.create_memory_object_stream[SessionMessage](1)
    reading, written = anyio.CancelScope(), anyio.Event()
    os.close(pipes.from_server)
    await arrived.send(SessionMessage(JSONRPCNotification(jsonrpc="2.0", method="a/b")))
    with anyio.fail_after(30):
        await _write(pipes.sink, receive, reading, written)
    assert reading.cancel_called
    assert written.is_set()
    arrived.close()
    pipes.close()


@pytest.mark.anyio
async def test_a_byte_that_somebody_else_took_is_not_the_end(pipes: Pipes) -> None:
    os.set_blocking(pipes.source, False)
    second = os.dup(pipes.source)
    got: list[bytes] = []
    taken = anyio.Event()

    async def read(fd: int) -> None:
        got.append(await _some(fd))
        taken.set()

    with anyio.fail_after(30):
        async with anyio.create_task_group() as group:
            group.start_soon(read, pipes.source)
            group.start_soon(read, second)
            await anyio.wait_all_tasks_blocked()
            pipes.say(b"a")  # wakes both, and is there for one
            await taken.wait()
            await anyio.wait_all_tasks_blocked()
            pipes.say(b"b")
    assert got == [b"a", b"b"]
    os.close(second)
    pipes.close()


def _pipe() -> tuple[int, int]:
    return os.pipe()


def _sockets() -> tuple[int, int]:
    ours, theirs = socket.socketpair()
    return theirs.detach(), ours.detach()


@pytest.mark.anyio
@pytest.mark.parametrize("connected", [_pipe, _sockets])
async def test_reading_ends_once_the_client_has_closed_what_it_reads_from(
    connected: Callable[[], tuple[int, int]],
) -> None:
    theirs, ours = connected()
    async with anyio.create_task_group() as group:
        with anyio.fail_after(60), anyio.CancelScope() as reading:
            group.start_soon(_watch_hangup, ours, reading)
            await anyio.lowlevel.checkpoint()
            assert not reading.cancel_called
            os.close(theirs)
            await anyio.sleep_forever()
    assert reading.cancelled_caught
    os.close(ours)
