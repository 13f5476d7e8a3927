"""What clients read of sessions without a tool, and the prompt that takes one up."""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from mcp import Client, MCPError
from mcp_types import (
    BlobResourceContents,
    PromptReference,
    ResourceTemplateReference,
    TextContent,
    TextResourceContents,
)

from agentforge_sessions.base.data_folder import configuration_folder
from agentforge_sessions.entrypoints.mcp_server import Offer, ToolSet
from agentforge_sessions.entrypoints.mcp_server.serving import McpPlaces, McpServices, server_of
from agentforge_sessions.harness import SessionManager, SessionStore
from agentforge_sessions.harness.domain.history_events import AgentPrompted
from tests.support.mcp_processes import text_of

pytestmark = pytest.mark.anyio

ROOT = "agentforge://sessions"
MISSING = "session_20260101_000000_00000000"


@pytest.fixture
def services(store: SessionStore, tmp_path: Path) -> McpServices:
    return McpServices.at(McpPlaces(sessions=store.base_path, questions=tmp_path / "q"))


@pytest.fixture
async def client(services: McpServices) -> AsyncIterator[Client]:
    async with Client(server_of(services)) as connected:
        yield connected


async def briefings_of(client: Client, session_id: str) -> list[str]:
    """A session's briefing by the tool, the resource and the prompt."""
    by_tool = await client.call_tool("session_brief", {"session_id": session_id})
    prompt = await client.get_prompt("take_up_session", {"session_id": session_id})
    prompted = prompt.messages[0].content
    assert isinstance(prompted, TextContent)
    read = await text_at(client, f"{ROOT}/{session_id}/briefing")
    return [text_of(by_tool), read, prompted.text]


async def test_every_briefing_shows_what_the_configuration_says(
    store: SessionStore, tmp_path: Path
) -> None:
    session_id = SessionManager(store).create(title="A title", metadata={"owner": "ops"}).session_id
    places = McpPlaces(
        sessions=store.base_path, questions=tmp_path / "q", briefing_shows=("metadata",)
    )
    async with Client(server_of(McpServices.at(places))) as client:
        briefings = await briefings_of(client, session_id)
    for text in briefings:
        assert 'Metadata: “{"owner": "ops"}”' in text
        assert "A title" not in text


@pytest.fixture
def manager(store: SessionStore) -> SessionManager:
    manager = SessionManager(store)
    session = manager.create(goal="An interval scheduler", initial_phase="red")
    workspace = store.workspace_path(session.session_id)
    (workspace / "src").mkdir(parents=True)
    (workspace / "src" / "a b.py").write_text("print('ä')\n")
    (workspace / "image").write_bytes(b"\xff\x00")
    (workspace / "other").write_text("not recorded")
    os.symlink("/etc/passwd", workspace / "link")
    manager.record(
        "files_edited",
        artifacts=[(path, "created") for path in ("src/a b.py", "image", "link", "missing")],
    )
    return manager


def id_of(manager: SessionManager) -> str:
    assert manager.current_session is not None
    return manager.current_session.session_id


async def text_at(client: Client, uri: str) -> str:
    (content,) = (await client.read_resource(uri)).contents
    assert isinstance(content, TextResourceContents)
    return content.text


async def test_a_session_is_read_as_its_file_its_briefing_and_its_report(
    client: Client, manager: SessionManager, store: SessionStore
) -> None:
    one = f"{ROOT}/{id_of(manager)}"
    on_disk = store.session_path(id_of(manager)).read_text()
    assert await text_at(client, f"{one}/session.yaml") == on_disk
    assert "An interval scheduler" in await text_at(client, f"{one}/briefing")
    assert (await text_at(client, f"{one}/report")).lower().startswith("<!doctype html>")
    templates = {
        template.uri_template: template.mime_type
        for template in (await client.list_resource_templates()).resource_templates
    }
    assert templates == {
        f"{ROOT}/{{session_id}}/session.yaml": "application/yaml",
        f"{ROOT}/{{session_id}}/briefing": "text/markdown",
        f"{ROOT}/{{session_id}}/report": "text/html",
        f"{ROOT}/{{session_id}}/events/{{after}}": "application/json",
        "agentforge://events/{after}": "application/json",
        f"{ROOT}/{{session_id}}/artifacts/{{+path}}": "application/octet-stream",
    }


async def test_events_are_read_behind_a_cursor_and_none_twice(
    client: Client, manager: SessionManager, store: SessionStore
) -> None:
    async def read(uri: str) -> tuple[list[str], str]:
        found = json.loads(await text_at(client, uri))
        return [one["type"] for one in found["events"]], found["cursor"]

    own = f"{ROOT}/{id_of(manager)}/events"
    for root in (own, "agentforge://events"):
        names, cursor = await read(f"{root}/begin")
        assert names[:2] == ["session.created", "session.recorded"]
        _, now = await read(f"{root}/now")
        manager.pause()
        manager.resume()
        for after in (cursor, now):
            names, later = await read(f"{root}/{after}")
            assert names == ["session.paused", "session.resumed"]
            assert (await read(f"{root}/{later}"))[0] == []
    SessionManager(store).create()
    assert (await read(f"{own}/{(await read(f'{own}/now'))[1]}"))[0] == []


