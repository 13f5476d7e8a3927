"""The texts of another program of this format, as it wrote them, are the texts that we write."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from agentforge_sessions.questions import (
    QuestionError,
    format_elaborate_request,
    format_inactive,
    format_pending,
    format_rejected,
    format_rejection,
    format_rephrase_request,
    format_submission,
    format_user_response,
    parse_answers,
    parse_questions,
)
from agentforge_sessions.questions.formatting import format_status, short_id
from agentforge_sessions.questions.rules import validate_answers

GOLDEN: Final = Path(__file__).parents[2] / "golden" / "question_sessions"


def cases(name: str) -> list[Any]:
    found = json.loads((GOLDEN / name).read_text("utf-8"))["cases"]
    return [pytest.param(one, id=one["name"]) for one in found]


def outcome(call: Any) -> dict[str, str]:
    try:
        return {"output": call()}
    except QuestionError as error:
        return {"error": str(error)}


def expected(case: dict[str, Any]) -> dict[str, str]:
    return {key: case[key] for key in ("output", "error") if key in case}


@pytest.mark.parametrize("case", cases("format_user_response.json"))
def test_a_formatted_response_is_byte_for_byte_the_same(case: dict[str, Any]) -> None:
    document, questions, *session_id = case["args"]
    answers = parse_answers(document["answers"])
    assert outcome(
        lambda: format_user_response(answers, parse_questions(questions), *session_id)
    ) == expected(case)


@pytest.mark.parametrize("case", cases("validate_answers.json"))
def test_answers_are_checked_with_the_same_words(case: dict[str, Any]) -> None:
    document, questions = case["args"]
    answers = parse_answers(document["answers"])
    assert outcome(
        lambda: validate_answers(answers, parse_questions(questions)) or "ok"
    ) == expected(case)


TEXTS: Final = {
    "formatNonBlockingSubmission": lambda session_id, count: format_submission(
        session_id, count, command="auq fetch-answers"
    ),
    "formatPendingStatus": format_pending,
    "formatRejectedStatus": format_rejected,
    "formatSessionStatus": format_status,
    "getShortId": short_id,
}
MARKED: Final = {
    "formatElaborateRequest": ("[ELABORATE_REQUEST] ", format_elaborate_request),
    "formatRephraseRequest": ("[REPHRASE_REQUEST] ", format_rephrase_request),
}


@pytest.mark.parametrize("case", cases("status_messages.json"))
def test_a_status_text_is_byte_for_byte_the_same(case: dict[str, Any]) -> None:
    if case["fn"] in TEXTS:
        assert TEXTS[case["fn"]](*case["args"]) == case["output"]
        return
    marker, write = MARKED[case["fn"]]  # the wording after the marker is our own
    arguments = case["args"][:4]
    written = write(*arguments)
    assert written.startswith(marker)
    assert case["output"].startswith(marker)
    assert arguments[1] in written
    if len(arguments) > 3 and arguments[3]:
        assert written.endswith(arguments[3])
        assert written != write(*arguments[:3])


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(one, id=one["case"])
        for one in json.loads((GOLDEN / "sessions/index.json").read_text("utf-8"))["cases"]
    ],
)
def test_what_fetching_returned_is_what_our_texts_say(case: dict[str, Any]) -> None:
    fetched, session_id, status = case["getAnsweredQuestions"], case["sessionId"], case["status"]
    if fetched is not None and "formattedResponse" in fetched:
        texts = {"pending": format_pending, "rejected": lambda one: format_rejected(one, None)}
        write = texts.get(status, lambda one: format_inactive(one, status))
        assert write(session_id) == fetched["formattedResponse"]
    told = case["outcome"].get("value")
    if status == "rejected" and isinstance(told, dict):
        assert format_rejection(None) == told["formattedResponse"]


def test_a_rejection_quotes_the_reason_as_it_is_and_may_name_the_session() -> None:
    session_id = "a3f2e8b1-4c5d-4e6f-8a7b-0123456789ab"
    assert format_rejection('say "no"\nnow', session_id=session_id, question_count=2) == (
        "[Session: a3f2e8b1 | Questions: 2]\n\nUser rejected this question set.\n\n"
        'Rejection reason: "say "no"\nnow"\n\n'
    )
    assert format_rejection("").endswith("No reason provided.\n\n")


def test_the_note_of_the_person_reaches_the_asker_in_full() -> None:
    assert format_elaborate_request(0, "T", "P", "why?").endswith("\nThe person adds: why?")
    assert format_rephrase_request(0, "T", "shorter").endswith("\nThe person adds: shorter")
    assert format_elaborate_request(0, "T", "P", "") == format_elaborate_request(0, "T", "P")
