from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.schema import migrate
from tests.contract.conftest import server
from tests.support.fleet_drills import watch_claims
from tests.support.own_postgres import OwnPostgres, own_postgres
from tests.support.postgres import PostgresServer
from tests.support.soak import SOAKING

__all__ = ["server"]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run drills of a whole fleet only where there is time for them."""
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here) and not SOAKING:
            item.add_marker(pytest.mark.skip("a drill of a fleet: `make soak` runs it"))


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder whose path is short enough for a socket, and which everyone may enter."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def prepared(own: OwnPostgres) -> None:
    """Give a server the tables, and have it note who takes which session."""
    with Database(own.url) as database:
        migrate(database)
    with psycopg.connect(own.url, autocommit=True) as direct:
        watch_claims(direct)


@pytest.fixture
def own(server: PostgresServer, short: Path) -> Iterator[OwnPostgres]:
    """A server of the test's own. (Its programs can be run by then.)"""
    del server
    with own_postgres(short / "own", ("max_connections=300", "shared_buffers=32MB")) as running:
        prepared(running)
        yield running
