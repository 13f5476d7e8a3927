"""Tasks about question sessions for `_workers`: what is killed, and what races."""

from __future__ import annotations

import json
import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

import structlog

from agentforge_sessions.base.files import FileSystem
from agentforge_sessions.questions import (
    Option,
    Question,
    QuestionError,
    QuestionsConfig,
    QuestionSessions,
    SessionEnded,
    SessionNotFound,
    UserAnswer,
)
from tests.support.questions import ANSWERS, QUESTIONS

Tell = Callable[..., None]
_LEAST_STEPS = 30
"""What each racer does at least, however little time the machine gives it."""
_ROOM = QuestionsConfig(max_sessions=1_000_000)


def open_questions(base: str | Path, fs: FileSystem | None = None) -> QuestionSessions:
    structlog.configure(processors=[_silence])
    return QuestionSessions(base, config=_ROOM, fs=fs)


def _silence(*_: object) -> Any:
    raise structlog.DropEvent


def marked(mark: str) -> tuple[UserAnswer, ...]:
    """Answers that tell whose they are, long enough to be torn if anything tears."""
    return (UserAnswer(question_index=0, custom_text=f"{mark} " + "x" * 6_000),)


def change_question(
    tell: Tell, *, base: str, operation: str, session_id: str, fs: FileSystem
) -> None:
    """Do one thing to a question session through a file system that may end this process."""
    sessions = open_questions(base, fs)
    if operation == "create":
        sessions.create_session(QUESTIONS)
    elif operation == "answer":
        sessions.save_session_answers(session_id, ANSWERS)
    else:
        sessions.reject_session(session_id, "because " * 500)


def race_questions(
    tell: Tell, *, base: str, start: float, worker: int, seconds: float, log: str
) -> None:
    """Create, answer, reject, abandon, read and list at random; note in `log` what was done."""
    sessions = open_questions(base)
    rng = random.Random(worker)
    counts = dict.fromkeys(("created", "ended", "refused", "read", "listed"), 0)
    while time.monotonic() < start:
        time.sleep(0.001)
    end = time.monotonic() + seconds
    with Path(log).open("w") as notes:
        steps = 0
        while time.monotonic() < end or steps < _LEAST_STEPS:
            _one_step(sessions, rng, worker, counts, notes)
            steps += 1
    tell(**counts)


def _one_step(
    sessions: QuestionSessions,
    rng: random.Random,
    worker: int,
    counts: dict[str, int],
    notes: TextIO,
) -> None:
    names = sessions.store.names()
    chance = rng.random()
    if chance < 0.15 or not names:
        question = Question(
            prompt="p" * 5_000, title="t", options=(Option(label="a"), Option(label="b"))
        )
        made = sessions.create_session([question])
        counts["created"] += 1
        print(json.dumps({"created": made}), file=notes)
        return
    if chance < 0.25:
        wrong: list[Any] = []
        sessions.list_sessions(on_unreadable=wrong.append)
        assert not wrong, wrong[0].error
        counts["listed"] += 1
        return
    chosen = rng.choice(names[-8:] if chance < 0.9 else names)
    if chance < 0.5:
        found = sessions.get(chosen)
        assert found.status.is_terminal == (found.status.value != "pending")
        if found.answers is not None:
            assert len(found.answers.answers[0].custom_text or "") > 6_000
        counts["read"] += 1
        return
    mark = f"{worker}-{rng.random()}"
    try:
        if chance < 0.7:
            operation = "completed"
            sessions.save_session_answers(chosen, marked(mark))
        elif chance < 0.85:
            operation = "rejected"
            sessions.reject_session(chosen, mark)
        else:
            operation = "abandoned"
            sessions.abandon_session(chosen, mark)
    except SessionEnded:
        counts["refused"] += 1
        return
    counts["ended"] += 1
    print(json.dumps({"ended": chosen, "status": operation, "mark": mark}), file=notes)


def ask_until_killed(tell: Tell, *, base: str, seed: int) -> None:
    """Ask and wait a moment, for ever; say what is done after it is done."""
    sessions = open_questions(base)
    tell(did="began")
    while True:
        session_id = sessions.create_session(QUESTIONS)
        tell(did="created", id=session_id)
        try:
            sessions.wait_for_answers(session_id, 0.005)
        except QuestionError:
            continue


def answer_until_killed(tell: Tell, *, base: str, seed: int) -> None:
    """Answer, reject or abandon what waits, for ever; say what is done after it is done."""
    sessions = open_questions(base)
    rng = random.Random(seed)
    tell(did="began")
    while True:
        for waiting in sessions.pending()[:5]:
            one = waiting.session_id
            try:
                if rng.random() < 0.6:
                    sessions.save_session_answers(one, ANSWERS)
                    tell(did="completed", id=one)
                else:
                    sessions.reject_session(one, "no")
                    tell(did="rejected", id=one)
            except (SessionEnded, SessionNotFound):
                continue
        time.sleep(0.001)


def hold_until_killed(tell: Tell, *, base: str, seed: int) -> None:
    """Hold the locks of sessions, one after another, for ever."""
    sessions = open_questions(base)
    rng = random.Random(seed)
    tell(did="began")
    while True:
        names = sessions.store.names()
        if not names:
            time.sleep(0.001)
            continue
        with sessions.store.locked(rng.choice(names)):
            time.sleep(0.002)


def hold_one(tell: Tell, *, base: str, session_id: str) -> None:
    """Hold the lock of one session until killed."""
    with open_questions(base).store.locked(session_id):
        tell(did="held", pid=os.getpid())
        time.sleep(600)


TASKS: dict[str, Callable[..., None]] = {
    task.__name__: task
    for task in (
        race_questions,
        ask_until_killed,
        answer_until_killed,
        hold_until_killed,
        hold_one,
    )
}
