"""The real server as a process of its own, and the official client at its other end."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import anyio
import pytest
from attrs import define, field, frozen
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import CallToolResult, TextContent

from agentforge_sessions.harness import SessionStore
from agentforge_sessions.questions import QuestionSessions, SessionStatus
from tests.support.python_path import python_path
from tests.support.signals import usual_signals
from tests.support.soak import SOAKING

_Found = TypeVar("_Found")

ROOT: Final = Path(__file__).parents[2]
DEADLINE_S: Final = 60.0
COMMAND: Final = [sys.executable, "-m", "agentforge_sessions.entrypoints.cli"]
ASKED: Final = {
    "questions": [
        {
            "prompt": "Which database?",
            "title": "Database",
            "options": [
                {"label": "PostgreSQL", "description": "what runs already"},
                {"label": "SQLite"},
            ],
        }
    ]
}
ACCEPT: Final = {"accept": "application/json, text/event-stream"}
"""The header without which a server answers nothing over HTTP."""
INITIALIZE: Final[dict[str, Any]] = {
    "jsonrpc": "2.0",
    "id": 0,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "raw", "version": "0"},
    },
}
"""The first message of a session of 2025."""


def environment() -> dict[str, str]:
    """What a server or client of these tests is started with."""
    return {**os.environ, "PYTHONPATH": python_path(ROOT), "PYTHONWARNINGS": "default"}


def wait_until(look: Callable[[], _Found | None], what: str) -> _Found:
    """Look until there is something; on a slow machine this takes as long as it takes."""
    ends = time.monotonic() + DEADLINE_S
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > ends:
            pytest.fail(f"waited for {what} in vain")
        time.sleep(0.02)


async def eventually(look: Callable[[], _Found | None], what: str) -> _Found:
    """As `wait_until`, for tests on an event loop."""
    with anyio.fail_after(DEADLINE_S):
        while True:
            found = await anyio.to_thread.run_sync(look)
            if found:
                return found
            await anyio.sleep(0.02)
    pytest.fail(f"waited for {what} in vain")


@frozen
class Place:
    """A directory that servers are started in, and the command that they are started with."""

    directory: Path
    command: Sequence[str] = COMMAND
    offer: Sequence[str] = ("--all",)

    @property
    def store(self) -> SessionStore:
        return SessionStore(self.directory / ".agentforge" / "sessions")

    @property
    def questions(self) -> QuestionSessions:
        return QuestionSessions(self.directory / ".agentforge" / "questions")

    def waiting(self) -> str | None:
        """The id of a question session that waits, if there is one."""
        pending = self.questions.pending()
        return pending[0].session_id if pending else None

    def waiting_now(self) -> str:
        return wait_until(self.waiting, "a question")

    def status(self, session_id: str) -> SessionStatus:
        return self.questions.get(session_id).status

    def wait_for(self, session_id: str, status: SessionStatus) -> None:
        wait_until(lambda: self.status(session_id) is not SessionStatus.PENDING, "an end")
        assert self.status(session_id) is status

    def started(
        self, *arguments: str, through: Sequence[str] = (), **options: Any
    ) -> subprocess.Popen[bytes]:
        """Start `agentforge mcp` with pipes at its ends, through another command if need be."""
        with usual_signals():
            return subprocess.Popen(
                [*through, *self.command, *self._words(arguments)],
                cwd=self.directory,
                env=environment(),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                **{"stdin": subprocess.PIPE, **options},
            )

    def _words(self, arguments: Sequence[str]) -> list[str]:
        before = list(arguments[: arguments.index("mcp")]) if "mcp" in arguments else []
        after = arguments[arguments.index("mcp") + 1 :] if "mcp" in arguments else arguments
        return [*before, "mcp", *self.offer, *after]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.command, *arguments],
            cwd=self.directory,
            env=environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )

    def stdio(self) -> StdioServerParameters:
        """How the official client starts the server."""
        return StdioServerParameters(
            command=self.command[0],
            args=[*self.command[1:], "mcp", *self.offer],
            env={"PYTHONPATH": python_path(ROOT)},
            cwd=self.directory,
        )


class Wire:
    """A server over pipes that a test holds the ends of, with the handshake of 2025 made."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.say(INITIALIZE)
        assert self.hear()["id"] == 0
        self.say({"method": "notifications/initialized"})

    def say(self, message: dict[str, Any] | bytes) -> None:
        assert self.process.stdin is not None
        if isinstance(message, dict):
            message = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self.process.stdin.write(message + b"\n")
        self.process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        found = json.loads(line)
        assert isinstance(found, dict)
        return found

    def call(self, request_id: int, tool: str, arguments: dict[str, Any]) -> None:
        params = {"name": tool, "arguments": arguments}
        self.say({"id": request_id, "method": "tools/call", "params": params})

    def ended(self) -> tuple[int, str]:
        """Wait for the end; the exit code and what is on standard error."""
        assert self.process.stderr is not None
        errors = self.process.stderr.read().decode()
        return self.process.wait(DEADLINE_S), errors


