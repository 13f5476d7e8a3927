"""Work that began on one machine is taken up on another, over the store that both share."""

from __future__ import annotations

from pathlib import Path

from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.sessions.session_repository import PostgresSessions
from agentforge_sessions.harness.views.conversations import conversations
from tests.e2e.test_take_up import Desk, worked


def machine(folder: Path, database: Database) -> Desk:
    """Return a person's desk with a home, a project and a state of its own."""
    desk = Desk(folder)
    desk.environment["AGENTFORGE_STORE"] = database.url
    desk.put("claude-code", "opencode")
    return desk


def test_another_machine_takes_a_session_of_the_store_up_and_the_first_takes_it_back(
    tmp_path: Path, database: Database
) -> None:
    store = PostgresSessions(database)
    one, other = machine(tmp_path / "one", database), machine(tmp_path / "other", database)
    worked(one)
    (session_id,) = store.list_sessions()

    other.session_id = session_id
    assert "is not on this machine; begin one" in other.refused(session_id)
    found = other.resumed(session_id, "--in", "claude-code")
    assert found == [str(other.project), "none", "none", "--", "Write the parser"]
    start = other.hook("claude-code", "SessionStart", conversation="talk-2", source="startup")
    assert "Write the parser" in start
    other.hook("claude-code", "Stop", conversation="talk-2", last_assistant_message="It is done.")

    assert one.resumed(session_id, "--in", "opencode") == [str(one.project), "none", "none"]
    back = one.hook("claude-code", "SessionStart", conversation="talk-3", source="startup")
    assert "It is done." in back
    session = store.load(session_id)
    assert session is not None
    talks = [each.agent_session for each in conversations(session.history)]
    assert talks == ["talk-1", "talk-2", "talk-3"]
    assert list(store.list_sessions()) == [session_id]
