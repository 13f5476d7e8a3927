"""A session ends once, whoever comes, dies or fails meanwhile."""

# ruff: noqa: B023, PT017 (threads end within their turn; a fault may hit any step, or none)
from __future__ import annotations

import errno
import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agentforge_sessions.base.errors import AmbiguousId
from agentforge_sessions.base.question import InvalidQuestions
from agentforge_sessions.questions import (
    AtomicReadError,
    InvalidAnswers,
    Option,
    Question,
    QuestionError,
    QuestionSessions,
    SessionCorrupted,
    SessionEnded,
    SessionNotFound,
    SessionStatus,
    UnreadableQuestion,
    UserAnswer,
    format_user_response,
)
from agentforge_sessions.questions.disk_errors import AtomicWriteError, SessionBusy
from agentforge_sessions.questions.domain import TRANSITIONS
from agentforge_sessions.questions.errors import InvalidSessionId
from tests.support.clock import FakeClock
from tests.support.filesystem import Call, FaultyFileSystem, nth_call
from tests.support.listing import names_in
from tests.support.questions import ANSWERS, MISSING, QUESTIONS, build

Act = Callable[[QuestionSessions, str], object]
ACTS: dict[str, Act] = {
    "answer": lambda sessions, one: sessions.save_session_answers(one, ANSWERS),
    "reject": lambda sessions, one: sessions.reject_session(one, "why"),
    "time out": lambda sessions, one: sessions.time_out_session(one),
    "abandon": lambda sessions, one: sessions.abandon_session(one, "gone"),
}


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path / "questions"


@pytest.fixture
def sessions(base: Path, clock: FakeClock) -> QuestionSessions:
    return build(base, clock=clock)


@pytest.fixture
def impatient(base: Path, clock: FakeClock) -> QuestionSessions:
    """Pauses for nobody: for tests in which nobody else writes a file or holds a lock."""
    return build(base, clock=clock, sleep=lambda _: None)


def content(base: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(base)): path.read_bytes() for path in base.rglob("*") if path.is_file()
    }


# ------------------------------------------------------------------------- the state machine


@pytest.mark.parametrize("first", ACTS)
@pytest.mark.parametrize("second", ACTS)
def test_a_session_that_ended_is_changed_by_nobody(
    sessions: QuestionSessions, base: Path, clock: FakeClock, first: str, second: str
) -> None:
    session_id = sessions.create_session(QUESTIONS)
    ACTS[first](sessions, session_id)
    before = content(base)
    clock.advance(5)
    with pytest.raises(SessionEnded) as caught:
        ACTS[second](sessions, session_id)
    assert caught.value.status is TRANSITIONS[first]
    assert caught.value.operation == second
    assert content(base) == before


