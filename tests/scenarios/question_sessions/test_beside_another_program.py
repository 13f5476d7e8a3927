"""Working on one directory with another program of this format, without its faults.

The other program is ask-user-questions-mcp 3.4.0. Each test names what it relies on, or what it
gets wrong itself.
"""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from agentforge_sessions.base.identifiers import is_uuid4
from agentforge_sessions.questions import (
    InvalidAnswers,
    QuestionSessions,
    SessionEnded,
    SessionRejected,
    SessionStatus,
    UserAnswer,
)
from agentforge_sessions.questions.disk_errors import SessionBusy
from tests.support.clock import FakeClock
from tests.support.filesystem import Call, FaultyFileSystem
from tests.support.questions import ANSWERS, QUESTIONS, FakeTime, build

DAY_S = 86_400


def names_in(directory: Path) -> list[str]:
    return os.listdir(directory) if directory.exists() else []


# ------------------------------------------------------------------ what the other one relies on


def test_a_session_appears_whole_under_its_id(questions_dir: Path) -> None:
    seen: list[list[str]] = []

    def look(_: Call) -> None:
        seen.extend(
            sorted(names_in(questions_dir / name))
            for name in names_in(questions_dir)
            if is_uuid4(name)
        )

    sessions = build(questions_dir, fs=FaultyFileSystem(before=look))
    sessions.create_session(QUESTIONS)
    assert seen
    assert all(found == ["request.json", "status.json"] for found in seen)


def test_files_are_replaced_by_renaming_what_lies_beside_them(questions_dir: Path) -> None:
    sessions = build(questions_dir)
    session_id = sessions.create_session(QUESTIONS)
    fs = FaultyFileSystem()
    build(questions_dir, fs=fs).save_session_answers(session_id, ANSWERS)
    inside = questions_dir / session_id
    written = {Path(call.path) for call in fs.trace if call.operation in {"writev", "rename"}}
    assert {path.parent for path in written} == {inside}  # on the same file system, always
    assert not {inside / "status.json", inside / "answers.json"} & {
        Path(call.path) for call in fs.trace if call.operation == "writev"
    }


def test_the_lock_is_held_from_before_the_answers_until_after_the_status(
    questions_dir: Path,
) -> None:
    session_id = build(questions_dir).create_session(QUESTIONS)
    inside = questions_dir / session_id
    unlocked = []

    def look(_: Call) -> None:
        between = (inside / "answers.json").exists() and "pending" in (
            inside / "status.json"
        ).read_text()
        if between and not (inside / "status.json.lock").exists():
            unlocked.append(1)

    fs = FaultyFileSystem(before=look)
    build(questions_dir, fs=fs).save_session_answers(session_id, ANSWERS)
    assert unlocked == []


