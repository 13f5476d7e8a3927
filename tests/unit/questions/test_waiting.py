"""Waiting: told at once where the file system tells, and never later than the poll."""

# ruff: noqa: B023, PT017 (threads end within their turn; either side may win)
from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import anyio
import pytest

from agentforge_sessions.base.cancellation import OperationCancelled
from agentforge_sessions.questions import (
    AnswersTimeout,
    QuestionSession,
    QuestionSessions,
    SessionCorrupted,
    SessionEnded,
    SessionNotFound,
    SessionRejected,
    SessionStatus,
)
from agentforge_sessions.questions.domain import SessionAnswers
from agentforge_sessions.questions.errors import QuestionsUnavailable
from agentforge_sessions.questions.waiting import waiting as waiting_module
from agentforge_sessions.questions.waiting.change_feed import follow_changes, follow_changes_async
from agentforge_sessions.questions.waiting.directory_watcher import (
    InotifyWatcher,
    NoWatcher,
    is_available,
)
from agentforge_sessions.questions.waiting.waiting import Deadline, ThreadBell
from tests.support.cancelling import cancelled_when
from tests.support.clock import FakeClock
from tests.support.memory_questions import MemoryQuestions
from tests.support.promptness import soonest
from tests.support.questions import (
    ANSWERS,
    MISSING,
    QUESTIONS,
    CountingWatcher,
    FakeTime,
    build,
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path / "questions"


@pytest.fixture
def sessions(base: Path, clock: FakeClock) -> QuestionSessions:
    return build(base, clock=clock)


class RingingWatcher:
    """Tells when the test says so."""

    def __init__(self) -> None:
        self.tells: list[Callable[[], None]] = []
        self.begun = threading.Event()

    @contextmanager
    def watching(self, path: Path, on_change: Callable[[], None]) -> Iterator[None]:
        self.tells.append(on_change)
        self.begun.set()
        try:
            yield
        finally:
            self.tells.remove(on_change)


@contextmanager
def in_thread(act: Callable[[], object]) -> Iterator[None]:
    thread = threading.Thread(target=act)
    thread.start()
    try:
        yield
    finally:
        thread.join()


def test_a_wait_that_is_told_does_not_wait_for_the_poll(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(waiting_module, "POLL_S", 1000.0)
    watcher = RingingWatcher()
    sessions = build(base, watcher=watcher)
    session_id = sessions.create_session(QUESTIONS)

    def answer() -> None:
        watcher.begun.wait()
        (tell,) = watcher.tells  # the wait may see the answers, and end, before it is told
        sessions.save_session_answers(session_id, ANSWERS)
        tell()

    with in_thread(answer):
        assert sessions.wait_for_answers(session_id).answers == ANSWERS
    assert watcher.tells == []


def test_a_wait_of_a_cancelled_operation_ends_and_the_question_stays(base: Path) -> None:
    watcher = RingingWatcher()
    sessions = build(base, watcher=watcher)
    session_id = sessions.create_session(QUESTIONS)
    error = cancelled_when(
        watcher.begun.is_set, lambda: sessions.wait_for_answers(session_id, 3600)
    )
    assert isinstance(error, OperationCancelled)
    assert sessions.get(session_id).status is SessionStatus.PENDING
    assert watcher.tells == []


@pytest.mark.parametrize("kind", ["blocking", "async"])
def test_the_real_watcher_tells_without_the_poll(
    base: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(waiting_module, "POLL_S", 1000.0)
    sessions = QuestionSessions(base)

    def measure() -> float:
        session_id = sessions.create_session(QUESTIONS)
        found: list[SessionAnswers] = []
        ended: list[float] = []

        def wait() -> None:  # what nobody told of is found at the end of the time
            if kind == "async":
                found.append(anyio.run(sessions.wait_for_answers_async, session_id, 30))
            else:
                found.append(sessions.wait_for_answers(session_id, 30))
            ended.append(time.monotonic())

        with in_thread(wait):
            time.sleep(0.8)  # it waits by now, and looks no more by itself
            sessions.save_session_answers(session_id, ANSWERS)
            saved = time.monotonic()
        assert found[0].answers == ANSWERS
        return ended[0] - saved

    # A change may be missed while the library hands over others: three in a row are not.
    assert soonest(measure, 10) <= 10


@pytest.mark.skipif(not is_available(), reason="this system has no inotify")
def test_hundreds_of_waits_share_one_thread_and_all_are_told(base: Path) -> None:
    watcher = InotifyWatcher()
    rung: set[int] = set()
    paths = []
    for i in range(200):
        path = base / str(i)
        path.mkdir(parents=True)
        paths.append(path)
    before = set(threading.enumerate())

    def ours() -> list[threading.Thread]:
        new = set(threading.enumerate()) - before
        return [one for one in new if one.name == "agentforge-questions-watcher"]

    def until_all_are_told(act: Callable[[Path], object]) -> None:
        deadline = time.monotonic() + 60
        while len(rung) < 200 and time.monotonic() < deadline:
            for i in set(range(200)) - rung:  # a change may be missed; the next one is not
                act(paths[i])
            time.sleep(0.2)
        assert len(rung) == 200

    with ExitStack() as stack:
        for i, path in enumerate(paths):
            stack.enter_context(watcher.watching(path, lambda i=i: rung.add(i)))  # type: ignore[misc]
        (thread,) = ours()
        until_all_are_told(lambda path: (path / "answers.json").write_text("{}"))
        assert ours() == [thread]
    thread.join(60)
    assert not thread.is_alive()


def test_one_look_is_enough_for_what_is_there(base: Path) -> None:
    watcher = CountingWatcher()
    sessions = build(base, watcher=watcher)
    session_id = sessions.create_session(QUESTIONS)
    with pytest.raises(AnswersTimeout):
        sessions.wait_for_answers(session_id, 0)
    sessions.save_session_answers(session_id, ANSWERS)
    assert sessions.wait_for_answers(session_id, 0).answers == ANSWERS
    assert watcher.active == 0


def test_any_number_may_wait_for_the_same(base: Path) -> None:
    sessions = QuestionSessions(base)
    session_id = sessions.create_session(QUESTIONS)
    found: list[SessionAnswers] = []
    threads = [
        threading.Thread(target=lambda: found.append(sessions.wait_for_answers(session_id, 30)))
        for _ in range(10)
    ]
    for thread in threads:
        thread.start()
    sessions.save_session_answers(session_id, ANSWERS)
    for thread in threads:
        thread.join()
    assert [one.answers for one in found] == [ANSWERS] * 10


@pytest.mark.parametrize(
    ("act", "expected", "status"),
    [
        (lambda s, one: s.reject_session(one), SessionRejected, SessionStatus.REJECTED),
        (lambda s, one: s.abandon_session(one), SessionEnded, SessionStatus.ABANDONED),
        (lambda s, one: s.time_out_session(one), SessionEnded, SessionStatus.TIMED_OUT),
    ],
)
def test_a_wait_ends_with_its_session(
    base: Path,
    act: Callable[[QuestionSessions, str], object],
    expected: type[SessionEnded],
    status: SessionStatus,
) -> None:
    sessions = QuestionSessions(base)
    session_id = sessions.create_session(QUESTIONS)
    with in_thread(lambda: act(sessions, session_id)), pytest.raises(expected) as caught:
        sessions.wait_for_answers(session_id, 30)
    assert caught.value.status is status


def test_a_wait_ends_when_its_session_is_deleted(base: Path, clock: FakeClock) -> None:
    sessions = build(base, clock=clock, watcher=None)
    session_id = sessions.create_session(QUESTIONS)

    def delete() -> None:
        clock.advance(8 * 86_400)
        sessions.cleanup_expired_sessions()

    with in_thread(delete), pytest.raises(SessionNotFound):
        sessions.wait_for_answers(session_id, 30)


def test_what_is_not_there_is_not_waited_for(sessions: QuestionSessions) -> None:
    with pytest.raises(SessionNotFound):
        sessions.wait_for_answers(MISSING, 30)


def test_a_wait_that_ends_its_session_makes_it_timed_out(sessions: QuestionSessions) -> None:
    session_id = sessions.create_session(QUESTIONS)
    with pytest.raises(AnswersTimeout) as caught:
        sessions.wait_for_answers(session_id, 0, on_timeout="end")
    assert caught.value.ended
    assert sessions.get(session_id).status is SessionStatus.TIMED_OUT


def test_an_answer_of_the_last_moment_beats_the_timeout(base: Path) -> None:
    answerer = build(base)
    session_id = answerer.create_session(QUESTIONS)
    now = {"s": 0.0}
    looked = []

    def monotonic() -> float:
        looked.append(1)
        if len(looked) == 3:  # after the look that found nothing, before the end
            answerer.save_session_answers(session_id, ANSWERS)
            now["s"] = 100.0
        return now["s"]

    sessions = build(base, monotonic=monotonic, watcher=NoWatcher())
    for on_timeout in ("leave", "end"):
        found = sessions.wait_for_answers(session_id, 1, on_timeout=on_timeout)  # type: ignore[arg-type]
        assert found.answers == ANSWERS


def test_a_timeout_and_an_answer_at_once_agree(base: Path) -> None:
    for _ in range(20):
        sessions = QuestionSessions(base)
        session_id = sessions.create_session(QUESTIONS)
        refused: list[SessionEnded] = []

        def answer(session_id: str = session_id) -> None:
            try:
                QuestionSessions(base).save_session_answers(session_id, ANSWERS)
            except SessionEnded as error:
                refused.append(error)

        with in_thread(answer):
            try:
                sessions.wait_for_answers(session_id, 0.002, on_timeout="end")
                waited = SessionStatus.COMPLETED
            except AnswersTimeout as error:
                assert error.ended
                waited = SessionStatus.TIMED_OUT
        assert sessions.get(session_id).status is waited
        assert bool(refused) is (waited is SessionStatus.TIMED_OUT)


def test_the_time_of_the_session_counts_from_its_creation(base: Path, clock: FakeClock) -> None:
    sessions = build(base, clock=clock, session_timeout_s=60)
    session_id = sessions.create_session(QUESTIONS)
    clock.advance(59.95)
    with pytest.raises(AnswersTimeout) as caught:
        sessions.wait_for_answers(session_id)
    assert caught.value.ended


def test_a_quiet_wait_looks_five_times_a_second_and_does_nothing_else(base: Path) -> None:
    time, waits = FakeTime(), []

    class CountingBell(ThreadBell):
        def wait(self, timeout_s: float) -> bool:
            waits.append(timeout_s)
            time.now += timeout_s
            return False

    sessions = build(base, monotonic=time.monotonic, bell=CountingBell, watcher=NoWatcher())
    session_id = sessions.create_session(QUESTIONS)
    with pytest.raises(AnswersTimeout):
        sessions.wait_for_answers(session_id, 60)
    assert len(waits) <= 5 * 60 + 1
    assert max(waits) <= waiting_module.POLL_S


def test_a_deadline_is_the_nearer_of_two() -> None:
    deadline = Deadline(5, session_left_s=1, now=10)
    assert deadline.pause(10) == waiting_module.POLL_S
    assert deadline.pause(10.9) == pytest.approx(0.1)
    assert not deadline.is_over(10.9)
    assert deadline.is_over(11)
    assert deadline.session_is_over(11)
    assert not Deadline(1, session_left_s=5, now=10).session_is_over(12)
    assert not Deadline(None, session_left_s=None, now=0).is_over(1e9)


@pytest.mark.parametrize("timeout", [-1, float("nan"), float("inf")])
def test_no_wait_of_no_length(sessions: QuestionSessions, timeout: float) -> None:
    session_id = sessions.create_session(QUESTIONS)
    with pytest.raises(ValueError, match="timeout_s"):
        sessions.wait_for_answers(session_id, timeout)
    with pytest.raises(ValueError, match="on_timeout"):
        sessions.wait_for_answers(session_id, on_timeout="x")  # type: ignore[arg-type]


def test_a_partial_answer_that_another_program_is_writing_is_waited_out(base: Path) -> None:
    sessions = build(base)
    session_id = sessions.create_session(QUESTIONS)
    document = json.dumps(
        {
            "sessionId": session_id,
            "answers": [{"questionIndex": 0, "customText": "x", "timestamp": "then"}],
            "timestamp": "2026-03-01T09:30:00.000Z",
        }
    )
    path = base / session_id / "answers.json"
    path.write_text(document[:30])
    pauses = []

    def finish(seconds: float) -> None:
        pauses.append(seconds)
        path.write_text(document)

    reader = build(base, sleep=finish)
    assert reader.wait_for_answers(session_id, 30).answers[0].custom_text == "x"
    assert pauses == [0.08]


# -------------------------------------------------------------------------------------- async


@pytest.mark.anyio
async def test_async_waits_do_not_block_each_other(base: Path) -> None:
    sessions = QuestionSessions(base)
    ids = [sessions.create_session(QUESTIONS) for _ in range(60)]  # more than anyio's 40 threads
    found: dict[str, SessionAnswers] = {}

    async def wait(session_id: str) -> None:
        found[session_id] = await sessions.wait_for_answers_async(session_id, 60)

    async with anyio.create_task_group() as group:
        for session_id in ids:
            group.start_soon(wait, session_id)
        await anyio.sleep(0.1)
        for session_id in reversed(ids):
            await anyio.to_thread.run_sync(sessions.save_session_answers, session_id, ANSWERS)
    assert len(found) == 60


@pytest.mark.anyio
async def test_a_cancelled_async_wait_leaves_the_session(base: Path) -> None:
    watcher = CountingWatcher()
    sessions = build(base, watcher=watcher)
    session_id = sessions.create_session(QUESTIONS)
    with anyio.move_on_after(0.05) as scope:
        await sessions.wait_for_answers_async(session_id)
    assert scope.cancelled_caught
    assert watcher.active == 0
    assert sessions.get(session_id).status is SessionStatus.PENDING


@pytest.mark.anyio
async def test_async_waits_end_as_blocking_ones(base: Path) -> None:
    sessions = build(base, sleep=lambda _: None)  # nobody else writes what is torn
    one, two, three = (sessions.create_session(QUESTIONS, call_id="c") for _ in range(3))
    with pytest.raises(AnswersTimeout):
        await sessions.wait_for_answers_async(one, 0.01, on_timeout="end")
    assert sessions.get(one).status is SessionStatus.TIMED_OUT
    sessions.reject_session(two)
    with pytest.raises(SessionRejected):
        await sessions.wait_for_answers_async(two)
    (base / three / "answers.json").write_text("{")
    with pytest.raises(SessionCorrupted):
        await sessions.wait_for_answers_async(three)


# ------------------------------------------------------------------------------------ changes


def test_changes_tell_of_everything_and_end_when_told_to(base: Path) -> None:
    sessions = QuestionSessions(base)
    first = sessions.create_session(QUESTIONS)
    stop = threading.Event()
    seen: list[frozenset[str]] = []
    arrived = threading.Condition()

    def follow() -> None:
        for changed in sessions.changes(stop=stop):
            with arrived:
                seen.append(changed)
                arrived.notify_all()

    def until(done: Callable[[], bool]) -> None:
        with arrived:
            assert arrived.wait_for(done, 30)

    with in_thread(follow):
        until(lambda: seen[:1] == [frozenset({first})])
        second = sessions.create_session(QUESTIONS)
        until(lambda: any(second in one for one in seen))
        seen.clear()
        sessions.reject_session(first)
        until(lambda: any(first in one for one in seen))
        seen.clear()
        os.rename(base / second, base / ".gone")
        until(lambda: any(second in one for one in seen))
        stop.set()


def test_changes_are_found_by_looking_where_nobody_tells(base: Path) -> None:
    sessions = QuestionSessions(base, watcher=NoWatcher())
    found = sessions.changes()
    assert next(found) == frozenset()
    session_id = sessions.create_session(QUESTIONS)
    assert session_id in next(found)
    sessions.reject_session(session_id)
    while sessions.pending():
        assert session_id in next(found)
    assert session_id in next(found)
    found.close()  # type: ignore[attr-defined]


@pytest.mark.skipif(not is_available(), reason="this system has no inotify")
def test_changes_are_reported_by_the_watcher_of_the_waits_without_a_look(base: Path) -> None:
    sessions = QuestionSessions(base, watcher=InotifyWatcher())
    found = follow_changes(sessions.store, look_s=1000.0)
    assert next(found) == frozenset()
    session_id = sessions.create_session(QUESTIONS)

    def until_seen() -> None:
        while session_id not in next(found):
            pass

    until_seen()
    sessions.reject_session(session_id)  # in a directory that was not there at the beginning
    until_seen()
    status = base / session_id / "status.json"
    status.write_text(status.read_text())  # as another program does it, in place
    until_seen()
    os.rename(base / session_id, base / ".gone")
    until_seen()
    os.rename(base / ".gone", base / session_id)
    until_seen()
    found.close()  # type: ignore[attr-defined]


def test_nothing_is_watched_any_more_once_nobody_follows(base: Path) -> None:
    watcher = CountingWatcher()
    sessions = QuestionSessions(base, watcher=watcher)
    session_id = sessions.create_session(QUESTIONS)
    found = sessions.changes()
    next(found)
    assert watcher.watched == [base, base / session_id]
    assert watcher.active == 2
    found.close()  # type: ignore[attr-defined]
    assert watcher.active == 0


@pytest.mark.skipif(not is_available(), reason="this system has no inotify")
@pytest.mark.anyio
async def test_async_changes_are_reported_without_a_look(base: Path) -> None:
    sessions = QuestionSessions(base)
    found = follow_changes_async(sessions.store, look_s=1000.0)
    assert await anext(found) == frozenset()
    session_id = sessions.create_session(QUESTIONS)
    while session_id not in await anext(found):
        pass
    sessions.reject_session(session_id)
    while session_id not in await anext(found):
        pass
    await found.aclose()


@pytest.mark.anyio
async def test_async_changes_yield_nothing_where_nothing_changed_for_long(base: Path) -> None:
    found = QuestionSessions(base).changes_async(at_least_every_s=0)
    assert [await anext(found) for _ in range(3)] == [frozenset()] * 3
    await found.aclose()


@pytest.mark.anyio
async def test_async_changes_yield_in_time_though_the_next_look_is_far_off(base: Path) -> None:
    found = QuestionSessions(base).changes_async(at_least_every_s=0.01, look_s=100_000.0)
    assert [await anext(found) for _ in range(3)] == [frozenset()] * 3
    await found.aclose()


@pytest.mark.anyio
async def test_async_changes_may_be_cancelled(base: Path) -> None:
    sessions = QuestionSessions(base)
    session_id = sessions.create_session(QUESTIONS)
    with anyio.CancelScope() as scope:
        async for changed in sessions.changes_async():
            assert session_id in changed
            scope.deadline = anyio.current_time() + 0.05
    assert scope.cancelled_caught


class _Away(MemoryQuestions):
    """A store whose server is away for some of its reads."""

    away = False
    refused = 0

    def read(self, session_id: str) -> QuestionSession:
        if self.away:
            self.refused += 1
            raise QuestionsUnavailable("it does not answer", session_id=session_id)
        return super().read(session_id)


def test_a_wait_outlives_a_store_that_is_away_for_a_while() -> None:
    store = _Away()
    sessions = QuestionSessions(store=store)
    session_id = sessions.create_session(QUESTIONS)
    looks = 0

    class Bell(ThreadBell):
        def wait(self, timeout_s: float) -> bool:
            nonlocal looks
            looks += 1
            store.away = looks < 3
            if looks == 1:
                sessions.save_session_answers(session_id, ANSWERS)
            assert looks < 10
            return super().wait(0)

    waiting = QuestionSessions(store=store, bell=Bell)
    assert waiting.wait_for_answers(session_id).answers == ANSWERS
    assert store.refused == 2


def test_a_store_that_never_answered_ends_the_wait() -> None:
    store = _Away()
    sessions = QuestionSessions(store=store)
    session_id = sessions.create_session(QUESTIONS)
    store.away = True
    with pytest.raises(QuestionsUnavailable):
        sessions.wait_for_answers(session_id)
