"""Servers in directories of their own, and the ways to connect to them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.support.mcp_processes import (
    COMMAND,
    WAYS,
    HttpProcess,
    Place,
    Way,
    environment,
    start_http,
)
from tests.support.soak import SOAKING
from tests.support.warm_python import warm_python

IMPORTED = (
    *(
        "agentforge_sessions.entrypoints.cli.main",
        "agentforge_sessions.wiring.bootstrap",
        "agentforge_sessions.entrypoints.mcp_server.transports.http",
        "agentforge_sessions.entrypoints.mcp_server.serving",
    ),
    *(
        "agentforge_sessions.wiring.phases.question_channel",
        "agentforge_sessions.wiring.workspaces.session_results",
    ),
    "agentforge_sessions.entrypoints.cli.commands.serve",
    "agentforge_sessions.sandbox.sandbox",
    "agentforge_sessions.sandbox.interpreters.process_pool",
    "agentforge_sessions.repository.apply.apply",
    "agentforge_sessions.entrypoints.cli.output.logs",
    *("anyio._backends._asyncio", "anyio._core._signals", "uvicorn.lifespan.off"),
    *("typer.rich_utils", "typer._click.decorators", "rich.logging", "structlog"),
    *("encodings.idna", "encodings.utf_8_sig"),
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def warm() -> Iterator[Sequence[str]]:
    """Stands for Python, and has imported what servers need; on Linux, but for `make soak`."""
    if SOAKING or not hasattr(os, "pidfd_open"):
        yield COMMAND[:1]
        return
    with warm_python(*IMPORTED, env=environment()) as python:
        yield python


@pytest.fixture
def place(tmp_path: Path, warm: Sequence[str]) -> Place:
    """A directory whose servers are forked from a process that has imported everything."""
    return Place(tmp_path, (*warm, *COMMAND[1:]))


@pytest.fixture
def cold(tmp_path: Path) -> Place:
    """A directory whose servers are started as people and clients start them."""
    return Place(tmp_path)


@pytest.fixture
def http(place: Place) -> Iterator[HttpProcess]:
    """A server on a free port of 127.0.0.1."""
    server = start_http(place)
    try:
        yield server
    finally:
        assert server.stop() == 0, (place.directory / "server.log").read_text()


@pytest.fixture(params=WAYS, ids="-".join)
def way(request: pytest.FixtureRequest, place: Place) -> Way:
    transport, mode = request.param
    url = request.getfixturevalue("http").url if transport == "http" else None
    return Way(place, transport, mode, url)
