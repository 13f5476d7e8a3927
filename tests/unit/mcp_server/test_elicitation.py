"""Questions shown by the client itself, beside the question channel: the first answer counts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest
from mcp import Client
from mcp.client import ClientRequestContext
from mcp_types import (
    CallToolResult,
    ElicitRequestFormParams,
    ElicitRequestParams,
    ElicitResult,
    Implementation,
)

from agentforge_sessions.entrypoints.mcp_server.calls import Workers
from agentforge_sessions.entrypoints.mcp_server.server import HarnessServer
from agentforge_sessions.entrypoints.mcp_server.tools.question_tools import QuestionTools
from agentforge_sessions.questions import QuestionSessions, SessionStatus, UserAnswer

pytestmark = pytest.mark.anyio

OPTIONS = [{"label": "PostgreSQL", "description": "runs already"}, {"label": "SQLite"}]
DATABASE: dict[str, Any] = {"prompt": "Which one?", "title": "Database", "options": OPTIONS}
ASKED = {"questions": [DATABASE, {**DATABASE, "title": "Backups", "multiSelect": True}]}


@pytest.fixture
def sessions(tmp_path: Path) -> QuestionSessions:
    return QuestionSessions(tmp_path)


Person = Callable[[ElicitRequestFormParams], Awaitable[ElicitResult]]


async def asked(
    sessions: QuestionSessions,
    person: Person,
    given: dict[str, Any] | None = None,
    *,
    name: str = "client",
) -> CallToolResult:
    async def show(_: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        assert isinstance(params, ElicitRequestFormParams)
        return await person(params)

    server = HarnessServer(QuestionTools(sessions=sessions, workers=Workers()).tools())
    with anyio.fail_after(60):
        who = Implementation(name=name, version="1")
        async with Client(
            server, mode="legacy", elicitation_callback=show, client_info=who
        ) as client:
            return await client.call_tool("ask_user_questions", given or ASKED)


def only(sessions: QuestionSessions) -> str:
    (session,) = sessions.list_sessions()
    return session.session_id


async def test_the_answers_of_a_form_are_those_of_the_questions(
    sessions: QuestionSessions,
) -> None:
    shown: list[ElicitRequestFormParams] = []

    async def fill_in(params: ElicitRequestFormParams) -> ElicitResult:
        shown.append(params)
        content = {"q1": "SQLite", "q1_own": "in one file", "q2": ["PostgreSQL", "SQLite"]}
        return ElicitResult(action="accept", content=content)

    result = await asked(sessions, fill_in)
    values = result.structured_content
    assert values["status"] == "completed"
    assert [
        (one["selected_option"], one["selected_options"], one["custom_text"])
        for one in values["answers"]
    ] == [("SQLite", None, "in one file"), (None, ["PostgreSQL", "SQLite"], None)]
    (form,) = shown
    assert "1. Which one?" in form.message
    assert "PostgreSQL: runs already" in form.message
    properties = form.requested_schema["properties"]
    assert properties["q1"] == {
        "type": "string",
        "title": "Database",
        "enum": ["PostgreSQL", "SQLite"],
    }
    assert properties["q2"]["items"] == {"type": "string", "enum": ["PostgreSQL", "SQLite"]}
    assert properties["q2_own"]["type"] == "string"
    assert "required" not in form.requested_schema


async def test_a_form_that_is_declined_rejects_the_questions(sessions: QuestionSessions) -> None:
    async def decline(_: ElicitRequestFormParams) -> ElicitResult:
        return ElicitResult(action="decline")

    result = await asked(sessions, decline)
    assert result.structured_content["status"] == "rejected"


async def test_a_client_that_declines_without_asking_anybody_rejects_nothing(
    sessions: QuestionSessions,
) -> None:
    async def decline(_: ElicitRequestFormParams) -> ElicitResult:
        group.start_soon(answer_elsewhere)
        return ElicitResult(action="decline")

    async def answer_elsewhere() -> None:
        for _ in range(200):  # as many turns of the loop as what follows a decline may take
            await anyio.lowlevel.checkpoint()
        answers = [UserAnswer(question_index=0, selected_option="PostgreSQL")]
        await anyio.to_thread.run_sync(sessions.save_session_answers, only(sessions), answers)

    async with anyio.create_task_group() as group:
        given = {"questions": [DATABASE]}
        result = await asked(sessions, decline, given, name="codex-mcp-client")
    assert result.structured_content["answers"][0]["selected_option"] == "PostgreSQL"


@pytest.mark.parametrize(
    "dismissed",
    [
        ElicitResult(action="cancel"),
        ElicitResult(action="accept", content={}),
        ElicitResult(action="accept", content={"q1": "Oracle", "q2": 7}),
    ],
)
async def test_questions_wait_in_their_channel_after_a_form_without_answers(
    sessions: QuestionSessions, dismissed: ElicitResult
) -> None:
    async def dismiss(_: ElicitRequestFormParams) -> ElicitResult:
        group.start_soon(answer_elsewhere)
        return dismissed

    async def answer_elsewhere() -> None:
        answers = [UserAnswer(question_index=0, selected_option="PostgreSQL")]
        await anyio.to_thread.run_sync(sessions.save_session_answers, only(sessions), answers)

    async with anyio.create_task_group() as group:
        result = await asked(sessions, dismiss, {"questions": [DATABASE]})
    assert result.structured_content["answers"][0]["selected_option"] == "PostgreSQL"


async def test_an_answer_elsewhere_counts_while_the_form_is_open(
    sessions: QuestionSessions,
) -> None:
    async def never(_: ElicitRequestFormParams) -> ElicitResult:
        await anyio.to_thread.run_sync(sessions.reject_session, only(sessions), "not now")
        await anyio.sleep_forever()
        raise AssertionError

    result = await asked(sessions, never)
    assert result.structured_content["rejection_reason"] == "not now"


async def test_questions_that_are_not_waited_for_open_no_form(sessions: QuestionSessions) -> None:
    async def fail(_: ElicitRequestFormParams) -> ElicitResult:
        raise AssertionError

    result = await asked(sessions, fail, {**ASKED, "non_blocking": True})
    assert result.structured_content["status"] == "pending"
    assert sessions.get(only(sessions)).status is SessionStatus.PENDING
