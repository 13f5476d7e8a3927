"""Servers that offer some of the tools."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from mcp import Client, MCPError

from agentforge_sessions.entrypoints.cli.main import run
from agentforge_sessions.entrypoints.mcp_server import EVERYTHING, Offer, ToolSet, UnknownToolSet
from agentforge_sessions.entrypoints.mcp_server.server import HarnessServer
from agentforge_sessions.entrypoints.mcp_server.serving import McpPlaces, McpServices, all_tools

pytestmark = pytest.mark.anyio

READING = {"session_list", "session_show", "session_brief"}
WORKSPACES = {"session_checkpoints", "session_diff"}
QUESTIONS = {"ask_user_questions", "get_answered_questions"}


@asynccontextmanager
async def client_of(base: Path, offer: Offer) -> AsyncIterator[Client]:
    services = McpServices.at(McpPlaces(sessions=base / "s", questions=base / "q"))
    async with Client(HarnessServer(all_tools(services, offer))) as client:
        yield client


async def names(client: Client) -> set[str]:
    return {one.name for one in (await client.list_tools()).tools}


async def test_a_server_that_only_reads_offers_what_changes_nothing(tmp_path: Path) -> None:
    async with client_of(tmp_path, Offer(read_only=True)) as client:
        assert await names(client) == READING | WORKSPACES | {"get_answered_questions"}
        with pytest.raises(MCPError, match="Unknown tool: 'session_create'"):
            await client.call_tool("session_create", {"goal": "g"})
        assert "session_create" not in (client.instructions or "")
        assert "changes nothing" in (client.instructions or "")


@pytest.mark.parametrize(
    ("sets", "some", "none"),
    [
        ("questions", QUESTIONS, READING | {"run_code", "session_create"}),
        ("code", {"run_code"}, READING | QUESTIONS),
        ("sessions", READING | {"session_create", "session_record"}, QUESTIONS | {"run_code"}),
        ("sessions, questions", READING | QUESTIONS, {"run_code"} | WORKSPACES),
        ("workspaces", WORKSPACES | {"session_apply"}, READING | QUESTIONS | {"run_code"}),
    ],
)
async def test_a_server_offers_the_sets_it_was_started_with(
    tmp_path: Path, sets: str, some: set[str], none: set[str]
) -> None:
    async with client_of(tmp_path, Offer(sets=ToolSet.named(sets))) as client:
        offered = await names(client)
        told = client.instructions or ""
    assert some <= offered
    assert not none & offered
    assert not [name for name in none if name in told]


async def test_without_a_choice_everything_is_offered(tmp_path: Path) -> None:
    async with client_of(tmp_path, EVERYTHING) as client:
        assert len(await names(client)) == 22


@pytest.mark.parametrize("given", ["all", "sessions,quests", "", ","])
def test_a_set_that_does_not_exist_is_refused(
    given: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(UnknownToolSet):
        ToolSet.named(given)
    assert run(["mcp", "--tools", given]) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "sessions, code, questions, workspaces" in told
