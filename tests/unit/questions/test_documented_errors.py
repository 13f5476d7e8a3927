"""The sentences that the format documents for errors, word for word."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from agentforge_sessions.base.question import InvalidQuestions
from agentforge_sessions.questions import (
    AnswersTimeout,
    NoAnswers,
    QuestionSessions,
    SessionCorrupted,
    SessionNotFound,
    SessionRejected,
)
from agentforge_sessions.questions.disk_errors import AtomicWriteError
from agentforge_sessions.questions.errors import InvalidSessionId
from tests.support.filesystem import FaultyFileSystem, nth_of
from tests.support.questions import ANSWERS, MISSING, QUESTIONS, FakeTime, build


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path / "questions"


@pytest.fixture
def sessions(base: Path) -> QuestionSessions:
    return build(base, sleep=FakeTime().sleep)


def test_a_session_without_questions(sessions: QuestionSessions, base: Path) -> None:
    with pytest.raises(InvalidQuestions) as caught:
        sessions.create_session([])
    assert str(caught.value) == "At least one question is required to create a session"
    assert caught.value.user_message == str(caught.value)
    assert not base.exists()


def test_a_session_that_is_not_there(sessions: QuestionSessions) -> None:
    for act in (
        lambda: sessions.save_session_answers(MISSING, ANSWERS),
        lambda: sessions.reject_session(MISSING),
        lambda: sessions.get(MISSING),
    ):
        with pytest.raises(SessionNotFound) as caught:
            act()
        assert caught.value.user_message == str(caught.value) == f"Session not found: {MISSING}"


def test_an_id_that_is_none(sessions: QuestionSessions) -> None:
    with pytest.raises(InvalidSessionId) as caught:
        sessions.get("../x")
    assert caught.value.user_message == "Invalid session ID format: ../x"
    with pytest.raises(InvalidSessionId) as caught:
        sessions.get(None)  # type: ignore[arg-type]
    assert caught.value.user_message == "Invalid session ID format: None"


def test_a_rejection_and_a_time_that_is_over(sessions: QuestionSessions) -> None:
    session_id = sessions.create_session(QUESTIONS)
    with pytest.raises(AnswersTimeout) as late:
        sessions.wait_for_answers(session_id, 0)
    assert late.value.user_message == (
        f"Session {session_id} timed out waiting for user response: "
        "Timeout waiting for user response"
    )
    assert not late.value.ended
    sessions.reject_session(session_id, "why ask?")
    with pytest.raises(SessionRejected) as caught:
        sessions.wait_for_answers(session_id)
    assert caught.value.user_message == str(caught.value) == "SESSION_REJECTED"
    assert caught.value.reason == "why ask?"
    with pytest.raises(NoAnswers) as unread:
        sessions.mark_answers_read(session_id)
    assert str(unread.value) == f"Session {session_id} has no answers to mark as read"


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        (
            "answers.json",
            '{"sessionId": "%s", "answers": [], "timestamp": "2026-03-01T09:30:00.000Z"}',
            "Answer validation failed for session %s: No answers provided",
        ),
        (
            "answers.json",
            "{ half",
            "Failed to parse JSON from session file answers.json for session %s: ",
        ),
        (
            "status.json",
            "{ half",
            "Failed to parse JSON from session file status.json for session %s: ",
        ),
    ],
)
def test_files_that_can_not_be_used(
    sessions: QuestionSessions, base: Path, name: str, content: str, sentence: str
) -> None:
    session_id = sessions.create_session(QUESTIONS)
    (base / session_id / name).write_text(content.replace("%s", session_id))
    with pytest.raises(SessionCorrupted) as caught:
        sessions.get(session_id)
    assert caught.value.user_message.startswith(sentence.replace("%s", session_id))


def test_a_write_that_fails(sessions: QuestionSessions, base: Path) -> None:
    session_id = sessions.create_session(QUESTIONS)
    failing = build(base, fs=FaultyFileSystem(plan=nth_of("writev", 2, errno.ENOSPC)))
    with pytest.raises(AtomicWriteError) as caught:
        failing.save_session_answers(session_id, ANSWERS)
    path = base / session_id / "answers.json"
    assert caught.value.user_message == (
        f"Failed to write session file answers.json for session {session_id}: "
        f"Atomic write failed: {path}"
    )