async def test_more_events_than_are_given_at_once_stand_behind_the_cursor(
    client: Client, manager: SessionManager
) -> None:
    with manager.changes():
        for number in range(300):
            manager.add_history(f"note{number}")
    first = json.loads(await text_at(client, "agentforge://events/begin"))
    rest = json.loads(await text_at(client, f"agentforge://events/{first['cursor']}"))
    assert (len(first["events"]), len(rest["events"])) == (200, 102)
    assert len({one["id"] for one in first["events"] + rest["events"]}) == 302


async def test_what_is_no_cursor_is_an_error_of_the_protocol(client: Client) -> None:
    with pytest.raises(MCPError, match="is no cursor of"):
        await client.read_resource("agentforge://events/nowhere")


async def test_artifacts_are_read_as_text_or_as_bytes(
    client: Client, manager: SessionManager
) -> None:
    one = f"{ROOT}/{id_of(manager)}/artifacts"
    assert await text_at(client, f"{one}/src/a%20b.py") == "print('ä')\n"
    (content,) = (await client.read_resource(f"{one}/image")).contents
    assert isinstance(content, BlobResourceContents)
    assert content.blob == "/wA="


@pytest.mark.parametrize(
    "path",
    ["other", "link", "missing", "../session.yaml", "%2e%2e/session.yaml", "/etc/passwd", "src"],
)
async def test_nothing_but_recorded_files_of_the_workspace_is_read(
    client: Client, manager: SessionManager, path: str
) -> None:
    with pytest.raises(MCPError):
        await client.read_resource(f"{ROOT}/{id_of(manager)}/artifacts/{path}")


async def test_a_file_that_is_not_there_is_an_error_with_fields(
    client: Client, manager: SessionManager
) -> None:
    with pytest.raises(MCPError) as caught:
        await client.read_resource(f"{ROOT}/{id_of(manager)}/artifacts/missing")
    described = caught.value.error.data["agentforge/error"]
    assert described["type"] == "ArtifactNotFound"
    assert described["fields"] == {"session_id": id_of(manager), "path": "missing"}


@pytest.mark.parametrize("session_id", [MISSING, "..", "%2e%2e", "a%00b", "x"])
@pytest.mark.parametrize("what", ["session.yaml", "briefing", "report", "artifacts/a"])
async def test_what_is_no_session_has_no_resources(
    client: Client, manager: SessionManager, session_id: str, what: str
) -> None:
    with pytest.raises(MCPError):
        await client.read_resource(f"{ROOT}/{session_id}/{what}")


async def test_a_missing_session_is_named_with_what_to_do(client: Client) -> None:
    with pytest.raises(MCPError, match="session_list"):
        await client.read_resource(f"{ROOT}/{MISSING}/briefing")


async def test_the_prompt_takes_up_a_session(client: Client, manager: SessionManager) -> None:
    (prompt,) = (await client.list_prompts()).prompts
    assert prompt.name == "take_up_session"
    got = await client.get_prompt("take_up_session", {"session_id": id_of(manager)})
    (message,) = got.messages
    assert isinstance(message.content, TextContent)
    assert "An interval scheduler" in message.content.text
    assert id_of(manager) in message.content.text


async def test_ids_are_completed_the_last_changed_first(
    client: Client, store: SessionStore, manager: SessionManager
) -> None:
    other = SessionManager(store).create(goal="g").session_id
    manager.record("noted")
    refs = (
        PromptReference(name="take_up_session"),
        ResourceTemplateReference(uri=f"{ROOT}/{{session_id}}/briefing"),
    )
    for ref in refs:
        result = await client.complete(ref, {"name": "session_id", "value": "session_"})
        assert result.completion.values == [id_of(manager), other]
        one = await client.complete(ref, {"name": "session_id", "value": other})
        assert one.completion.values == [other]
        nothing = await client.complete(ref, {"name": "path", "value": ""})
        assert nothing.completion.values == []


async def test_a_server_of_questions_alone_has_no_sessions_to_read(services: McpServices) -> None:
    offer = Offer(sets=frozenset({ToolSet.QUESTIONS}))
    async with Client(server_of(services, offer)) as client:
        assert (await client.list_resource_templates()).resource_templates == []
        assert (await client.list_prompts()).prompts == []


async def test_no_door_of_the_server_shows_what_is_hidden_from_any_program(
    store: SessionStore, client: Client
) -> None:
    """The server does not know which program reads."""
    manager = SessionManager(store)
    session_id = manager.create(goal="secret goal").session_id
    manager.record(AgentPrompted(program="claude-code", agent_session="one", text="secret prompt"))
    path = configuration_folder() / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('[privacy.codex]\nhides = ["claude-code"]\n')
    try:
        briefings = await briefings_of(client, session_id)
    finally:
        path.unlink()
    for text in briefings:
        assert "secret" not in text
        assert "as the person's [privacy] says" in text
