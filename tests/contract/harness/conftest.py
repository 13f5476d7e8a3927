from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.store import PostgresStore
from agentforge_sessions.harness import LocalSessions, SessionStore
from agentforge_sessions.testing.memory_sessions import MemorySessions


@pytest.fixture(params=["files", "memory", "postgres"])
def opened(request: pytest.FixtureRequest, base: Path) -> Callable[[], LocalSessions]:
    """Opens the store, each time as another process does."""
    if request.param == "files":
        return lambda: SessionStore(base)
    if request.param == "memory":
        first = MemorySessions(base)
        return lambda: MemorySessions(base, first.shelf)
    database: Database = request.getfixturevalue("database")
    return lambda: PostgresStore(database, base)
