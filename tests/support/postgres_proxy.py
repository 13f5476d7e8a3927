"""What lies between a program and its PostgreSQL: counts statements, and breaks connections.

A socket that programs connect to as if it were the server's. It passes on what both sides say, one
statement at a time, and asks before a statement reaches the server, when it has, and before the
reply comes back: so that a process is killed, or its connection lost, at exactly that moment. It
can also be silent, as a network that is cut: nothing goes through and nothing is closed.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit, urlunsplit

import psutil
from attrs import define, frozen

_SOCKET = ".s.PGSQL.5432"
_CANCEL = 80877102
_LENGTH = struct.Struct("!i")
_PEER = struct.Struct("3i")
_ENDS_A_STATEMENT = b"QSHFdcf"
"""Messages of a program after which the server answers, or that are data of a copy."""
_AT_ONCE = b"GWHA"
"""Messages of the server that a program must hear before the statement is done."""


class Moment(Enum):
    """Where a statement is when the proxy asks.

    Attributes:
        BEFORE: The server has not heard of it.
        SENT: The server has it, and has not answered.
        DONE: The server has done it; the program does not know.
    """

    BEFORE = "before"
    SENT = "sent"
    DONE = "done"


@frozen
class Statement:
    """A statement on its way.

    Attributes:
        pid: The process that sent it.
        number: Its place among all that this proxy has seen, from 1.
        text: Its SQL, as far as it is known: of one prepared earlier, what was prepared then.
    """

    pid: int
    number: int
    text: str


Lose = Callable[[Statement, Moment], bool]
"""Whether the connection ends here; it may kill the process first."""


def passes(statement: Statement, moment: Moment) -> bool:
    """Let everything through."""
    del statement, moment
    return False


@define
class _Line:
    """One program's connection to the server."""

    pid: int
    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    pending: Statement | None = None
    held: bytes = b""

    def close(self) -> None:
        self.client.close()
        self.server.close()


class PostgresProxy:
    """A server's other door. Attributes may be set at any time, from any thread.

    Args:
        url: The server's own address.
        place: A short path to a folder for the socket.

    Attributes:
        url: The address through this door.
        lose: Asked at each moment of each statement.
        statements: How many there were.
        processes: Which process each backend of the server serves, or did.
    """

    def __init__(self, url: str, place: Path) -> None:
        self.url = with_host(url, place)
        self.lose: Lose = passes
        self._server = Path(parse_qs(urlsplit(url).query)["host"][0]) / _SOCKET
        self._place = place / _SOCKET
        self.statements = 0
        self.processes: dict[int, int] = {}
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy")
        self._silent: Set[int] = frozenset()
        self._changed: asyncio.Event | None = None
        self._lines: set[asyncio.Task[None]] = set()

    def __enter__(self) -> PostgresProxy:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _listen(self) -> None:
        self._changed = asyncio.Event()
        self._door = await asyncio.start_unix_server(self._meet, self._place)

    async def _end(self) -> None:
        self._door.close()
        for line in self._lines:
            line.cancel()
        await asyncio.gather(*self._lines, return_exceptions=True)

    @contextmanager
    def losing(self, lose: Lose) -> Iterator[None]:
        """Ask this for the block, and let everything through after it."""
        self.lose = lose
        try:
            yield
        finally:
            self.lose = passes

    def silence(self, pids: Set[int]) -> None:
        """Pass on nothing of these processes and their children, and close nothing.

        Args:
            pids: Which; none: the network is whole again.
        """

        def change() -> None:
            assert self._changed is not None
            self._silent = frozenset(pids)
            self._changed.set()
            self._changed = asyncio.Event()

        self._loop.call_soon_threadsafe(change)

    # ------------------------------------------------------------------------------ a connection

    def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = self._loop.create_task(self._serve(reader, writer))
        self._lines.add(line)
        line.add_done_callback(self._lines.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        door = writer.get_extra_info("socket")
        credentials = door.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _PEER.size)
        pid = _PEER.unpack(credentials)[0]
        server: asyncio.StreamWriter | None = None
        try:
            await self._heard(pid)
            answers, server = await asyncio.open_unix_connection(self._server)
            line = _Line(pid, writer, server)
            pumps = [
                asyncio.ensure_future(self._ask(line, reader)),
                asyncio.ensure_future(self._answer(line, answers)),
            ]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
        except OSError:
            return  # the server is not there: the program sees its connection end
        finally:
            writer.close()
            if server is not None:
                server.close()

    async def _heard(self, pid: int) -> None:
        """Wait until what a process says goes through."""
        while self._silent and self._is_silent(pid):
            assert self._changed is not None
            await self._changed.wait()

    def _is_silent(self, pid: int) -> bool:
        with suppress(psutil.Error):
            return pid in self._silent or psutil.Process(pid).ppid() in self._silent
        return pid in self._silent

    async def _ask(self, line: _Line, reader: asyncio.StreamReader) -> None:
        """Pass on what the program says."""
        with suppress(asyncio.IncompleteReadError, OSError):
            start = await _body(reader)
            line.server.write(start)
            if _LENGTH.unpack_from(start, 4)[0] == _CANCEL:
                await line.server.drain()
                return
            said, text = b"", ""
            prepared: dict[bytes, str] = {}
            while True:
                kind = await reader.readexactly(1)
                body = await _body(reader)
                said += kind + body
                text = _text(kind, body[4:], prepared) or text
                if kind not in _ENDS_A_STATEMENT:
                    if kind == b"X":
                        line.server.write(said)
                        await line.server.drain()
                        return
                    continue
                await self._heard(line.pid)
                if kind in b"QS":
                    self.statements += 1
                    statement = Statement(line.pid, self.statements, text)
                    if self.lose(statement, Moment.BEFORE):
                        return
                    line.pending = statement
                line.server.write(said)
                await line.server.drain()
                if kind in b"QS" and self.lose(statement, Moment.SENT):
                    return
                said, text = b"", ""

    async def _answer(self, line: _Line, answers: asyncio.StreamReader) -> None:
        """Pass on what the server says: of a statement all at once, when it is done."""
        with suppress(asyncio.IncompleteReadError, OSError):
            while True:
                kind = await answers.readexactly(1)
                body = await _body(answers)
                line.held += kind + body
                if kind == b"K":
                    self.processes[_LENGTH.unpack_from(body, 4)[0]] = line.pid
                if line.pending is not None:
                    if kind == b"Z":
                        if self.lose(line.pending, Moment.DONE):
                            return
                        line.pending = None
                    elif kind not in _AT_ONCE:
                        continue
                await self._heard(line.pid)
                line.client.write(line.held)
                line.held = b""
                await line.client.drain()


async def _body(reader: asyncio.StreamReader) -> bytes:
    length = await reader.readexactly(_LENGTH.size)
    return length + await reader.readexactly(_LENGTH.unpack(length)[0] - _LENGTH.size)


def _text(kind: bytes, body: bytes, prepared: dict[bytes, str]) -> str | None:
    """Return the SQL that a message is about, if it is about one."""
    if kind == b"Q":
        return body[:-1].decode()
    if kind == b"P":
        name, query, _types = body.split(b"\0", 2)
        prepared[name] = query.decode()
        return prepared[name]
    if kind == b"B":
        return prepared.get(body.split(b"\0", 2)[1])
    return None


def with_host(url: str, host: Path | str) -> str:
    """Return a database's address by way of another host or folder."""
    return urlunsplit(urlsplit(url)._replace(query=f"host={quote(str(host))}"))
