"""The limits on questions, as a client reads them in the schema."""

from __future__ import annotations

from pathlib import Path

import pytest
from mcp import Client
from mcp_types import TextContent

from agentforge_sessions.entrypoints.mcp_server.calls import Workers
from agentforge_sessions.entrypoints.mcp_server.server import HarnessServer
from agentforge_sessions.entrypoints.mcp_server.tools.question_tools import QuestionTools
from agentforge_sessions.questions import QuestionsConfig, QuestionSessions
from tests.support.mcp_processes import ASKED

pytestmark = pytest.mark.anyio


async def test_the_schema_has_the_configured_limits(tmp_path: Path) -> None:
    config = QuestionsConfig(max_questions=3, min_options=1, max_options=7, max_text_chars=100)
    tools = QuestionTools(sessions=QuestionSessions(tmp_path, config=config), workers=Workers())
    async with Client(HarnessServer(tools.tools())) as client:
        ask = next(
            one for one in (await client.list_tools()).tools if one.name == "ask_user_questions"
        )
        questions = ask.input_schema["properties"]["questions"]
        assert (questions["minItems"], questions["maxItems"]) == (1, 3)
        question = ask.input_schema["$defs"]["QuestionArgument"]["properties"]
        assert (question["options"]["minItems"], question["options"]["maxItems"]) == (1, 7)
        assert question["prompt"]["maxLength"] == 100
        (one,) = ASKED["questions"]
        refused = await client.call_tool("ask_user_questions", {"questions": [one] * 4})
    (content,) = refused.content
    assert isinstance(content, TextContent)
    assert "max_questions (3)" in content.text
