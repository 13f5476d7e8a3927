"""Servers in directories of their own, and the ways to connect to them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.mcp_processes import WAYS, HttpProcess, Place, Way, start_http


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def place(tmp_path: Path) -> Place:
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
