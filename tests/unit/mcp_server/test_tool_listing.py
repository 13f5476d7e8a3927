"""What clients read of the tools before they call one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from mcp import Client
from mcp_types import Tool as ToolListing

from agentforge_sessions.entrypoints.mcp_server.server import HarnessServer
from agentforge_sessions.entrypoints.mcp_server.serving import McpPlaces, McpServices, all_tools
from tests.unit.mcp_server.test_workspace_tools import CHANGES

WORKSPACES = (
    *("session_checkpoints", "session_diff", "session_rewind"),
    *("session_fork", "session_apply", "session_export"),
)
READ_ONLY = {
    *("session_list", "session_show", "session_brief", "get_answered_questions"),
    *("session_checkpoints", "session_diff"),
}
DESTRUCTIVE = {
    *("session_complete", "session_abort", "run_code"),
    *("session_rewind", "session_apply"),
}
OTHERS = {*CHANGES, "session_create", "ask_user_questions"} - DESTRUCTIVE
pytestmark = pytest.mark.anyio


@pytest.fixture
async def listed(tmp_path: Path) -> dict[str, ToolListing]:
    services = McpServices.at(McpPlaces(sessions=tmp_path / "s", questions=tmp_path / "q"))
    async with Client(HarnessServer(all_tools(services))) as client:
        assert client.server_info is not None
        assert client.server_info.name == "agentforge"
        assert "session_brief" in (client.instructions or "")
        return {one.name: one for one in (await client.list_tools()).tools}


def size(value: object) -> int:
    return len(json.dumps(value, separators=(",", ":")))


async def test_clients_read_what_each_tool_does_and_takes(
    listed: dict[str, ToolListing],
) -> None:
    assert set(listed) == READ_ONLY | DESTRUCTIVE | OTHERS
    for name, tool in listed.items():
        hints = tool.annotations
        assert hints is not None
        assert hints.read_only_hint == (name in READ_ONLY), name
        assert hints.destructive_hint == (name in DESTRUCTIVE), name
        assert hints.idempotent_hint == (name in READ_ONLY), name
        assert hints.open_world_hint == ("question" in name), name
        assert tool.input_schema["additionalProperties"] is False
        assert tool.output_schema is not None
        for field in tool.input_schema["properties"].values():
            assert field.get("description"), f"{name} has an argument without a description"


async def test_output_schemas_take_little_of_a_context(listed: dict[str, ToolListing]) -> None:
    workspaces = [listed.pop(name) for name in WORKSPACES]
    assert sum(size(one.output_schema) for one in listed.values()) < 9_000
    assert sum(size(one.input_schema) for one in listed.values()) < 11_000
    assert sum(size(one.output_schema) for one in workspaces) < 1_500
    assert sum(size(one.input_schema) for one in workspaces) < 5_000


async def test_an_output_schema_names_every_value_of_the_result(
    listed: dict[str, ToolListing],
) -> None:
    schema = listed["session_show"].output_schema
    assert schema is not None
    assert schema["required"] == list(schema["properties"])
    assert schema["properties"] == {
        "session": {"type": "object"},
        "title": {"type": ["string", "null"]},
        "tags": {"type": "array"},
        "metadata": {"type": "object"},
        "parent_id": {"type": ["string", "null"]},
        "artifacts": {"type": "array"},
        "artifacts_total": {"type": "integer"},
        "history": {"type": "array"},
        "history_total": {"type": "integer"},
        "program": {"type": ["object", "null"]},
    }
    run = listed["run_code"].output_schema
    assert run is not None
    assert run["properties"]["exit_code"] == {"type": ["integer", "null"]}
    states = listed["session_brief"].output_schema
    assert states is not None
    assert states["properties"]["state"] == {
        "type": "string",
        "enum": ["active", "paused", "completed", "aborted"],
    }


async def test_schemas_have_no_titles_that_repeat_names(listed: dict[str, ToolListing]) -> None:
    question = listed["ask_user_questions"].input_schema["$defs"]["QuestionArgument"]
    assert question["properties"]["title"]["maxLength"] == 200  # an argument of that name
    for one in listed.values():
        assert '"title": "' not in json.dumps([one.input_schema, one.output_schema]), one.name
