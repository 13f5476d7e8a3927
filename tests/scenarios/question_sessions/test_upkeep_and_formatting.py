"""Session Cleanup, Response Formatting, Session Validation, Session Configuration."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from agentforge_sessions.base.question import InvalidQuestions
from agentforge_sessions.questions import (
    InvalidAnswers,
    Question,
    QuestionSessions,
    SessionStatus,
    UserAnswer,
    format_elaborate_request,
    format_rephrase_request,
    format_user_response,
)
from agentforge_sessions.questions.errors import InvalidSessionId
from agentforge_sessions.questions.rules import validate_answers
from tests.support.clock import FakeClock
from tests.support.questions import ANSWERS, DATABASE, FEATURES, MISSING, QUESTIONS, build

DAY_S = 86_400


def test_scenario_retention_based_cleanup_keeps_what_is_almost_that_old(
    sessions: QuestionSessions, clock: FakeClock
) -> None:
    session_id = sessions.create_session(QUESTIONS)
    clock.advance(7 * DAY_S - 0.001)
    assert sessions.cleanup_expired_sessions().deleted == ()
    clock.advance(0.001)  # exactly that old is not older
    assert sessions.cleanup_expired_sessions().deleted == ()
    assert sessions.exists(session_id)
    clock.advance(0.001)
    assert sessions.cleanup_expired_sessions().deleted == (session_id,)


def test_scenario_cleanup_failure_isolation(
    sessions: QuestionSessions, clock: FakeClock, questions_dir: Path, tmp_path: Path
) -> None:
    first = sessions.create_session(QUESTIONS)
    second = sessions.create_session(QUESTIONS)
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").write_text("kept")
    bad = "00000001-1111-4000-8000-000000000000"  # between the two
    os.symlink(outside, questions_dir / bad)
    os.utime(questions_dir / bad, (0, 0), follow_symlinks=False)
    clock.advance(8 * DAY_S)
    with capture_logs() as logs:
        result = sessions.cleanup_expired_sessions()
    assert result.deleted == (first, second)
    assert [name for name, _ in result.failed] == [bad]
    assert [one["session_id"] for one in logs if one["event"] == "question.cleanup_failed"] == [bad]
    assert [one["log_level"] for one in logs if one["event"] == "question.cleanup_failed"] == [
        "warning"
    ]
    assert (outside / "kept").read_text() == "kept"


def said(question: Question, **given: object) -> list[str]:
    text = format_user_response([UserAnswer(question_index=0, **given)], [question])  # type: ignore[arg-type]
    lines = text.split("\n")
    assert lines[:3] == ["Here are the user's answers:", "", f"1. {question.prompt}"]
    return lines[3:]


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        ({}, ["→ No answer provided"]),
        ({"custom_text": ""}, ["→ No answer provided"]),
        ({"selected_option": ""}, ["→ No answer provided"]),
        ({"selected_option": "Oracle"}, ["→ Oracle"]),
        ({"selected_options": ["Oracle"]}, []),
        ({"selected_options": ["Oracle", "SQLite"]}, ["→ SQLite"]),
        ({"selected_option": "SQLite", "selected_options": []}, ["→ (No selection)"]),
        (
            {"selected_option": "SQLite", "selected_options": [], "custom_text": "x"},
            ["→ Other: 'x'"],
        ),
        (
            {"selected_option": "SQLite", "selected_options": ["PostgreSQL"]},
            ["→ PostgreSQL — relational, a server"],
        ),
        ({"selected_option": "SQLite", "custom_text": "x"}, ["→ SQLite", "→ Other: 'x'"]),
        ({"custom_text": "a\nb"}, ["→ Other: 'a", "b'"]),
        ({"custom_text": "\\'"}, ["→ Other: '\\\\''"]),
    ],
)
def test_scenario_formatting_of_odd_answers(given: dict[str, object], lines: list[str]) -> None:
    assert said(DATABASE, **given) == lines


def test_scenario_answer_validation() -> None:
    validate_answers(ANSWERS, QUESTIONS)
    validate_answers([UserAnswer(question_index=1, selected_options=[])], QUESTIONS)
    with pytest.raises(InvalidAnswers, match=r"^No answers provided in session$"):
        format_user_response([], QUESTIONS)
    with pytest.raises(InvalidQuestions, match=r"^No questions provided$"):
        format_user_response(ANSWERS, [])
    with pytest.raises(InvalidAnswers, match=r"^No questions provided$"):
        validate_answers(ANSWERS, [])


def test_scenario_elaborate_and_rephrase_requests() -> None:
    elaborate = format_elaborate_request(1, "Features", "Which features?", "what for?")
    assert elaborate.startswith("[ELABORATE_REQUEST] The person cannot decide on question 2 ")
    assert elaborate.endswith("Question: Which features?\nThe person adds: what for?")
    assert said(FEATURES, custom_text=elaborate) == elaborate.split("\n")
    rephrase = format_rephrase_request(0, "Database")
    assert rephrase.startswith("[REPHRASE_REQUEST] The person does not understand question 1 ")
    assert said(DATABASE, custom_text=rephrase) == [rephrase]


def test_scenario_an_answer_and_a_request_to_the_asker_may_stand_together(
    sessions: QuestionSessions,
) -> None:
    session_id = sessions.create_session(QUESTIONS)
    request = format_elaborate_request(0, "Database", "Which database?", "is it ours to run?")
    given = (
        UserAnswer(question_index=0, selected_option="SQLite"),
        UserAnswer(question_index=0, custom_text=request),
    )
    sessions.save_session_answers(session_id, given)
    answers = sessions.wait_for_answers(session_id, 0)
    assert answers.answers == given
    text = format_user_response(answers, QUESTIONS, session_id)
    assert text == (
        f"[Session: {session_id[:8]} | Questions: 2]\n\nHere are the user's answers:\n\n"
        f"1. Which database?\n→ SQLite\n{request}"
    )


def test_scenario_validate_session(sessions: QuestionSessions, questions_dir: Path) -> None:
    session_id = sessions.create_session(QUESTIONS)
    path = questions_dir / session_id
    assert sessions.validate_session(session_id).is_valid
    assert sessions.validate_session(MISSING).issues == ("Session directory does not exist",)

    status = json.loads((path / "status.json").read_text())
    (path / "status.json").write_text(
        json.dumps(status | {"sessionId": MISSING, "totalQuestions": 3})
    )
    assert sessions.validate_session(session_id).issues == (
        "Session ID mismatch in status file",
        "Question count mismatch between status and request",
    )
    request = json.loads((path / "request.json").read_text())
    (path / "request.json").write_text(json.dumps(request | {"sessionId": MISSING}))
    assert "Session ID mismatch in request file" in sessions.validate_session(session_id).issues
    (path / "request.json").write_text("null")
    assert sessions.validate_session(session_id).issues == (
        "Could not read session status or request",
        "Session ID mismatch in status file",
    )
    assert sessions.validate_session(session_id).remarks == (
        "request.json: expected an object, found nothing",
    )
    os.unlink(path / "request.json")
    os.unlink(path / "status.json")
    assert sessions.validate_session(session_id).issues == (
        "Required file missing: request.json",
        "Required file missing: status.json",
    )


def test_scenario_validate_session_remarks_on_answers_and_stays_valid(
    sessions: QuestionSessions, questions_dir: Path
) -> None:
    session_id = sessions.create_session(QUESTIONS)
    sessions.save_session_answers(session_id, ANSWERS)
    path = questions_dir / session_id / "answers.json"
    path.write_text(path.read_text().replace("PostgreSQL", "Oracle"))
    report = sessions.validate_session(session_id)
    assert report.is_valid
    assert report.remarks == (
        "answers.json: Answer for question 0 references non-existent option: Oracle",
    )
    path.unlink()
    assert sessions.validate_session(session_id).remarks == (
        "The status is completed and answers.json is missing",
    )


@pytest.mark.parametrize(
    "hostile",
    [
        "",
        ".",
        "..",
        "../../etc",
        "/etc",
        f"{MISSING}/../{MISSING}",
        f"{MISSING}\n",
        f" {MISSING}",
        "00000000-0000-1000-8000-000000000000",
        "00000000-0000-4000-c000-000000000000",
        "00000000000040008000000000000000",
        f"{MISSING}\x00",
        "\u0660" * 8 + "-0000-4000-8000-000000000000",
        None,
        7,
    ],
)
def test_scenario_invalid_session_id_format(tmp_path: Path, hostile: str) -> None:
    from tests.support.filesystem import ForbiddenFileSystem

    fs = ForbiddenFileSystem()
    sessions = QuestionSessions(tmp_path / "q", fs=fs)
    for act in (
        sessions.get,
        sessions.validate_session,
        sessions.reject_session,
        sessions.abandon_session,
        sessions.time_out_session,
        sessions.wait_for_answers,
        lambda one: sessions.save_session_answers(one, ANSWERS),
    ):
        with pytest.raises(InvalidSessionId):
            act(hostile)
    assert not sessions.exists(hostile)
    assert fs.trace == []


def test_scenario_session_configuration_limits(questions_dir: Path) -> None:
    sessions = build(questions_dir, max_questions=1, max_options=2)
    with pytest.raises(InvalidQuestions) as caught:
        sessions.create_session([DATABASE, FEATURES])
    assert caught.value.faults == (
        "questions: 2 are more than max_questions (1)",
        "questions[1].options: 3 are more than max_options (2)",
    )
    assert sessions.get(sessions.create_session([DATABASE])).status is SessionStatus.PENDING
