"""Session Creation, Session Lifecycle States, Session File Format."""

from __future__ import annotations

import json
import stat
import uuid
from pathlib import Path
from typing import Any

import pytest

from agentforge_sessions.questions import (
    AnswersTimeout,
    QuestionSessions,
    SessionCorrupted,
    SessionStatus,
)
from tests.support.clock import FakeClock
from tests.support.listing import names_in
from tests.support.questions import ANSWERS, DATABASE, QUESTIONS, FakeTime, build


def document(directory: Path, session_id: str, name: str) -> dict[str, Any]:
    found = json.loads((directory / session_id / name).read_text("utf-8"))
    assert isinstance(found, dict)
    return found


def test_scenario_new_session(questions_dir: Path) -> None:
    sessions = QuestionSessions(questions_dir)
    session_id = sessions.create_session(QUESTIONS)
    assert uuid.UUID(session_id).version == 4
    assert str(uuid.UUID(session_id)) == session_id
    assert names_in(questions_dir) == [session_id]
    assert sorted(path.name for path in (questions_dir / session_id).iterdir()) == [
        "request.json",
        "status.json",
    ]
    assert document(questions_dir, session_id, "status.json")["status"] == "pending"


def test_scenario_session_directory_permissions(
    sessions: QuestionSessions, questions_dir: Path
) -> None:
    session_id = sessions.create_session(QUESTIONS)
    sessions.save_session_answers(session_id, ANSWERS)
    for name in ("request.json", "status.json", "answers.json"):
        mode = (questions_dir / session_id / name).stat().st_mode
        assert stat.S_IMODE(mode) == 0o600, name
    assert stat.S_IMODE((questions_dir / session_id).stat().st_mode) == 0o700
    assert stat.S_IMODE(questions_dir.stat().st_mode) == 0o700


def test_scenario_timed_out_state(questions_dir: Path, clock: FakeClock) -> None:
    sessions = build(questions_dir, clock=clock, session_timeout_s=60)
    session_id = sessions.create_session(QUESTIONS)
    clock.advance(60)
    with pytest.raises(AnswersTimeout) as caught:
        sessions.wait_for_answers(session_id)
    assert caught.value.ended
    assert document(questions_dir, session_id, "status.json")["status"] == "timed_out"


@pytest.mark.parametrize(
    "content",
    [
        b'{"sessionId": ',
        b"[]",
        b'{"sessionId": "another", "answers": [], "timestamp": "2026-03-01T09:30:00.000Z"}',
        b"\xff\xfe\x00",
        b'{"sessionId": "%s", "answers": [{"questionIndex": 7, "customText": "x"}],'
        b' "timestamp": "2026-03-01T09:30:00.000Z"}',
    ],
    ids=["no JSON", "no object", "another session", "no text", "does not validate"],
)
@pytest.mark.parametrize("said", ["pending", "completed"])
def test_scenario_abandoned_state(
    questions_dir: Path, clock: FakeClock, content: bytes, said: str
) -> None:
    time = FakeTime()
    sessions = build(questions_dir, clock=clock, sleep=time.sleep)
    session_id = sessions.create_session(QUESTIONS)
    path = questions_dir / session_id
    status = (path / "status.json").read_text().replace("pending", said)
    (path / "status.json").write_text(status)
    (path / "answers.json").write_bytes(content.replace(b"%s", session_id.encode()))
    with pytest.raises(SessionCorrupted) as caught:
        sessions.wait_for_answers(session_id, 5)
    assert time.now - 1000 >= 0.5  # so long a program may take to write the file in place
    assert caught.value.abandoned
    status = document(questions_dir, session_id, "status.json")
    assert status["status"] == "abandoned"
    assert status["endReason"].startswith("answers.json")
    assert sessions.get(session_id).status is SessionStatus.ABANDONED


def test_scenario_abandoned_state_when_the_status_itself_can_not_be_parsed(
    questions_dir: Path, clock: FakeClock
) -> None:
    sessions = build(questions_dir, clock=clock, sleep=FakeTime().sleep)
    session_id = sessions.create_session(QUESTIONS, call_id="c", working_directory="/srv/work")
    (questions_dir / session_id / "status.json").write_text("{ half")
    with pytest.raises(SessionCorrupted) as caught:
        sessions.wait_for_answers(session_id, 5)
    assert caught.value.abandoned
    status = document(questions_dir, session_id, "status.json")
    assert status.pop("endReason").startswith("status.json: it is no JSON")
    assert status == {
        "createdAt": "2026-03-01T09:30:00.000Z",
        "lastModified": "2026-03-01T09:30:00.000Z",
        "sessionId": session_id,
        "status": "abandoned",
        "totalQuestions": 2,
        "workingDirectory": "/srv/work",
        "callId": "c",
    }


