from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentforge_sessions.fleet.postgres.database import Database
from tests.contract.conftest import database, empty, migrated, server
from tests.support.fleet import Fleet, fleet_of

__all__ = ["database", "empty", "migrated", "server"]


@pytest.fixture
def fleet(database: Database, tmp_path: Path) -> Iterator[Fleet]:
    with fleet_of(database, tmp_path) as fleet:
        yield fleet
