"""Questions that a client asks and a person answers, over each transport and handshake."""

from __future__ import annotations

import anyio
import pytest
from mcp import Client
from mcp.client import ClientRequestContext
from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult

from agentforge_sessions.questions import (
    SessionStatus,
    UserAnswer,
    format_submission,
    format_user_response,
)
from tests.support.mcp_processes import (
    ASKED,
    BY_HTTP,
    Way,
    error_of,
    eventually,
    text_of,
    values_of,
)

pytestmark = pytest.mark.anyio

ANSWERS = (
    UserAnswer(question_index=0, selected_option="SQLite", custom_text="for now, it's 'ok'"),
)


async def test_an_answer_reaches_the_client_that_waits_while_others_are_served(way: Way) -> None:
    told: list[tuple[float, str | None]] = []

    async def progress(done: float, _: float | None, message: str | None) -> None:
        told.append((done, message))

    async with way.connected() as client:
        results: list[CallToolResult] = []

        async def ask() -> None:
            results.append(
                await client.call_tool("ask_user_questions", ASKED, progress_callback=progress)
            )

        async with anyio.create_task_group() as group:
            group.start_soon(ask)
            session_id = await eventually(way.place.waiting, "the question")
            assert values_of(await client.call_tool("session_list", {}))["total"] == 0
            await eventually(lambda: bool(told), "progress")
            way.place.questions.save_session_answers(session_id, ANSWERS)
    session = way.place.questions.get(session_id)
    assert session.answers is not None
    expected = format_user_response(session.answers, session.questions, session_id)
    values = values_of(results[0])
    assert (values["session_id"], values["status"]) == (session_id, "completed")
    assert values["text"] == text_of(results[0]) == expected
    assert expected.endswith("→ SQLite\n→ Other: 'for now, it\\'s \\'ok\\''")
    assert values["answers"][0]["selected_option"] == "SQLite"
    assert told[0] == (0.0, "waiting for the person's answers (0 s)")


async def test_cancelling_the_call_abandons_the_questions_at_once(way: Way) -> None:
    async with way.connected() as client:
        async with anyio.create_task_group() as group:
            group.start_soon(client.call_tool, "ask_user_questions", ASKED)
            session_id = await eventually(way.place.waiting, "the question")
            group.cancel_scope.cancel()
        await eventually(lambda: way.place.waiting() is None, "the end")
        assert way.place.status(session_id) is SessionStatus.ABANDONED
        # the server is there for the next one
        assert values_of(await client.call_tool("session_list", {}))["total"] == 0
    record = way.place.questions.get(session_id).record
    assert record.end_reason == "the client cancelled the call or went away"


@pytest.mark.parametrize("way", BY_HTTP, indirect=True, ids="-".join)
async def test_questions_that_nobody_answers_in_time_are_withdrawn(way: Way) -> None:
    async with way.connected() as client:
        result = await client.call_tool("ask_user_questions", {**ASKED, "timeout_s": 0.3})
    kind, text = error_of(result)
    assert kind == "AnswersTimeout"
    (session,) = way.place.questions.list_sessions()
    assert session.status is SessionStatus.TIMED_OUT
    assert session.session_id in text
    assert "the session has timed out" in text


async def test_questions_not_waited_for_outlive_their_client(way: Way) -> None:
    async with way.connected() as client:
        asked = await client.call_tool("ask_user_questions", {**ASKED, "nonBlocking": True})
        session_id = values_of(asked)["session_id"]
        assert values_of(asked)["status"] == "pending"
        assert text_of(asked) == format_submission(session_id, 1)
    assert way.place.status(session_id) is SessionStatus.PENDING
    async with way.connected() as other:
        fetch = {"session_id": session_id[:8]}
        assert values_of(await other.call_tool("get_answered_questions", fetch))["answers"] is None
        with anyio.move_on_after(0.5):  # who gives up fetching withdraws nothing
            await other.call_tool("get_answered_questions", {**fetch, "blocking": True})
        waited = {**fetch, "blocking": True, "timeout_s": 0.1}
        still = values_of(await other.call_tool("get_answered_questions", waited))
        assert still["status"] == "pending"
        results: list[CallToolResult] = []

        async def wait() -> None:
            results.append(
                await other.call_tool("get_answered_questions", {**fetch, "blocking": True})
            )

        async with anyio.create_task_group() as group:
            group.start_soon(wait)
            way.place.questions.save_session_answers(session_id, ANSWERS)
        assert values_of(results[0])["status"] == "completed"
        again = await other.call_tool("get_answered_questions", fetch)
        assert text_of(again) == text_of(results[0])


async def test_two_clients_each_get_the_answers_to_their_own_questions(way: Way) -> None:
    got: dict[str, str] = {}

    async def ask(client: Client, title: str) -> None:
        (question,) = ASKED["questions"]
        result = await client.call_tool(
            "ask_user_questions", {"questions": [{**question, "title": title}]}
        )
        got[title] = text_of(result)

    async with (
        way.connected() as one,
        way.connected() as two,
        anyio.create_task_group() as group,
    ):
        group.start_soon(ask, one, "first")
        group.start_soon(ask, two, "second")
        await eventually(lambda: len(way.place.questions.pending()) == 2, "both questions")
        for session in way.place.questions.pending():
            (title,) = session.titles
            way.place.questions.save_session_answers(
                session.session_id, [UserAnswer(question_index=0, custom_text=f"for {title}")]
            )
    assert "Other: 'for first'" in got["first"]
    assert "Other: 'for second'" in got["second"]


@pytest.mark.parametrize("way", [("http", "legacy"), ("stdio", "legacy")], indirect=True)
async def test_a_client_that_shows_forms_answers_itself(way: Way) -> None:
    async def show(_: ClientRequestContext, __: ElicitRequestParams) -> ElicitResult:
        return ElicitResult(action="accept", content={"q1": "SQLite"})

    async with way.connected(elicitation_callback=show) as client:
        answered = values_of(await client.call_tool("ask_user_questions", ASKED))
    assert [one["selected_option"] for one in answered["answers"]] == ["SQLite"]
    assert way.place.status(answered["session_id"]) is SessionStatus.COMPLETED