def test_scenario_abandoned_state_is_not_for_whole_answers_beside_a_torn_status(
    questions_dir: Path,
) -> None:
    sessions = build(questions_dir, sleep=FakeTime().sleep)
    session_id = sessions.create_session(QUESTIONS)
    sessions.save_session_answers(session_id, ANSWERS)
    (questions_dir / session_id / "status.json").write_text("{ half")
    assert sessions.wait_for_answers(session_id, 5).answers == ANSWERS
    assert document(questions_dir, session_id, "status.json")["status"] == "completed"
    assert sessions.get(session_id).status is SessionStatus.COMPLETED


def test_scenario_abandoned_state_is_not_for_what_another_program_is_still_writing(
    questions_dir: Path,
) -> None:
    time = FakeTime()
    sessions = build(questions_dir, sleep=time.sleep, monotonic=time.monotonic)
    session_id = sessions.create_session([DATABASE])
    path = questions_dir / session_id
    status = (path / "status.json").read_text().replace("pending", "completed")
    (path / "status.json").write_text(status)
    whole = json.dumps(
        {
            "sessionId": session_id,
            "answers": [{"questionIndex": 0, "customText": "x"}],
            "timestamp": "2026-03-01T09:30:00.000Z",
        }
    )
    (path / "answers.json").write_text("")

    def write_on(now: float) -> None:
        (path / "answers.json").write_text(whole[: int((now - 1000) / 0.5 * len(whole))])

    time.meanwhile = write_on
    assert sessions.wait_for_answers(session_id, 5).answers[0].custom_text == "x"


def test_scenario_request_file(sessions: QuestionSessions, questions_dir: Path) -> None:
    session_id = sessions.create_session(QUESTIONS, call_id="call-1")
    assert document(questions_dir, session_id, "request.json") == {
        "sessionId": session_id,
        "questions": [
            {
                "prompt": "Which database?",
                "title": "Database",
                "options": [
                    {"label": "PostgreSQL", "description": "relational, a server"},
                    {"label": "SQLite"},
                ],
                "multiSelect": False,
            },
            {
                "prompt": "Which features?",
                "title": "Features",
                "options": [
                    {"label": "Auth", "description": "log in"},
                    {"label": "Search"},
                    {"label": "Export"},
                ],
                "multiSelect": True,
            },
        ],
        "status": "pending",
        "timestamp": "2026-03-01T09:30:00.000Z",
        "callId": "call-1",
    }


def test_scenario_status_file(
    sessions: QuestionSessions, questions_dir: Path, clock: FakeClock
) -> None:
    session_id = sessions.create_session(QUESTIONS, call_id="call-1")
    expected = {
        "sessionId": session_id,
        "status": "pending",
        "createdAt": "2026-03-01T09:30:00.000Z",
        "lastModified": "2026-03-01T09:30:00.000Z",
        "totalQuestions": 2,
        "callId": "call-1",
    }
    assert document(questions_dir, session_id, "status.json") == expected
    clock.advance(1.5)
    sessions.reject_session(session_id, "no")
    assert document(questions_dir, session_id, "status.json") == expected | {
        "status": "rejected",
        "lastModified": "2026-03-01T09:30:01.500Z",
        "rejectionReason": "no",
    }


def test_scenario_answers_file(sessions: QuestionSessions, questions_dir: Path) -> None:
    session_id = sessions.create_session(QUESTIONS, call_id="call-1")
    sessions.save_session_answers(session_id, ANSWERS)
    assert document(questions_dir, session_id, "answers.json") == {
        "sessionId": session_id,
        "answers": [
            {
                "questionIndex": 0,
                "selectedOption": "PostgreSQL",
                "timestamp": "2026-03-01T09:30:00.000Z",
            },
            {
                "questionIndex": 1,
                "selectedOptions": ["Search", "Auth"],
                "customText": "it's late",
                "timestamp": "2026-03-01T09:30:00.000Z",
            },
        ],
        "timestamp": "2026-03-01T09:30:00.000Z",
        "callId": "call-1",
    }


def test_scenario_files_without_a_call_id_leave_it_out(
    sessions: QuestionSessions, questions_dir: Path
) -> None:
    session_id = sessions.create_session([DATABASE])
    sessions.save_session_answers(session_id, ANSWERS[:1])
    for name in ("request.json", "status.json", "answers.json"):
        assert "callId" not in document(questions_dir, session_id, name)
