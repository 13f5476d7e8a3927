"""Atomic File Operations, Answer Submission, Session Rejection, Waiting for Answers."""

# ruff: noqa: PT017 (a fault may hit any step, or none)
from __future__ import annotations

import errno
import json
import os
import re
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from agentforge_sessions.questions import (
    AnswersTimeout,
    NoAnswers,
    QuestionSessions,
    SessionCorrupted,
    SessionRejected,
    SessionStatus,
)
from agentforge_sessions.questions.disk_errors import AtomicWriteError
from agentforge_sessions.questions.errors import CallIdMismatch
from agentforge_sessions.questions.waiting.directory_watcher import NoWatcher
from agentforge_sessions.questions.waiting.waiting import POLL_S
from tests.support.clock import FakeClock
from tests.support.filesystem import FaultyFileSystem, nth_of
from tests.support.promptness import when
from tests.support.questions import ANSWERS, QUESTIONS, FakeTime, build


def test_scenario_atomic_write(questions_dir: Path) -> None:
    fs = FaultyFileSystem()
    sessions = build(questions_dir, fs=fs)
    session_id = sessions.create_session(QUESTIONS)
    fs.begin()
    sessions.save_session_answers(session_id, ANSWERS)
    temporary = "TEMPORARY"
    steps = [
        re.sub(r"\.answers\.json\.new-[0-9a-f]+\.tmp", temporary, step)
        for step in fs.steps(questions_dir / session_id)
        if "answers.json" in step
    ]
    wanted = [
        f"open {temporary}",
        f"writev {temporary}",
        f"fsync {temporary}",
        f"close {temporary}",
        f"open {temporary}",
        f"pread {temporary}",
        f"close {temporary}",
        "open answers.json",  # what it held, to be put back where the rename is not durable
        "rename answers.json",
    ]
    at = steps.index(wanted[0])
    found = [step for step in steps[at:] if not step.startswith("fstat")]
    assert found[: len(wanted)] == wanted
    assert os.stat(questions_dir / session_id / "answers.json").st_mode & 0o777 == 0o600


def test_scenario_atomic_write_refuses_what_reads_back_differently(questions_dir: Path) -> None:
    class Forgetful(FaultyFileSystem):
        def pread(self, fd: int, length: int, offset: int) -> bytes:
            data = super().pread(fd, length, offset)
            return data[:-1] + b"?" if self.names[fd].endswith(".tmp") else data

    sessions = build(questions_dir)
    session_id = sessions.create_session(QUESTIONS)
    with pytest.raises(AtomicWriteError) as caught:
        build(questions_dir, fs=Forgetful()).save_session_answers(session_id, ANSWERS)
    assert caught.value.operation == "verify"
    assert sorted(os.listdir(questions_dir / session_id)) == ["request.json", "status.json"]
    assert sessions.get(session_id).status is SessionStatus.PENDING


def test_scenario_file_locking(questions_dir: Path) -> None:
    seen = []

    def look(call: object) -> None:
        lock = questions_dir / session_id / "status.json.lock"
        if lock.exists():
            seen.append(int(lock.read_text().splitlines()[0]))

    sessions = build(questions_dir)
    session_id = sessions.create_session(QUESTIONS)
    fs = FaultyFileSystem(before=look)
    build(questions_dir, fs=fs).save_session_answers(session_id, ANSWERS)
    assert set(seen) == {os.getpid()}
    assert not (questions_dir / session_id / "status.json.lock").exists()


def test_scenario_file_locking_cleans_up_stale_locks(
    sessions: QuestionSessions, questions_dir: Path
) -> None:
    session_id = sessions.create_session(QUESTIONS)
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    lock = questions_dir / session_id / "status.json.lock"
    lock.write_text(str(ended.pid))
    sessions.save_session_answers(session_id, ANSWERS)
    assert sessions.get(session_id).status is SessionStatus.COMPLETED
    assert not lock.exists()


def test_scenario_write_failure_recovery(questions_dir: Path) -> None:
    sessions = build(questions_dir)
    session_id = sessions.create_session(QUESTIONS)
    for number in range(40):
        fs = FaultyFileSystem(plan=nth_of("writev", number, errno.ENOSPC))
        try:
            build(questions_dir, fs=fs).save_session_answers(session_id, ANSWERS)
        except AtomicWriteError as error:
            assert error.cause is not None
            assert "No space left" in str(error)
            assert error.session_id == session_id
            assert sorted(os.listdir(questions_dir / session_id)) == [
                "request.json",
                "status.json",
            ]
            assert sessions.get(session_id).status is SessionStatus.PENDING
        else:
            break
    assert number >= 2  # the lock file and the answers could not be written
    assert sessions.get(session_id).status is SessionStatus.COMPLETED


def test_scenario_atomic_read_with_retry(questions_dir: Path) -> None:
    fake = FakeTime()
    sessions = build(questions_dir, sleep=fake.sleep, monotonic=fake.monotonic)
    session_id = sessions.create_session(QUESTIONS)
    status = questions_dir / session_id / "status.json"
    whole = status.read_bytes()
    status.write_bytes(whole[:40])

    def mend(_: float) -> None:
        if len(fake.pauses) == 2:
            status.write_bytes(whole)

    fake.meanwhile = mend
    assert sessions.get(session_id).status is SessionStatus.PENDING
    assert fake.pauses == [0.08, 0.16]  # exponential
    fake.pauses.clear()
    fake.meanwhile = lambda _: None
    status.write_bytes(whole[:40])
    with pytest.raises(SessionCorrupted):
        sessions.get(session_id)
    assert fake.pauses == [0.08, 0.16, 0.32]  # three times, for more than half a second


