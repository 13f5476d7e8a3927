"""Question sessions for any values, any order of events and any bytes on the disk."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, rule

from agentforge_sessions.base.files.process_owner import OsProcesses, judge
from agentforge_sessions.base.question import InvalidQuestions
from agentforge_sessions.questions import (
    InvalidAnswers,
    Option,
    Question,
    QuestionError,
    QuestionsConfig,
    QuestionSessions,
    SessionCorrupted,
    SessionEnded,
    SessionStatus,
    UserAnswer,
    format_user_response,
    parse_answers,
    parse_questions,
)
from agentforge_sessions.questions.domain import SessionAnswers, SessionRequest, StatusRecord
from agentforge_sessions.questions.files import wire
from agentforge_sessions.questions.rules import answer_faults, question_faults, submission_faults
from tests.support.clock import FakeClock
from tests.support.questions import build
from tests.support.soak import examples

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
LABEL = st.sampled_from(["a", "b", "c", "é", "it's", "→", "", " "]) | TEXT
OPTIONS = st.builds(Option, label=LABEL, description=st.none() | TEXT)
QUESTIONS = st.builds(
    Question,
    prompt=TEXT,
    title=TEXT,
    options=st.lists(OPTIONS, max_size=5),
    multi_select=st.booleans(),
)
ANSWERS = st.builds(
    UserAnswer,
    question_index=st.integers(-1, 4),
    selected_option=st.none() | LABEL,
    selected_options=st.none() | st.lists(LABEL, max_size=4),
    custom_text=st.none() | TEXT,
)
TIMES = st.datetimes(
    datetime(1, 1, 3),
    datetime(9999, 12, 29),
    timezones=st.sampled_from([UTC, timezone(timedelta(hours=14))]),
)
IDS = st.uuids(version=4).map(str)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(IDS, st.lists(QUESTIONS, max_size=3), TIMES, st.none() | TEXT)
@settings(max_examples=examples(100))
def test_a_request_is_read_as_it_was_written(
    session_id: str, questions: list[Question], at: datetime, call_id: str | None
) -> None:
    request = SessionRequest(
        session_id=session_id,
        questions=questions,
        status=SessionStatus.PENDING,
        timestamp=wire.to_millis(at),
        call_id=call_id,
    )
    assert wire.read_request(wire.encode(wire.request_document(request))) == request


@given(IDS, st.sampled_from(SessionStatus), TIMES, TIMES, st.none() | TEXT, st.none() | TEXT)
@settings(max_examples=examples(100))
def test_a_status_is_read_as_it_was_written(
    session_id: str,
    status: SessionStatus,
    created: datetime,
    modified: datetime,
    rejection: str | None,
    reason: str | None,
) -> None:
    record = StatusRecord(
        session_id=session_id,
        status=status,
        created_at=wire.to_millis(created),
        last_modified=wire.to_millis(modified),
        total_questions=2,
        rejection_reason=rejection,
        end_reason=reason,
    )
    assert wire.read_status(wire.encode(wire.status_document(record))) == record


@given(IDS, st.lists(ANSWERS, max_size=4), TIMES)
@settings(max_examples=examples(100))
def test_answers_are_read_as_they_were_written(
    session_id: str, answers: list[UserAnswer], at: datetime
) -> None:
    saved = SessionAnswers(session_id=session_id, answers=answers, timestamp=wire.to_millis(at))
    assert wire.read_answers(wire.encode(wire.answers_document(saved))) == saved


@given(JSON)
@settings(max_examples=examples(200))
def test_any_json_is_read_or_refused_in_words(document: Any) -> None:
    data = json.dumps(document).encode()
    for read in (wire.read_request, wire.read_status, wire.read_answers):
        with pytest.raises(wire.WireError) as caught:
            read(data)
        assert caught.value.faults
    for parse, refusal in ((parse_questions, InvalidQuestions), (parse_answers, InvalidAnswers)):
        try:
            parse(document)
        except refusal as error:
            assert error.faults  # noqa: PT017 (some documents are fine)


@given(st.binary(max_size=200))
@settings(max_examples=examples(200))
def test_any_bytes_are_refused_in_words_and_judged_as_a_lock(data: bytes) -> None:
    for read in (wire.read_request, wire.read_status, wire.read_answers):
        with pytest.raises(wire.WireError):
            read(data)
    judge(data, written_at=0.0, processes=OsProcesses())


@given(st.lists(ANSWERS, min_size=1, max_size=4), st.lists(QUESTIONS, min_size=1, max_size=3))
@settings(max_examples=examples(200))
def test_every_answer_has_its_place_in_the_text(
    answers: list[UserAnswer], questions: list[Question]
) -> None:
    text = format_user_response(answers, questions)
    assert text.startswith("Here are the user's answers:\n\n")
    first = {one.question_index: one for one in reversed(answers)}
    parts = []
    for index, question in enumerate(questions):
        if index in first:
            begin = f"{index + 1}. {question.prompt}"
            parts.append(begin)
            assert begin in text
            custom = first[index].custom_text
            if custom:
                escaped = custom.replace("'", "\\'")
                assert f"\n→ Other: '{escaped}'" in text
    if not parts:
        assert text == "Here are the user's answers:\n\n"


@given(st.lists(ANSWERS, max_size=4), st.lists(QUESTIONS, min_size=1, max_size=3))
@settings(max_examples=examples(200))
def test_what_may_be_written_is_always_readable(
    answers: list[UserAnswer], questions: list[Question]
) -> None:
    if not submission_faults(answers, questions, QuestionsConfig()):
        assert answer_faults(answers, questions) == []
        format_user_response(answers, questions)
        assert question_faults(questions, QuestionsConfig()) is not None


class Story(RuleBasedStateMachine):
    """Any order of asking, answering, ending, waiting and time passing, against a model."""

    ids = Bundle("ids")

    @initialize()
    def begin(self) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.clock = FakeClock()
        self.model: dict[str, SessionStatus] = {}
        self.created: dict[str, datetime] = {}
        self.sessions = self.open()

    def open(self) -> QuestionSessions:
        return build(
            Path(self.directory.name) / "q", clock=self.clock, session_timeout_s=100, max_sessions=4
        )

    def overdue(self, name: str) -> bool:
        return self.clock.now - self.created[name] >= timedelta(seconds=100)

    @rule(target=ids)
    def ask(self) -> str:
        waiting = [
            name
            for name, status in self.model.items()
            if status is SessionStatus.PENDING and not self.overdue(name)
        ]
        question = Question(prompt="p", title="t", options=[Option(label="a"), Option(label="b")])
        if len(waiting) >= 4:
            with pytest.raises(QuestionError):
                self.sessions.create_session([question])
            return waiting[0]
        name = self.sessions.create_session([question])
        self.model[name], self.created[name] = SessionStatus.PENDING, self.clock.now
        return name

    def _end(self, name: str, act: Callable[[], object], target: SessionStatus) -> None:
        if self.model[name].is_terminal:
            with pytest.raises(SessionEnded) as caught:
                act()
            assert caught.value.status is self.model[name]
        else:
            act()
            self.model[name] = target

    @rule(name=ids)
    def answer(self, name: str) -> None:
        given = [UserAnswer(question_index=0, selected_option="b")]
        act = lambda: self.sessions.save_session_answers(name, given)  # noqa: E731
        if self.model[name] is SessionStatus.PENDING and self.overdue(name):
            with pytest.raises(SessionEnded):
                act()
            self.model[name] = SessionStatus.TIMED_OUT
        else:
            self._end(name, act, SessionStatus.COMPLETED)

    @rule(name=ids)
    def reject(self, name: str) -> None:
        self._end(name, lambda: self.sessions.reject_session(name), SessionStatus.REJECTED)

    @rule(name=ids)
    def abandon(self, name: str) -> None:
        self._end(name, lambda: self.sessions.abandon_session(name), SessionStatus.ABANDONED)

    @rule(name=ids)
    def wait(self, name: str) -> None:
        status = self.model[name]
        try:
            found = self.sessions.wait_for_answers(name, 0)
        except SessionEnded as error:
            assert error.status is status  # noqa: PT017 (it may be answered)
        except TimeoutError:
            assert status is SessionStatus.PENDING
            if self.overdue(name):
                self.model[name] = SessionStatus.TIMED_OUT
        else:
            assert status is SessionStatus.COMPLETED
            assert found.answers[0].selected_option == "b"

    @rule(seconds=st.sampled_from([-50, 1, 60, 200]))
    def time_passes(self, seconds: int) -> None:
        self.clock.advance(seconds)

    @rule(name=ids)
    def somebody_breaks_the_answers(self, name: str) -> None:
        if self.model[name] is SessionStatus.PENDING:
            (self.sessions.base_dir / name / "answers.json").write_text("{")
            with pytest.raises(SessionCorrupted):
                self.sessions.wait_for_answers(name, 0)
            self.model[name] = SessionStatus.ABANDONED

    @rule()
    def another_process(self) -> None:
        known = self.sessions
        self.sessions = self.open()
        self.sessions._new_id = known._new_id

    @invariant()
    def the_disk_is_as_the_model(self) -> None:
        if not hasattr(self, "model"):
            return
        found = {one.session_id: one for one in self.sessions.list_sessions()}
        assert {name: one.status for name, one in found.items()} == self.model
        for name, one in found.items():
            assert one.created_at <= one.last_modified
            assert (one.answers is not None) == (self.model[name] is SessionStatus.COMPLETED)

    def teardown(self) -> None:
        if hasattr(self, "directory"):
            self.directory.cleanup()


Story.TestCase.settings = settings(max_examples=examples(15), stateful_step_count=20)
TestStory = Story.TestCase
