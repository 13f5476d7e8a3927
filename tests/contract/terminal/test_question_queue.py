"""What every queue of questions promises to the terminal, the stored one and the one in tests."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Protocol

import anyio
import pytest
from attrs import define

from agentforge_sessions.entrypoints.terminal.question_queue import (
    LOOK_AGAIN_S,
    QuestionQueue,
    StoredQuestions,
)
from agentforge_sessions.questions import (
    Asker,
    InvalidAnswers,
    Question,
    QuestionError,
    QuestionsConfig,
    QuestionSessions,
    SessionEnded,
    SessionStatus,
    UserAnswer,
)
from tests.support.question_queue import CHECKS, START, STORAGE, FakeQueue

NOBODY = "00000000-0000-4000-8000-00000000dead"
ANSWER = (UserAnswer(question_index=0, selected_option="Redis"),)


class Others(Protocol):
    """What other programs do to the sessions meanwhile."""

    queue: QuestionQueue

    def ask(
        self, *questions: Question, folder: str | None = None, asker: Asker | None = None
    ) -> str: ...

    def abandon(self, session_id: str, reason: str) -> None: ...

    def answers(self, session_id: str) -> tuple[UserAnswer, ...]: ...


@define
class _InMemory:
    queue: FakeQueue

    def ask(
        self, *questions: Question, folder: str | None = None, asker: Asker | None = None
    ) -> str:
        return self.queue.ask(*questions, folder=folder, asker=asker)

    def abandon(self, session_id: str, reason: str) -> None:
        self.queue.end(session_id, SessionStatus.ABANDONED, reason)

    def answers(self, session_id: str) -> tuple[UserAnswer, ...]:
        return self.queue.sessions[session_id].answers


@define
class _Stored:
    queue: StoredQuestions
    sessions: QuestionSessions

    def ask(
        self, *questions: Question, folder: str | None = None, asker: Asker | None = None
    ) -> str:
        return self.sessions.create_session(questions, working_directory=folder, asker=asker)

    def abandon(self, session_id: str, reason: str) -> None:
        self.sessions.abandon_session(session_id, reason)

    def answers(self, session_id: str) -> tuple[UserAnswer, ...]:
        found = self.sessions.get(session_id).answers
        return found.answers if found is not None else ()


@define
class Machine:
    """A machine on which this process lives, or was killed."""

    lives: bool = True
    here: tuple[str, str, str] = ("machine", "boot", "namespace")

    def start_time(self, pid: int) -> int | None:
        return 100 if self.lives and pid == os.getpid() else None

    def start_moment(self, pid: int) -> float | None:
        return None


def _in_memory(_: Path) -> Others:
    return _InMemory(FakeQueue())


def _stored(directory: Path) -> Others:
    queue = StoredQuestions(QuestionSessions(directory / "questions"))
    queue.prepare()
    return _Stored(queue, QuestionSessions(directory / "questions"))


@pytest.fixture(params=[_in_memory, _stored])
def others(request: pytest.FixtureRequest, tmp_path: Path) -> Others:
    make: Callable[[Path], Others] = request.param
    return make(tmp_path)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def test_what_waits_is_listed_the_oldest_first_and_read_whole(others: Others) -> None:
    first, second = others.ask(STORAGE), others.ask(CHECKS, STORAGE)
    waiting = others.queue.listing().waiting
    assert {one.session_id for one in waiting} == {first, second}
    assert [one.created_at for one in waiting] == sorted(one.created_at for one in waiting)
    titles = {one.session_id: one.titles for one in waiting}
    assert titles[second] == ("Checks", "Storage")
    assert others.queue.questions(second) == (CHECKS, STORAGE)
    assert others.queue.ending(first) is None


def test_who_asks_and_from_which_folder_is_listed_as_it_was_asked(
    others: Others, tmp_path: Path
) -> None:
    process, session = Asker.current(), Asker.current(session=tmp_path / "some session")
    asked = {
        others.ask(STORAGE, folder=folder, asker=asker): (folder, asker)
        for folder, asker in (
            (None, None),
            ("/home/ada/shop", None),
            (None, process),
            ("/srv", session),
        )
    }
    listed = others.queue.listing().waiting
    assert {one.session_id: (one.folder, one.asker) for one in listed} == asked


def test_the_folder_that_an_asker_wrote_down_is_listed_and_anything_else_is_none(
    tmp_path: Path,
) -> None:
    sessions = QuestionSessions(tmp_path, config=QuestionsConfig(session_timeout_s=600))
    folders = {}
    for value in ("/home/ada/shop", "", 7, None, ["x"]):
        which = sessions.create_session([STORAGE])
        request = tmp_path / which / "request.json"
        document = json.loads(request.read_bytes())
        request.write_text(json.dumps({**document, "workingDirectory": value}))
        folders[which] = value if value == "/home/ada/shop" else None
    listed = StoredQuestions(sessions).listing().waiting
    assert {one.session_id: one.folder for one in listed} == folders
    assert {one.ends_at for one in listed} == {
        one.created_at + timedelta(seconds=600) for one in listed
    }


def test_an_answered_session_waits_no_more_and_can_not_be_answered_again(others: Others) -> None:
    which = others.ask(STORAGE)
    others.queue.submit(which, ANSWER)
    assert others.answers(which) == ANSWER
    assert others.queue.listing().waiting == ()
    ending = others.queue.ending(which)
    assert ending is not None
    assert ending.status is SessionStatus.COMPLETED
    assert ending.at is not None
    for again in (
        lambda: others.queue.submit(which, ANSWER),
        lambda: others.queue.reject(which, None),
    ):
        with pytest.raises(SessionEnded):
            again()


@pytest.mark.parametrize("reason", ["no", None])
def test_a_rejected_session_tells_its_reason(others: Others, reason: str | None) -> None:
    which = others.ask(STORAGE)
    others.queue.reject(which, reason)
    ending = others.queue.ending(which)
    assert ending is not None
    assert (ending.status, ending.reason) == (SessionStatus.REJECTED, reason)


def test_a_session_that_others_end_tells_why(others: Others) -> None:
    which = others.ask(STORAGE)
    others.abandon(which, "the client went away")
    ending = others.queue.ending(which)
    assert ending is not None
    assert (ending.status, ending.reason) == (SessionStatus.ABANDONED, "the client went away")
    assert others.queue.listing().waiting == ()


def test_a_session_that_is_not_there_has_an_ending_and_nothing_else(others: Others) -> None:
    ending = others.queue.ending(NOBODY)
    assert ending is not None
    assert ending.status is None
    with pytest.raises(QuestionError):
        others.queue.questions(NOBODY)
    with pytest.raises(QuestionError):
        others.queue.submit(NOBODY, ANSWER)


def test_answers_that_do_not_fit_are_refused_and_the_session_waits_on(others: Others) -> None:
    which = others.ask(STORAGE)
    with pytest.raises(InvalidAnswers):
        others.queue.submit(which, (UserAnswer(question_index=0, selected_option="MongoDB"),))
    assert others.queue.ending(which) is None


@pytest.mark.anyio
async def test_changes_come_at_once_and_whenever_something_changed(others: Others) -> None:
    changes = others.queue.changes()
    with anyio.fail_after(30):
        await anext(changes)
        assert others.queue.listing().waiting == ()
        which = others.ask(STORAGE)
        while not others.queue.listing().waiting:
            await anext(changes)
        others.abandon(which, "gone")
        while others.queue.listing().waiting:
            await anext(changes)
        await changes.aclose()  # type: ignore[attr-defined]


# ------------------------------------------------------------------- the stored one alone


def test_one_bad_directory_hides_no_session_and_is_named(tmp_path: Path) -> None:
    sessions = QuestionSessions(tmp_path / "questions")
    bad, good = sessions.create_session([STORAGE]), sessions.create_session([CHECKS])
    (tmp_path / "questions" / bad / "request.json").write_text("{")
    listing = StoredQuestions(sessions).listing()
    assert [one.session_id for one in listing.waiting] == [good]
    assert listing.unreadable == (bad,)


def test_a_listing_is_read_again_only_when_something_may_have_changed(tmp_path: Path) -> None:
    later = time.time() + 1
    sessions = QuestionSessions(tmp_path / "questions", wall=lambda: later)
    which = sessions.create_session([STORAGE])
    queue = StoredQuestions(sessions)
    first = queue.listing()
    assert queue.listing() is first
    sessions.reject_session(which)
    assert queue.listing().waiting == ()


@pytest.mark.parametrize("way", [1, -1], ids=["later", "the clock was put back"])
def test_a_question_whose_asker_was_killed_leaves_the_queue_though_no_file_changed(
    tmp_path: Path, way: int
) -> None:
    now = START
    machine = Machine()
    sessions = QuestionSessions(
        tmp_path / "questions", processes=machine, wall=lambda: time.time() + 1
    )
    which = sessions.create_session([STORAGE], asker=Asker.current(processes=machine))
    kept = sessions.create_session([CHECKS])
    queue = StoredQuestions(sessions, clock=lambda: now)
    first = queue.listing()
    machine.lives = False
    now += way * timedelta(seconds=LOOK_AGAIN_S - 1)
    assert queue.listing() is first, "the processes are looked at calmly"
    now += way * timedelta(seconds=1)
    assert [one.session_id for one in queue.listing().waiting] == [kept]
    ending = queue.ending(which)
    assert ending is not None
    assert ending.status is SessionStatus.ABANDONED


def test_a_listing_that_was_read_again_for_nothing_holds_for_the_same_time_again(
    tmp_path: Path,
) -> None:
    now = START
    sessions = QuestionSessions(tmp_path / "questions", wall=lambda: time.time() + 1)
    sessions.create_session([STORAGE], asker=Asker.current())
    queue = StoredQuestions(sessions, clock=lambda: now)
    first = queue.listing()
    now += timedelta(seconds=LOOK_AGAIN_S)
    again = queue.listing()
    assert again == first
    now += timedelta(seconds=LOOK_AGAIN_S - 1)
    assert queue.listing() is again


def test_a_change_in_the_same_tick_of_the_clock_is_seen(tmp_path: Path) -> None:
    """Two changes may carry one time; a listing of just now is never taken for the next one's."""
    stamp = 0

    def wall() -> float:
        return stamp / 1e9

    sessions = QuestionSessions(tmp_path / "questions", wall=wall)
    which = sessions.create_session([STORAGE])
    directory = tmp_path / "questions" / which
    stamp = directory.stat().st_mtime_ns
    queue = StoredQuestions(sessions)
    assert len(queue.listing().waiting) == 1
    sessions.reject_session(which)
    os.utime(directory, ns=(stamp, stamp))
    fresh = StoredQuestions(QuestionSessions(tmp_path / "questions", wall=wall))
    assert fresh.listing().waiting == ()
    assert queue._seen is None, "nothing is kept that a change could hide behind"