def test_scenario_rejection_without_reason(sessions: QuestionSessions, questions_dir: Path) -> None:
    session_id = sessions.create_session(QUESTIONS)
    sessions.reject_session(session_id)
    status = json.loads((questions_dir / session_id / "status.json").read_text())
    assert status["status"] == "rejected"
    assert status["rejectionReason"] is None


def test_scenario_polling_for_completion_finds_answers(questions_dir: Path) -> None:
    sessions = build(questions_dir, watcher=NoWatcher())  # nobody tells: the poll is all there is
    session_id = sessions.create_session(QUESTIONS)
    assert POLL_S == 0.2
    answerer = threading.Timer(0.05, sessions.save_session_answers, [session_id, ANSWERS])
    answerer.start()
    assert sessions.wait_for_answers(session_id, 30).answers == ANSWERS
    answerer.join()


def test_scenario_call_id_verification(sessions: QuestionSessions) -> None:
    session_id = sessions.create_session(QUESTIONS, call_id="call-1")
    sessions.save_session_answers(session_id, ANSWERS)
    assert sessions.wait_for_answers(session_id, 5, "call-1").call_id == "call-1"
    with pytest.raises(CallIdMismatch) as caught:
        sessions.wait_for_answers(session_id, 5, "call-2")
    assert (caught.value.expected, caught.value.actual) == ("call-2", "call-1")


def test_scenario_call_id_verification_of_the_answers_themselves(
    sessions: QuestionSessions, questions_dir: Path
) -> None:
    session_id = sessions.create_session(QUESTIONS, call_id="call-1")
    sessions.save_session_answers(session_id, ANSWERS)
    path = questions_dir / session_id / "answers.json"
    path.write_text(path.read_text().replace("call-1", "call-2"))
    with pytest.raises(AnswersTimeout):  # another call's answers are ignored
        sessions.wait_for_answers(session_id, 0, "call-1")
    path.write_text(path.read_text().replace(',\n  "callId": "call-2"', ""))
    assert sessions.wait_for_answers(session_id, 5, "call-1").call_id is None


def test_scenario_call_id_verification_of_answers_that_come_before_their_status(
    sessions: QuestionSessions, questions_dir: Path
) -> None:
    session_id = sessions.create_session(QUESTIONS, call_id="call-1")
    other = sessions.create_session(QUESTIONS, call_id="call-2")
    sessions.save_session_answers(other, ANSWERS)
    answers = (questions_dir / other / "answers.json").read_text().replace(other, session_id)
    (questions_dir / session_id / "answers.json").write_text(answers)
    assert sessions.get(session_id).status is SessionStatus.PENDING
    with pytest.raises(AnswersTimeout):
        sessions.wait_for_answers(session_id, 0, "call-1")
    sessions.save_session_answers(session_id, ANSWERS)  # and the person can still answer
    assert sessions.wait_for_answers(session_id, 0, "call-1").call_id == "call-1"


def test_scenario_call_id_verification_takes_a_call_id_that_is_added_after_the_asking(
    sessions: QuestionSessions, questions_dir: Path
) -> None:
    session_id = sessions.create_session(QUESTIONS)
    for name in ("request.json", "status.json"):
        path = questions_dir / session_id / name
        path.write_text(json.dumps(json.loads(path.read_text()) | {"callId": "call-1"}))
    sessions.save_session_answers(session_id, ANSWERS)
    answers = json.loads((questions_dir / session_id / "answers.json").read_text())
    assert answers["callId"] == "call-1"
    assert sessions.wait_for_answers(session_id, 0, "call-1").answers == ANSWERS


def test_scenario_answers_that_were_fetched_say_when(
    sessions: QuestionSessions, questions_dir: Path, clock: FakeClock
) -> None:
    session_id = sessions.create_session(QUESTIONS)
    with pytest.raises(NoAnswers, match=f"^Session {session_id} has no answers to mark as read$"):
        sessions.mark_answers_read(session_id)
    sessions.save_session_answers(session_id, ANSWERS)
    path = questions_dir / session_id / "answers.json"
    before = json.loads(path.read_text())
    assert "lastReadAt" not in before
    path.write_text(json.dumps({"kept": 1, **before}, indent=2))
    clock.advance(2)
    marked = sessions.mark_answers_read(session_id)
    assert json.loads(path.read_text()) == {
        "kept": 1,
        **before,
        "lastReadAt": "2026-03-01T09:30:02.000Z",
    }
    assert list(json.loads(path.read_text()))[-1] == "lastReadAt"
    assert sessions.get(session_id).answers == marked
    assert marked.last_read_at == clock.now


def test_scenario_a_status_that_is_written_in_place_ends_the_wait(
    sessions: QuestionSessions, questions_dir: Path
) -> None:
    session_id = sessions.create_session(QUESTIONS)
    path = questions_dir / session_id / "status.json"
    with pytest.raises(AnswersTimeout):
        sessions.wait_for_answers(session_id, 0)
    rejected = path.read_text().replace("pending", "rejected")
    looks = FaultyFileSystem()
    later = build(questions_dir, fs=looks, watcher=NoWatcher(), wall=lambda: time.time() + 10)

    def has_been_seen() -> bool:
        return sum("answers.json" in step for step in looks.steps(questions_dir)) >= 1

    writer = when(has_been_seen, lambda: path.write_text(rejected))
    with pytest.raises(SessionRejected):
        later.wait_for_answers(session_id, 60)
    writer.join()
