from __future__ import annotations

import os
import uuid
from collections.abc import Iterator

import pytest

from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.schema import migrate
from tests.support.postgres import PostgresServer, postgres_server


@pytest.fixture(scope="session")
def server() -> Iterator[PostgresServer]:
    """The server of this test run."""
    with postgres_server(os.environ.get("PYTEST_XDIST_TESTRUNUID") or uuid.uuid4().hex) as running:
        yield running


@pytest.fixture(scope="session")
def migrated(server: PostgresServer) -> str:
    """A database with the tables and nothing in them, to be copied."""
    name = server.new_database()
    database = Database(server.url_of(name))
    migrate(database)
    database.close()
    return name


@pytest.fixture
def database(server: PostgresServer, migrated: str) -> Iterator[Database]:
    """A store of the test's own rows; who changes its tables or settings takes `fresh`."""
    with server.lent(migrated) as url, Database(url) as database:
        yield database


@pytest.fixture
def fresh(server: PostgresServer, migrated: str) -> Iterator[Database]:
    """A store whose tables and settings the test may change."""
    name = server.new_database(migrated)
    with Database(server.url_of(name)) as database:
        yield database
    server.drop(name)


@pytest.fixture
def empty(server: PostgresServer) -> Iterator[Database]:
    """A database without any table."""
    name = server.new_database()
    with Database(server.url_of(name)) as database:
        yield database
    server.drop(name)