def test_of_many_at_once_one_wins_and_the_others_are_told(base: Path) -> None:
    for turn in range(6):
        sessions = QuestionSessions(base)
        session_id = sessions.create_session(QUESTIONS)
        ended: list[str] = []
        refused: list[SessionStatus] = []
        barrier = threading.Barrier(8)

        def act(operation: str) -> None:
            barrier.wait()
            try:
                ACTS[operation](sessions, session_id)
                ended.append(operation)
            except SessionEnded as error:
                refused.append(error.status)

        names = list(ACTS) * 2
        threads = [
            threading.Thread(target=act, args=[name])
            for name in names[turn % 4 :] + names[: turn % 4]
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(ended) == 1
        final = sessions.get(session_id)
        assert final.status is TRANSITIONS[ended[0]]
        assert refused == [final.status] * 7
        assert sessions.validate_session(session_id).is_valid


# -------------------------------------------------------------- faults, kills and other programs


def test_answers_on_disk_count_though_the_status_is_behind(
    sessions: QuestionSessions, base: Path
) -> None:
    session_id = sessions.create_session(QUESTIONS)
    behind = (base / session_id / "status.json").read_bytes()
    sessions.save_session_answers(session_id, ANSWERS)
    (base / session_id / "status.json").write_bytes(behind)  # killed between the two writes
    anew = build(base)
    assert anew.get(session_id).status is SessionStatus.COMPLETED
    assert [one.status for one in anew.list_sessions()] == [SessionStatus.COMPLETED]
    assert anew.pending() == []
    assert anew.wait_for_answers(session_id, 0).answers == ANSWERS
    assert anew.validate_session(session_id).is_valid
    with pytest.raises(SessionEnded) as caught:
        anew.reject_session(session_id)  # a reject after the answer
    assert caught.value.status is SessionStatus.COMPLETED
    status = json.loads((base / session_id / "status.json").read_text())
    assert status["status"] == "completed"  # finished by whoever came next


def test_a_status_that_could_not_be_written_does_not_undo_the_answer(base: Path) -> None:
    session_id = build(base).create_session(QUESTIONS)

    def plan(_: int, call: Call) -> int | None:
        writes_status = call.operation == "rename" and call.path.endswith("/status.json")
        return errno.EIO if writes_status else None

    build(base, fs=FaultyFileSystem(plan=plan)).save_session_answers(session_id, ANSWERS)
    assert build(base).get(session_id).status is SessionStatus.COMPLETED


@pytest.mark.parametrize("operation", ["create", *ACTS])
def test_every_fault_leaves_the_session_before_or_after_and_no_descriptor(
    base: Path, operation: str
) -> None:
    number = failed = 0
    while True:
        directory = base / str(number)
        sessions = build(directory, sleep=lambda _: None)
        session_id = sessions.create_session(QUESTIONS)
        fs = FaultyFileSystem(plan=nth_call(number, errno.EIO))
        failing = build(directory, fs=fs, sleep=lambda _: None)
        try:
            if operation == "create":
                failing.create_session(QUESTIONS, session_id="00000002-0000-4000-8000-000000000000")
            else:
                ACTS[operation](failing, session_id)
        except QuestionError as error:
            failed += 1
            assert isinstance(error, AtomicWriteError | AtomicReadError)
            done = False
        else:
            done = True
        assert fs.open_descriptors == {}, number
        listed = sessions.list_sessions()
        if operation == "create":
            assert [one.status for one in listed] == ["pending"] * (1 + done)
        else:
            expected = TRANSITIONS[operation] if done else SessionStatus.PENDING
            assert [one.status for one in listed] == [expected], number
        assert all(sessions.validate_session(one.session_id).is_valid for one in listed)
        if not done:  # the next one can
            if operation == "create":
                sessions.create_session(QUESTIONS)
            else:
                ACTS[operation](sessions, session_id)
        if not fs.failed:
            break
        number += 1
    assert failed > 10


def test_no_fault_while_a_fetch_is_noted_loses_an_answer(base: Path) -> None:
    sessions = build(base, sleep=lambda _: None)
    session_id = sessions.create_session(QUESTIONS)
    sessions.save_session_answers(session_id, ANSWERS)
    number = failed = 0
    while True:
        fs = FaultyFileSystem(plan=nth_call(number, errno.EIO))
        try:
            build(base, fs=fs, sleep=lambda _: None).mark_answers_read(session_id)
        except QuestionError:
            failed += 1
        assert fs.open_descriptors == {}, number
        found = sessions.get(session_id).answers
        assert found is not None
        assert found.answers == ANSWERS, number
        if not fs.failed:
            break
        number += 1
    assert failed > 5


def test_the_clock_going_back_does_not_reach_the_files(
    sessions: QuestionSessions, clock: FakeClock
) -> None:
    session_id = sessions.create_session(QUESTIONS)
    created = clock.now
    clock.advance(-3600)
    saved = sessions.save_session_answers(session_id, ANSWERS)
    record = sessions.get(session_id).record
    assert record.last_modified == record.created_at == created == saved.timestamp


def test_what_other_programs_keep_in_the_status_stays(
    sessions: QuestionSessions, base: Path
) -> None:
    session_id = sessions.create_session(QUESTIONS)
    path = base / session_id / "status.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"workingDirectory": "/srv"}))
    sessions.reject_session(session_id)
    found = json.loads(path.read_text())
    assert (found["status"], found["workingDirectory"]) == ("rejected", "/srv")


def test_files_of_other_programs_are_read(sessions: QuestionSessions, base: Path) -> None:
    directory = base / MISSING
    directory.mkdir(parents=True)
    (directory / "request.json").write_text(
        json.dumps(
            {
                "questions": [
                    {"prompt": "p", "title": "t", "options": [{"label": "a"}, {"label": "a"}]}
                ],
                "sessionId": MISSING,
                "status": "pending",
                "timestamp": "2026-03-01T10:30:00+01:00",
                "workingDirectory": "/srv",
            }
        )
    )
    (directory / "status.json").write_text(
        json.dumps(
            {
                "createdAt": "2026-03-01T09:30:00Z",
                "lastModified": "2026-03-01T09:30:00",
                "sessionId": MISSING,
                "status": "pending",
                "totalQuestions": 1,
                "currentQuestionIndex": 0,
            }
        )
    )
    found = sessions.get(MISSING)
    assert found.questions[0].multi_select is False
    assert found.request.timestamp == found.created_at == found.last_modified
    sessions.save_session_answers(MISSING, [UserAnswer(question_index=0, selected_option="a")])
    assert sessions.get(MISSING).status is SessionStatus.COMPLETED


def test_a_session_that_can_not_be_read_can_still_be_abandoned(
    impatient: QuestionSessions, base: Path
) -> None:
    session_id = impatient.create_session(QUESTIONS)
    (base / session_id / "request.json").write_text("{")
    for operation in ("answer", "reject", "time out"):
        with pytest.raises(SessionCorrupted):
            ACTS[operation](impatient, session_id)
    with pytest.raises(SessionCorrupted) as caught:
        impatient.wait_for_answers(session_id, 1)
    assert caught.value.abandoned
    assert impatient.store.read_record(session_id).status is SessionStatus.ABANDONED


def test_nobody_answers_a_session_that_another_program_locks(base: Path) -> None:
    sessions = build(base, lock_timeout_s=0.05)
    session_id = sessions.create_session(QUESTIONS)
    (base / session_id / "status.json.lock").write_text(str(os.getpid()))
    with pytest.raises(SessionBusy, match=f"pid {os.getpid()}"):
        sessions.save_session_answers(session_id, ANSWERS)
    assert sessions.get(session_id).status is SessionStatus.PENDING


# ------------------------------------------------------------------------------------- asking


def test_everything_wrong_with_the_questions_is_told_at_once(
    sessions: QuestionSessions, base: Path
) -> None:
    bad = Question(
        prompt=" ",
        title="",
        options=[Option(label="a"), Option(label="a"), Option(label="")],
    )
    few = Question(prompt="p", title="t", options=[Option(label="only", description="x" * 20_001)])
    with pytest.raises(InvalidQuestions) as caught:
        sessions.create_session([bad, few], call_id="")
    assert caught.value.faults == (
        "questions[0].prompt: it is empty",
        "questions[0].title: it is empty",
        "questions[0].options[1].label: 'a' is there already; an answer could not tell them apart",
        "questions[0].options[2].label: it is empty",
        "questions[1].options: 1 are fewer than min_options (2)",
        "questions[1].options[0].description: 20,001 characters are more than 20,000",
        "callId: expected 1 to 1000 characters that UTF-8 can hold",
    )
    assert not base.exists()


def test_what_is_no_value_is_refused_in_words(sessions: QuestionSessions) -> None:
    with pytest.raises(InvalidQuestions, match=r"questions\[1\]: expected a question, got dict"):
        sessions.create_session([QUESTIONS[0], {"prompt": "p"}])  # type: ignore[list-item]
    with pytest.raises(InvalidQuestions, match="callId"):
        sessions.create_session(QUESTIONS, call_id="\ud800")
    session_id = sessions.create_session(QUESTIONS)
    with pytest.raises(InvalidAnswers, match=r"answers\[0\]: expected an answer, got str"):
        sessions.save_session_answers(session_id, ["PostgreSQL"])  # type: ignore[list-item]
    assert len(sessions.pending()) == 1


def test_an_option_may_be_given_by_its_label() -> None:
    named = Question(prompt="p", title="t", options=["a", Option(label="b")])
    assert named == Question(prompt="p", title="t", options=[Option(label="a"), Option(label="b")])
    assert Question(prompt="p", title="t").options == ()


def test_values_tell_everything_that_is_wrong_with_them_at_once() -> None:
    with pytest.raises(InvalidQuestions) as caught:
        Question(prompt=1, title="\ud800", options=[5], multi_select=1)  # type: ignore[arg-type]
    assert len(caught.value.faults) == 4
    with pytest.raises(InvalidQuestions):
        Question(prompt="p", title="t", options="ab")  # type: ignore[arg-type]
    with pytest.raises(InvalidQuestions) as caught:
        Option(label=None, description=3)  # type: ignore[arg-type]
    assert len(caught.value.faults) == 2
    with pytest.raises(InvalidAnswers) as refused:
        UserAnswer(question_index=True, selected_option=1, selected_options=[2])  # type: ignore[arg-type]
    assert len(refused.value.faults) == 3


def test_free_text_alone_may_be_asked_for_where_the_configuration_says_so(base: Path) -> None:
    sessions = build(base, min_options=0)
    session_id = sessions.create_session([Question(prompt="Name?", title="Name", options=())])
    answer = UserAnswer(question_index=0, custom_text="Ada")
    sessions.save_session_answers(session_id, [answer])
    assert sessions.wait_for_answers(session_id, 0).answers == (answer,)


def test_a_session_is_never_seen_before_all_of_its_files_are(base: Path) -> None:
    seen = []

    def look(_: Call) -> None:
        names = QuestionSessions(base).store.names()
        seen.extend(sorted(os.listdir(base / name)) for name in names)

    build(base, fs=FaultyFileSystem(before=look)).create_session(QUESTIONS)
    assert seen
    assert all(names == ["request.json", "status.json"] for names in seen)


# ---------------------------------------------------------------------------------- answering


@pytest.mark.parametrize(
    ("answers", "fault"),
    [
        ([], "No answers provided"),
        (
            [UserAnswer(question_index=0, custom_text="a")] * 2,
            "Question 0 is answered more than once",
        ),
        (
            [UserAnswer(question_index=0, selected_options=["PostgreSQL", "SQLite"])],
            "Question 0 takes one option, and 2 were selected",
        ),
        (
            [UserAnswer(question_index=1, selected_options=["Auth", "Auth"])],
            "Answer for question 1 selects an option more than once",
        ),
        (
            [UserAnswer(question_index=0, custom_text="x" * 20_001)],
            "The text for question 0 has more than 20,000 characters",
        ),
        ([UserAnswer(question_index=0, custom_text="")], "Answer for question 0 has neither"),
        (
            [ANSWERS[0], UserAnswer(question_index=None, custom_text="x")],
            "answers[1].questionIndex: expected a whole number; the answer names no question",
        ),
    ],
)
def test_answers_that_do_not_fit_are_refused_and_nothing_is_written(
    sessions: QuestionSessions, base: Path, answers: list[UserAnswer], fault: str
) -> None:
    session_id = sessions.create_session(QUESTIONS)
    before = content(base)
    with pytest.raises(InvalidAnswers) as caught:
        sessions.save_session_answers(session_id, answers)
    assert str(caught.value).startswith(fault)
    assert caught.value.session_id == session_id
    assert content(base) == before


def test_an_entry_of_another_program_without_an_index_hides_no_answer(
    sessions: QuestionSessions, base: Path
) -> None:
    session_id = sessions.create_session(QUESTIONS)
    entries = [
        {"customText": "to nothing"},
        {"questionIndex": "0", "selectedOption": "SQLite"},
        {"questionIndex": 1, "selectedOptions": ["Auth"]},
    ]
    document = {"sessionId": session_id, "answers": entries, "timestamp": "2026-03-01T09:30:00Z"}
    (base / session_id / "answers.json").write_text(json.dumps(document))

    session = sessions.get(session_id)

    assert session.status is SessionStatus.COMPLETED
    assert session.answers is not None
    named = UserAnswer(question_index=1, selected_options=["Auth"])
    assert session.answers.numbered() == [(1, named)]
    assert format_user_response(session.answers, QUESTIONS) == (
        "Here are the user's answers:\n\n2. Which features?\n→ Auth — log in"
    )
    report = sessions.validate_session(session_id)
    assert report.is_valid
    assert [one for one in report.remarks if "questionIndex" in one] == [
        f"answers.json: answers[{i}].questionIndex: expected a whole number; "
        "the answer names no question"
        for i in (0, 1)
    ]


def test_a_reason_of_blanks_is_none(sessions: QuestionSessions) -> None:
    session_id = sessions.create_session(QUESTIONS)
    assert sessions.reject_session(session_id, "  \n").rejection_reason is None
    with pytest.raises(InvalidAnswers):
        sessions.reject_session(session_id, "x" * 20_001)
    with pytest.raises(InvalidAnswers):
        sessions.reject_session(session_id, "\ud800")


# ------------------------------------------------------------------------------------ looking


def test_listing_never_fails_because_of_one_bad_directory(
    impatient: QuestionSessions, base: Path, clock: FakeClock, tmp_path: Path
) -> None:
    first = impatient.create_session(QUESTIONS)
    clock.advance(1)
    second = impatient.create_session(QUESTIONS)
    bad = {}

    def make(number: int, act: Callable[[Path], object]) -> None:
        name = f"0000000a-0000-4000-8000-{number:012x}"
        bad[name] = act(base / name)

    make(1, lambda path: path.mkdir())
    make(2, lambda path: path.write_text("a file"))
    make(3, lambda path: os.symlink(base / first, path))
    make(4, os.mkfifo)
    for number, name, text in (
        (5, "status.json", b"\x00" * 100),
        (6, "status.json", b"[" * 100_000),
        (7, "request.json", b'{"sessionId": 1}'),
        (8, "status.json", b'{"status": "in-between"}'),
        (9, "request.json", b"9" * 10_000),
    ):

        def half(path: Path, name: str = name, text: bytes = text) -> None:
            path.mkdir()
            for one in ("status.json", "request.json"):
                data = (base / first / one).read_text().replace(first, path.name)
                (path / one).write_text(data)
            (path / name).write_bytes(text)

        make(number, half)
    (base / "notes.txt").write_text("not ours")
    (base / ".new-abc").mkdir()
    unreadable: list[UnreadableQuestion] = []
    found = impatient.list_sessions(on_unreadable=unreadable.append)
    assert [one.session_id for one in found] == [first, second]
    assert [one.session_id for one in unreadable] == sorted(bad)
    assert all(isinstance(one.error, QuestionError) for one in unreadable)


def test_listing_reads_only_what_changed(base: Path, clock: FakeClock) -> None:
    fs = FaultyFileSystem()
    later = {"s": 3600.0}
    sessions = build(base, fs=fs, clock=clock, wall=lambda: time.time() + later["s"])
    first, second = sessions.create_session(QUESTIONS), sessions.create_session(QUESTIONS)
    assert len(sessions.list_sessions()) == 2
    fs.begin()
    assert len(sessions.list_sessions()) == 2
    assert [call.operation for call in fs.trace if call.operation == "pread"] == []
    sessions.reject_session(first)
    fs.begin()
    assert [one.session_id for one in sessions.pending()] == [second]
    assert not any(second in call.path for call in fs.trace if call.operation == "pread")


def test_a_change_in_the_same_tick_of_the_file_clock_is_not_missed(base: Path) -> None:
    tick = 1_772_000_000.0
    sessions = build(base, wall=lambda: tick)
    session_id = sessions.create_session(QUESTIONS)
    os.utime(base / session_id, (tick, tick))
    assert sessions.list_sessions()[0].status is SessionStatus.PENDING
    sessions.reject_session(session_id)
    os.utime(base / session_id, (tick, tick))
    assert sessions.list_sessions()[0].status is SessionStatus.REJECTED


def test_a_wait_does_not_miss_a_change_in_the_same_tick(base: Path) -> None:
    from agentforge_sessions.questions.waiting.waiting import Deadline, Wait

    tick = 1_772_000_000.0
    sessions = build(base, wall=lambda: tick)
    session_id = sessions.create_session(QUESTIONS)
    os.utime(base / session_id, (tick, tick))
    wait = Wait(
        session_id,
        None,
        Deadline(None, session_left_s=None, now=0.0),
        on_timeout="leave",
        store=sessions.store,
        monotonic=lambda: 0.0,
        end=lambda _, __, ___: None,
    )
    assert wait.look() is None
    sessions.save_session_answers(session_id, ANSWERS)
    os.utime(base / session_id, (tick, tick))
    assert wait.has_changed()
    assert wait.look() is not None


def test_there_is_nothing_where_there_is_no_directory(sessions: QuestionSessions) -> None:
    assert sessions.list_sessions() == []
    assert sessions.pending() == []
    assert sessions.short_ids() == {}
    assert not sessions.exists(MISSING)
    result = sessions.cleanup_expired_sessions()
    assert (result.deleted, result.kept, result.failed) == ((), 0, ())


def test_shortened_ids(base: Path) -> None:
    ids = iter(
        [
            "abcdef01-0000-4000-8000-000000000000",
            "abcdef01-0000-4000-8000-00000000000f",
            "12345678-0000-4000-8000-000000000000",
        ]
    )
    sessions = build(base, new_id=lambda: next(ids))
    one, two, three = (sessions.create_session(QUESTIONS) for _ in range(3))
    assert sessions.resolve_id("1") == sessions.resolve_id(" 12345678 ") == three
    assert sessions.resolve_id(two.upper()) == two
    assert sessions.resolve_id("f") == two  # an end wins over a middle; no id begins so
    with pytest.raises(AmbiguousId) as caught:
        sessions.resolve_id("ABC")
    assert caught.value.candidates == (one, two)
    with pytest.raises(SessionNotFound):
        sessions.resolve_id("fff")
    for hostile in ("", "../x", "abc*", "x" * 50, "\n"):
        with pytest.raises(InvalidSessionId):
            sessions.resolve_id(hostile)
    assert sessions.short_ids() == {one: one, two: two, three: "12345678"}


# ------------------------------------------------------------------------------------ clean-up


def test_a_clean_up_finishes_what_killed_processes_left(
    sessions: QuestionSessions, base: Path, clock: FakeClock
) -> None:
    sessions.create_session(QUESTIONS)
    for name in (".discarded-abc", ".new-01d0", ".new-f7e5"):
        (base / name).mkdir()
        (base / name / "request.json").write_text("{")
    os.utime(base / ".new-01d0", (0, 0))
    sessions.cleanup_expired_sessions()
    left = [name for name in names_in(base) if name.startswith(".")]
    assert left == [".new-f7e5"]


def test_a_clean_up_leaves_a_session_that_somebody_is_changing(
    base: Path, clock: FakeClock
) -> None:
    sessions = build(base, clock=clock)
    session_id = sessions.create_session(QUESTIONS)
    clock.advance(8 * 86_400)
    with sessions.store.locked(session_id):
        result = sessions.cleanup_expired_sessions()
    assert (result.deleted, result.kept) == ((), 1)
    assert sessions.cleanup_expired_sessions().deleted == (session_id,)


def test_a_clean_up_leaves_what_it_can_not_date(
    impatient: QuestionSessions, base: Path, clock: FakeClock
) -> None:
    session_id = impatient.create_session(QUESTIONS)
    (base / session_id / "status.json").write_text("{")
    clock.advance(800 * 86_400)
    result = impatient.cleanup_expired_sessions()
    assert result.deleted == ()
    assert [name for name, _ in result.failed] == [session_id]
    assert impatient.exists(session_id)


def test_an_operators_prune_leaves_what_waits_and_a_clean_up_does_not(
    sessions: QuestionSessions, base: Path, clock: FakeClock
) -> None:
    from agentforge_sessions.prune import PruneEnvironment, RetentionPolicy, prune
    from agentforge_sessions.questions.files.prune_target import QuestionTarget

    waits, ended = sessions.create_session(QUESTIONS), sessions.create_session(QUESTIONS)
    sessions.save_session_answers(ended, ANSWERS)
    clock.advance(8 * 86_400)
    outside = PruneEnvironment(clock=clock)
    result = prune(QuestionTarget(base), RetentionPolicy(max_age_hours=1), outside=outside)
    assert result.deleted_sessions == [ended]
    assert sessions.cleanup_expired_sessions().deleted == (waits,)