def test_a_session_whose_time_is_over_leaves_the_queue_and_says_so(tmp_path: Path) -> None:
    now = START
    config = QuestionsConfig(session_timeout_s=60)
    sessions = QuestionSessions(
        tmp_path / "questions", config=config, clock=lambda: now, wall=lambda: time.time() + 1
    )
    which = sessions.create_session([STORAGE])
    queue = StoredQuestions(sessions, clock=lambda: now)
    assert len(queue.listing().waiting) == 1
    assert queue.ending(which) is None
    now = START + timedelta(seconds=61)
    assert queue.listing().waiting == ()
    ending = queue.ending(which)
    assert ending is not None
    assert ending.status is SessionStatus.TIMED_OUT


def test_a_directory_that_is_not_there_lists_nothing(tmp_path: Path) -> None:
    listing = StoredQuestions(QuestionSessions(tmp_path / "questions")).listing()
    assert (listing.waiting, listing.unreadable) == ((), ())


@pytest.mark.anyio
async def test_changes_are_seen_by_looking_where_the_directory_was_replaced(
    tmp_path: Path,
) -> None:
    """The file system tells of the old directory only; the look each second sees the new one."""
    sessions = QuestionSessions(tmp_path / "questions")
    queue = StoredQuestions(sessions)
    queue.prepare()
    changes = queue.changes()
    with anyio.fail_after(30):
        await anext(changes)
        (tmp_path / "questions").rename(tmp_path / "old")
        await anext(changes)
        sessions.create_session([STORAGE])
        while not queue.listing().waiting:
            await anext(changes)
        await changes.aclose()  # type: ignore[attr-defined]