def other_program_answers(inside: Path) -> bool:
    """Replace answers.json under its own lock and no other, unless that is taken."""
    try:
        fd = os.open(inside / "answers.json.lock", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        return False
    os.write(fd, str(os.getpid()).encode())
    os.close(fd)
    document = {
        "sessionId": inside.name,
        "timestamp": "2026-03-01T09:30:00.000Z",
        "answers": [{"questionIndex": 0, "customText": "theirs"}],
    }
    (inside / ".theirs").write_text(json.dumps(document))
    os.rename(inside / ".theirs", inside / "answers.json")
    (inside / "answers.json.lock").unlink()
    return True


def answered_beside_the_other(base: Path, number: int) -> tuple[bool | None, str | None]:
    """Answer, and let the other program answer before our system call `number`.

    Returns:
        Whether it could (None: there is no such call), and the text that is on disk then.
    """
    session_id = build(base).create_session(QUESTIONS)
    calls = count(1)
    wrote: list[bool] = []

    def act(_: Call) -> None:
        if next(calls) == number:
            wrote.append(other_program_answers(base / session_id))

    with suppress(SessionEnded):
        build(base, fs=FaultyFileSystem(before=act)).save_session_answers(session_id, ANSWERS)
    found = build(base).get(session_id).answers
    assert found is not None
    return (wrote[0] if wrote else None), found.answers[0].custom_text


def test_what_the_other_one_answers_meanwhile_is_never_written_over(questions_dir: Path) -> None:
    seen = set()
    for number in count(1):
        wrote, text = answered_beside_the_other(questions_dir / str(number), number)
        if wrote is None:
            break
        assert (text == "theirs") is wrote, number
        seen.add(wrote)
    assert seen == {True, False}


@pytest.mark.parametrize(
    ("answers", "fault"),
    [
        ([], "No answers provided"),
        ([UserAnswer(question_index=0, selected_option="PostgreSQI")], "non-existent option"),
        ([UserAnswer(question_index=9, custom_text="x")], "invalid question index"),
    ],
    ids=["everything skipped", "mistyped label", "no such question"],
)
def test_what_would_make_the_asker_abandon_the_session_is_not_written(
    sessions: QuestionSessions, questions_dir: Path, answers: list[UserAnswer], fault: str
) -> None:
    session_id = sessions.create_session(QUESTIONS)
    with pytest.raises(InvalidAnswers, match=fault):
        sessions.save_session_answers(session_id, answers)
    assert sorted(names_in(questions_dir / session_id)) == ["request.json", "status.json"]
    assert sessions.get(session_id).status is SessionStatus.PENDING


# --------------------------------------------------------------------- what the other one does


def test_a_directory_without_a_status_stops_neither_the_listing_nor_the_clean_up(
    questions_dir: Path, clock: FakeClock
) -> None:
    time = FakeTime()
    sessions = build(questions_dir, clock=clock, sleep=time.sleep, monotonic=time.monotonic)
    old = sessions.create_session(QUESTIONS)
    broken = questions_dir / "00000000-1111-4000-8000-000000000000"
    broken.mkdir()
    (broken / "request.json").write_text("{}")
    assert [one.session_id for one in sessions.list_sessions()] == [old]
    clock.advance(8 * DAY_S)
    assert sessions.cleanup_expired_sessions().deleted == (old,)


def test_many_broken_directories_hold_up_a_listing_no_longer_than_one(questions_dir: Path) -> None:
    time = FakeTime()
    sessions = build(questions_dir, sleep=time.sleep, monotonic=time.monotonic)
    good = sessions.create_session(QUESTIONS)
    for number in range(50):
        (questions_dir / f"{number:08x}-1111-4000-8000-000000000000").mkdir()
    assert [one.session_id for one in sessions.list_sessions()] == [good]
    assert sum(time.pauses) < 1


def test_a_session_that_waits_has_no_answers_and_that_is_no_error(
    sessions: QuestionSessions,
) -> None:
    session_id = sessions.create_session(QUESTIONS)
    assert sessions.get(session_id).answers is None


def test_a_lock_that_was_not_acquired_is_left_to_its_holder(questions_dir: Path) -> None:
    time = FakeTime()
    sessions = build(questions_dir, sleep=time.sleep, monotonic=time.monotonic)
    session_id = sessions.create_session(QUESTIONS)
    lock = questions_dir / session_id / "status.json.lock"
    lock.write_text(str(os.getpid()))
    with pytest.raises(SessionBusy):
        sessions.save_session_answers(session_id, ANSWERS)
    assert lock.read_text() == str(os.getpid())


def test_a_wait_outlives_a_status_that_can_not_be_parsed_for_a_moment(questions_dir: Path) -> None:
    sessions = build(questions_dir)
    session_id = sessions.create_session(QUESTIONS)
    path = questions_dir / session_id / "status.json"
    rejected = path.read_text().replace("pending", "rejected")
    path.write_text(rejected[:30])
    time = FakeTime()

    def finish(now: float) -> None:
        if now >= 1000.5:
            path.write_text(rejected)

    time.meanwhile = finish
    with pytest.raises(SessionRejected):
        build(questions_dir, sleep=time.sleep).wait_for_answers(session_id, 60)


def test_twenty_at_once_lose_none_of_what_they_write(questions_dir: Path) -> None:
    session_id = build(questions_dir).create_session(QUESTIONS)
    build(questions_dir).save_session_answers(session_id, ANSWERS)
    done = []

    def fetch() -> None:
        sessions = QuestionSessions(questions_dir, lock_timeout_s=60)
        done.append(sessions.mark_answers_read(session_id).last_read_at)

    threads = [threading.Thread(target=fetch) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(done) == 20
    found = json.loads((questions_dir / session_id / "answers.json").read_text())
    assert [one["questionIndex"] for one in found["answers"]] == [0, 1]
    answers = QuestionSessions(questions_dir).get(session_id).answers
    assert answers is not None
    assert answers.answers == ANSWERS
    assert answers.last_read_at in done
