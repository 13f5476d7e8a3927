"""The MCP server on a database."""

from __future__ import annotations

from pathlib import Path

import anyio
from mcp_types import TextResourceContents

from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.sessions.session_repository import PostgresSessions
from tests.support.mcp_processes import COMMAND, Place, Way, error_of, values_of


def test_clients_lead_sessions_of_the_store(database: Database, tmp_path: Path) -> None:
    place = Place(tmp_path, [*COMMAND, "--store", database.url])

    async def lead() -> str:
        async with Way(place, "stdio", "auto").connected() as client:
            made = values_of(await client.call_tool("session_create", {"goal": "a goal"}))
            session_id = str(made["session_id"])
            spent = {"session_id": session_id, "tokens": 5}
            values_of(await client.call_tool("session_record_tokens", spent))
            unknown = await client.call_tool("session_show", {"session_id": "nosuch"})
            assert error_of(unknown)[0] == "SessionNotFound"
            listed = values_of(await client.call_tool("session_list", {}))
            assert [one["session_id"] for one in listed["sessions"]] == [session_id]
            (content,) = (
                await client.read_resource(f"agentforge://sessions/{session_id}/session.yaml")
            ).contents
            assert isinstance(content, TextResourceContents)
            assert "a goal" in content.text
            return session_id

    session_id = anyio.run(lead)
    session = PostgresSessions(database).load(session_id)
    assert session is not None
    assert (session.goal, session.token_budget.tokens_used) == ("a goal", 5)
    assert not (tmp_path / ".agentforge" / "sessions" / session_id / "session.yaml").exists()