@contextlib.contextmanager
def ended_anyhow(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Leave no process and no open pipe behind."""
    try:
        yield
    finally:
        process.kill()
        process.wait(DEADLINE_S)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


@define
class HttpProcess:
    """A server that listens on loopback."""

    process: subprocess.Popen[bytes]
    url: str

    @property
    def port(self) -> int:
        return int(self.url.split(":")[2].split("/")[0])

    def stop(self, number: int = signal.SIGTERM) -> int:
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(DEADLINE_S)
        finally:
            for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
                if stream is not None:
                    stream.close()


def start_http(place: Place, *arguments: str) -> HttpProcess:
    with open(place.directory / "server.log", "wb") as log:
        process = subprocess.Popen(
            [*place.command, "--verbose", "mcp", "--http", "--port", "0", "--json", *arguments],
            cwd=place.directory,
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
        )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, (place.directory / "server.log").read_text()
    return HttpProcess(process, json.loads(line)["url"])


EITHER: Final = (("stdio", "auto"), ("http", "legacy"))
"""Each transport and each handshake once."""
BY_STDIO: Final = EITHER if SOAKING else EITHER[:1]
BY_HTTP: Final = EITHER if SOAKING else EITHER[1:]
"""One of the two, for what depends on neither; `make soak` goes both ways."""
WAYS: Final = (*EITHER, ("stdio", "legacy"), ("http", "auto")) if SOAKING else EITHER
"""Transports, and the handshakes of the protocol: that of 2025 and that of 2026."""


@frozen
class Way:
    """A transport and a handshake, over which clients connect to servers in one directory."""

    place: Place
    transport: str
    mode: str
    url: str | None = None
    errors: list[str] = field(factory=list)

    def connected(self, **options: Any) -> AbstractAsyncContextManager[Client]:
        return self._connected(options)

    @asynccontextmanager
    async def _connected(self, options: dict[str, Any]) -> AsyncIterator[Client]:
        if self.url is not None:
            async with Client(self.url, mode=self.mode, **options) as client:
                yield client
            return
        with open(self.place.directory / "server.log", "a") as log:
            transport = stdio_client(self.place.stdio(), errlog=log)
            async with Client(transport, mode=self.mode, **options) as client:
                yield client


def text_of(result: CallToolResult) -> str:
    """The one text of a result."""
    (content,) = result.content
    assert isinstance(content, TextContent)
    return content.text


def values_of(result: CallToolResult) -> dict[str, Any]:
    """The values of a result that is no error."""
    assert not result.is_error, text_of(result)
    assert isinstance(result.structured_content, dict)
    return result.structured_content


def error_of(result: CallToolResult) -> tuple[str, str]:
    """The type and the text of an error."""
    assert result.is_error
    assert result.structured_content is None
    text = text_of(result)
    assert "Traceback" not in text
    assert 'File "' not in text
    assert result.meta is not None
    return result.meta["agentforge/error"]["type"], text
