"""What a worker of the fleet takes from its project's configuration."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.store import PostgresStore
from agentforge_sessions.harness import SessionManager
from agentforge_sessions.wiring.fleet import SessionRunners


def test_briefings_of_its_agents_show_what_the_configuration_says(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    configuration = tmp_path / "config.toml"
    configuration.write_text('[briefing]\nshows = ["metadata"]\n')
    monkeypatch.setenv("AGENTFORGE_CONFIG", str(configuration))
    with_store = PostgresStore(database, tmp_path / "here")
    session = SessionManager(with_store).create(title="A title", metadata={"owner": "ops"})
    runners = SessionRunners(database.url, tmp_path / "fleet")
    for manager in (runners.plain_manager(), runners.manager_of(session.session_id, 1)):
        manager.open(session.session_id)
        assert '{"owner": "ops"}' in manager.briefing()
        assert "A title" not in manager.briefing()
