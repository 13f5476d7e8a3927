"""MCP messages over standard input and output: one JSON object per line.

Unlike the SDK's own transport, this one bounds the length of a message, answers an invalid line
instead of dropping it, can be stopped while it reads, and notices at once when the client leaves,
even if only the other end of standard output closes.

While it serves, descriptor 0 is the null device and descriptor 1 is standard error, so that only
protocol messages can reach the client.
"""

from __future__ import annotations

import os
import select
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Final

import anyio
import anyio.lowlevel
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from attrs import frozen
from mcp.shared.message import SessionMessage
from mcp_types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCNotification,
    RequestId,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError
from pydantic_core import from_json

from ...base.event_log import get_logger
from .lines import MAX_MESSAGE_BYTES, READ_BYTES, WRITE_BYTES, LineFramer, TooLong, diverted

_LAST_WORDS_S: Final = 2.0
"""How long a client may take to read the last answers, in seconds."""
_LOOK_S: Final = 0.5
"""How often to look whether the client has left, on a system that doesn't report it."""
_LEFT: Final = select.POLLHUP | select.POLLERR | select.POLLNVAL

_log = get_logger("agentforge.mcp")


def parse(line: bytes) -> SessionMessage | JSONRPCError:
    """Return the message on a line, or the protocol's error if it is invalid."""
    try:
        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
        if not isinstance(message, JSONRPCNotification) or "id" not in from_json(line):
            return SessionMessage(message)  # (with any id, even an invalid one: no notification)
    except ValidationError:
        pass
    try:
        found = from_json(line)
    except ValueError:
        return _refusal(PARSE_ERROR, "this line is no JSON")
    given = found.get("id") if isinstance(found, dict) else None
    known = given if isinstance(given, str | int) and not isinstance(given, bool) else None
    return _refusal(INVALID_REQUEST, "this line is no JSON-RPC 2.0 message", known)


def _refusal(code: int, message: str, request_id: RequestId | None = None) -> JSONRPCError:
    error = ErrorData(code=code, message=f"{message}; it was not acted on")
    return JSONRPCError(jsonrpc="2.0", id=request_id, error=error)


@frozen
class Streams:
    """Streams that the SDK's server runs over.

    Attributes:
        read: Messages from the client.
        write: Messages to the client.
        stop: Stops reading, as if the client had left.
    """

    read: MemoryObjectReceiveStream[SessionMessage | Exception]
    write: MemoryObjectSendStream[SessionMessage]
    stop: Callable[[], None]


@asynccontextmanager
async def stdio_streams(
    *,
    input_fd: int = 0,
    output_fd: int = 1,
    max_message_bytes: int = MAX_MESSAGE_BYTES,
) -> AsyncIterator[Streams]:
    """Yield streams of MCP messages over two descriptors, which are diverted meanwhile.

    The reading end closes when the client closes its end, dies, or stops reading.

    Args:
        input_fd: The descriptor that messages come from.
        output_fd: The descriptor that messages go to.
        max_message_bytes: The longest accepted message.
    """
    with diverted(input_fd, os.O_RDONLY) as source, diverted(output_fd, os.O_WRONLY) as sink:
        arrived, read = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        write, leaving = anyio.create_memory_object_stream[SessionMessage](0)
        reading = anyio.CancelScope()
        written = anyio.Event()
        framer = LineFramer(max_message_bytes)
        async with anyio.create_task_group() as group:
            group.start_soon(_read, source, framer, arrived, write.clone(), reading)
            group.start_soon(_write, sink, leaving, reading, written)
            group.start_soon(_watch_hangup, sink, reading)
            try:
                yield Streams(read, write, reading.cancel)
            finally:
                reading.cancel()
                read.close()
                write.close()
                with anyio.move_on_after(_LAST_WORDS_S, shield=True):
                    await written.wait()
                group.cancel_scope.cancel()


async def _read(
    fd: int,
    framer: LineFramer,
    arrived: MemoryObjectSendStream[SessionMessage | Exception],
    refusals: MemoryObjectSendStream[SessionMessage],
    scope: anyio.CancelScope,
) -> None:
    """Pass on the client's messages until it leaves; refuse invalid lines."""
    with arrived, refusals, scope, suppress(anyio.BrokenResourceError):
        while data := await _some(fd):
            for frame in framer.feed(data):
                if isinstance(frame, TooLong):
                    parsed: SessionMessage | JSONRPCError = _refusal(
                        INVALID_REQUEST,
                        f"this message has {frame.size_bytes:,} bytes, more than the "
                        f"{framer.max_bytes:,} that are taken",
                    )
                elif not frame.strip():
                    continue
                else:
                    parsed = parse(frame)
                if isinstance(parsed, JSONRPCError):
                    _log.warning("mcp.message_refused", reason=parsed.error.message)
                    await refusals.send(SessionMessage(parsed))
                else:
                    await arrived.send(parsed)
        _log.info("mcp.client_left", how="closed its end")


async def _some(fd: int) -> bytes:
    """Wait for bytes and return them; empty at the end of input."""
    while True:
        with suppress(PermissionError):  # a regular file can't be waited for, and is always ready
            await anyio.wait_readable(fd)
        try:
            return os.read(fd, READ_BYTES)
        except BlockingIOError:
            await anyio.lowlevel.checkpoint()  # another process sharing it was faster
        except OSError as error:
            _log.warning("mcp.input_lost", reason=str(error))
            return b""


async def _write(
    fd: int,
    leaving: MemoryObjectReceiveStream[SessionMessage],
    reading: anyio.CancelScope,
    written: anyio.Event,
) -> None:
    """Send messages until there are no more, or the client stops reading."""
    with leaving:
        async for message in leaving:
            text = message.message.model_dump_json(by_alias=True, exclude_unset=True)
            try:
                await _send(fd, memoryview(f"{text}\n".encode()))
            except OSError as error:
                _log.warning("mcp.client_left", how="takes no more output", reason=str(error))
                break
    written.set()
    reading.cancel()


async def _send(fd: int, data: memoryview) -> None:
    while data:
        with suppress(PermissionError):
            await anyio.wait_writable(fd)
        try:
            data = data[os.write(fd, data[:WRITE_BYTES]) :]
        except BlockingIOError:
            await anyio.lowlevel.checkpoint()


async def _watch_hangup(fd: int, reading: anyio.CancelScope) -> None:
    """Stop reading once the client closes its reading end, without having to write."""
    if hasattr(select, "epoll"):
        with select.epoll() as poller:
            try:
                poller.register(fd, 0)  # only EPOLLERR and EPOLLHUP, which are always reported
            except PermissionError:
                return  # a regular file has no reader to lose
            await anyio.wait_readable(poller.fileno())
    else:
        look = select.poll()
        look.register(fd, select.POLLOUT)  # macOS reports no end to who asks for nothing
        while not any(found & _LEFT for _, found in look.poll(0)):
            await anyio.sleep(_LOOK_S)
    _log.warning("mcp.client_left", how="closed its reading end")
    reading.cancel()
