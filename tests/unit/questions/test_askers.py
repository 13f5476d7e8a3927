"""A question that nobody can take the answer of any more is ended by who looks next."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from attrs import frozen
from structlog.testing import capture_logs

from agentforge_sessions.harness import SessionManager, SessionStore
from agentforge_sessions.harness.errors import QuestionWaits
from agentforge_sessions.questions import AnswersTimeout, Asker, QuestionSessions, SessionStatus
from agentforge_sessions.questions.askers import ASKER_KILLED, asker_document, end_of, parse_asker
from agentforge_sessions.questions.errors import TooManySessions
from agentforge_sessions.questions.files import wire
from agentforge_sessions.testing import MemorySessions
from agentforge_sessions.wiring.bootstrap import open_questions
from agentforge_sessions.wiring.phases.question_channel import QuestionSessionChannel, SessionEnds
from tests.support.channels import COLOUR
from tests.support.clock import FakeClock
from tests.support.questions import QUESTIONS, build


@frozen
class Machine:
    """A machine on which this process, and no other, began at a given time."""

    began: int | None = 100
    here: tuple[str, str, str] = ("machine", "boot", "namespace")

    def start_time(self, pid: int) -> int | None:
        return self.began if pid == os.getpid() else None

    def start_moment(self, pid: int) -> float | None:
        return None


DAY_S = 86_400
THEN = Machine()
ELSEWHERE = [("other", "boot", "namespace"), ("machine", "boot", "other")]


@pytest.fixture
def base(tmp_path: Path) -> Path:
    return tmp_path / "questions"


# ------------------------------------------------------------------------- the process that asks


def test_this_process_waits_as_long_as_it_lives() -> None:
    assert end_of(Asker.current(), processes=_real(), session_end=None) is None
    assert end_of(Asker.current(processes=THEN), processes=THEN, session_end=None) is None
    assert end_of(None, processes=THEN, session_end=None) is None


def _real() -> Any:
    from agentforge_sessions.base.files.process_owner import OsProcesses

    return OsProcesses()


@pytest.mark.parametrize(
    "now",
    [Machine(began=None), Machine(began=101), Machine(here=("machine", "next boot", "namespace"))],
    ids=["ended", "pid used again", "machine restarted"],
)
def test_a_process_that_certainly_ended_waits_for_nothing(now: Machine) -> None:
    asker = Asker.current(processes=THEN)
    assert end_of(asker, processes=now, session_end=None) == ASKER_KILLED


@pytest.mark.parametrize("here", ELSEWHERE)
def test_an_asker_elsewhere_is_not_judged(here: tuple[str, str, str], tmp_path: Path) -> None:
    now = Machine(None, here)
    asker = Asker.current(processes=THEN)
    assert end_of(asker, processes=now, session_end=None) is None
    asker = Asker.current(processes=THEN, session=tmp_path)
    assert end_of(asker, processes=now, session_end=lambda _: "ended") is None


def test_an_asker_is_read_as_it_was_written(tmp_path: Path) -> None:
    for asker in (Asker.current(processes=THEN), Asker.current(processes=THEN, session=tmp_path)):
        document = json.loads(json.dumps(asker_document(asker)))
        assert document["pid"] == os.getpid()
        assert document["startTime"] == 100
        assert parse_asker(document) == asker


@pytest.mark.parametrize(
    "found",
    [None, 3, [], {}, {"pid": 0}, {"pid": "1"}, {"session": "x"}]
    + [
        {"pid": 1, "machine": "m", "boot": "b", "pidNamespace": "n", "session": session}
        for session in (7, "", "relative/session", "/nul\x00")
    ],
)
def test_what_names_no_asker_is_nobodys(found: object) -> None:
    assert parse_asker(found) is None


def test_a_question_whose_asker_was_killed_is_abandoned_by_who_lists_next(base: Path) -> None:
    sessions = build(base, processes=THEN)
    killed = sessions.create_session(QUESTIONS, asker=Asker.current(processes=THEN))
    anybodys = sessions.create_session(QUESTIONS)
    answered = sessions.create_session(QUESTIONS, asker=Asker.current(processes=THEN))
    sessions.reject_session(answered)
    assert [one.session_id for one in sessions.pending()] == [killed, anybodys]
    later = build(base, processes=Machine(began=None))
    listed = {one.session_id: one for one in later.list_sessions()}
    assert listed[killed].status is SessionStatus.ABANDONED
    assert listed[killed].record.end_reason == ASKER_KILLED
    assert listed[anybodys].status is SessionStatus.PENDING
    assert listed[answered].status is SessionStatus.REJECTED
    assert [one.session_id for one in sessions.pending()] == [anybodys]


def test_a_clean_up_ends_what_nobody_waits_for_and_keeps_it_for_its_time(
    base: Path, clock: FakeClock
) -> None:
    sessions = build(base, processes=THEN, clock=clock)
    killed = sessions.create_session(QUESTIONS, asker=Asker.current(processes=THEN))
    anybodys = sessions.create_session(QUESTIONS)
    clock.advance(7 * DAY_S + 0.001)
    later = build(base, processes=Machine(began=None), clock=clock)
    result = later.cleanup_expired_sessions()
    assert (result.deleted, result.kept, result.failed) == ((anybodys,), 1, ())
    found = sessions.get(killed)
    assert (found.status, found.record.end_reason) == (SessionStatus.ABANDONED, ASKER_KILLED)
    clock.advance(7 * DAY_S)
    assert later.cleanup_expired_sessions().deleted == ()
    clock.advance(0.001)
    assert later.cleanup_expired_sessions().deleted == (killed,)


def test_a_question_that_nobody_waits_for_takes_no_room(base: Path) -> None:
    sessions = build(base, processes=THEN, max_sessions=1)
    sessions.create_session(QUESTIONS, asker=Asker.current(processes=THEN))
    with pytest.raises(TooManySessions):
        sessions.create_session(QUESTIONS)
    numbers = iter(["00000009-0000-4000-8000-000000000000"])
    later = build(base, processes=Machine(began=None), max_sessions=1, new_id=lambda: next(numbers))
    asked = later.create_session(QUESTIONS)
    assert [one.session_id for one in later.pending()] == [asked]


def test_a_question_that_can_not_be_ended_is_listed_as_it_is(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = build(base, processes=THEN)
    killed = sessions.create_session(QUESTIONS, asker=Asker.current(processes=THEN))
    (base / killed / "status.json.lock").write_text(str(os.getpid()))
    later = QuestionSessions(base, processes=Machine(began=None), lock_timeout_s=0)
    (base / killed / "status.json.lock").unlink()
    (base / killed / "status.json.lock").write_text("")  # whose it is can't be told
    with capture_logs() as logs:
        assert [one.session_id for one in later.pending()] == [killed]
    assert "question.not_withdrawn" in [one["event"] for one in logs]


def test_the_asker_and_its_folder_stand_in_the_files(base: Path) -> None:
    sessions = build(base, processes=THEN)
    session_id = sessions.create_session(
        QUESTIONS, asker=Asker.current(processes=THEN), working_directory="/srv/work"
    )
    request = json.loads((base / session_id / "request.json").read_text())
    status = json.loads((base / session_id / "status.json").read_text())
    assert request["workingDirectory"] == status["workingDirectory"] == "/srv/work"
    assert (request["asker"]["pid"], request["asker"]["startTime"]) == (os.getpid(), 100)
    found = sessions.get(session_id)
    assert found.asker == Asker.current(processes=THEN)
    assert found.working_directory == "/srv/work"
    assert wire.request_document(found.request) == request


# ------------------------------------------------------------------- the agent session that asks


@pytest.fixture
def manager(tmp_path: Path, base: Path) -> SessionManager:
    channel = QuestionSessionChannel(open_questions(base))
    manager = SessionManager(SessionStore(tmp_path / "sessions"), channel=channel)
    manager.create("tdflow", "red")
    return manager


def ask(manager: SessionManager) -> str:
    with pytest.raises(QuestionWaits) as caught:
        manager.ask([COLOUR], timeout_s=0)
    return caught.value.question_id


def status_of(base: Path, question_id: str) -> SessionStatus:
    return QuestionSessions(base).get(question_id).status


@pytest.mark.parametrize(
    ("end", "how"),
    [(SessionManager.complete, "completed"), (SessionManager.abort, "aborted")],
    ids=["completed", "aborted"],
)
def test_a_session_that_ends_takes_its_waiting_questions_with_it(
    manager: SessionManager, base: Path, end: Callable[[SessionManager], object], how: str
) -> None:
    question_id = ask(manager)
    assert status_of(base, question_id) is SessionStatus.PENDING
    session = manager.current_session
    assert session is not None
    end(manager)
    found = QuestionSessions(base).get(question_id)
    assert found.status is SessionStatus.ABANDONED
    assert found.record.end_reason == f"session {session.session_id} was {how}"


def test_a_session_that_ended_elsewhere_has_its_questions_ended_by_who_looks_next(
    manager: SessionManager, base: Path
) -> None:
    question_id = ask(manager)
    session = manager.current_session
    assert session is not None
    elsewhere = SessionManager(manager.store)  # it has no channel
    elsewhere.load(session.session_id)
    elsewhere.abort("enough")
    assert status_of(base, question_id) is SessionStatus.PENDING
    assert open_questions(base).pending() == []
    assert status_of(base, question_id) is SessionStatus.ABANDONED


def test_a_deleted_session_has_its_questions_ended_by_who_looks_next(
    manager: SessionManager, base: Path
) -> None:
    question_id = ask(manager)
    session = manager.current_session
    assert session is not None
    manager.store.delete(session.session_id)
    assert open_questions(base).pending() == []
    reason = QuestionSessions(base).get(question_id).record.end_reason
    assert reason == f"session {session.session_id} was deleted"


def test_a_clean_up_ends_the_questions_of_a_session_that_ended(
    manager: SessionManager, base: Path
) -> None:
    question_id = ask(manager)
    session = manager.current_session
    assert session is not None
    manager.store.delete(session.session_id)
    assert open_questions(base).cleanup_expired_sessions().deleted == ()
    assert status_of(base, question_id) is SessionStatus.ABANDONED


def test_the_question_of_a_session_that_may_go_on_waits_though_its_worker_died(
    manager: SessionManager, base: Path
) -> None:
    question_id = ask(manager)
    dead = open_questions(base, processes=Machine(began=None, here=_real().here))
    assert [one.session_id for one in dead.pending()] == [question_id]
    manager.pause("later")
    assert [one.session_id for one in dead.pending()] == [question_id]
    with pytest.raises(AnswersTimeout):
        dead.wait_for_answers(question_id, 0)


def test_a_session_that_can_not_be_read_is_not_judged(manager: SessionManager, base: Path) -> None:
    question_id = ask(manager)
    session = manager.current_session
    assert session is not None
    path = manager.store.session_path(session.session_id)
    path.write_text("{")
    assert SessionEnds()(str(path.parent)) is None
    assert [one.session_id for one in open_questions(base).pending()] == [question_id]


@pytest.mark.parametrize("name", ["missing/session_x", "nothing"])
def test_a_place_that_is_not_here_is_not_judged(tmp_path: Path, name: str) -> None:
    assert SessionEnds()(str(tmp_path / "none" / name)) is None


def test_a_session_that_its_id_names_is_judged_by_the_store_of_the_questions(
    tmp_path: Path,
) -> None:
    store = MemorySessions(tmp_path / "sessions")
    manager = SessionManager(store)
    session_id = manager.create("tdflow", "red").session_id
    judge = SessionEnds(store)
    assert store.reference(session_id) == session_id
    assert judge(session_id) is None
    assert judge(session_id) is None
    manager.abort("no more")
    assert judge(session_id) == f"session {session_id} was aborted"
    store.delete(session_id)
    assert judge(session_id) == f"session {session_id} was deleted"
    assert SessionEnds()(session_id) is None, "which store it is in isn't known"


@pytest.mark.parametrize("here", ELSEWHERE)
def test_a_session_that_its_id_names_is_judged_from_every_machine(
    here: tuple[str, str, str],
) -> None:
    asker = Asker.current(processes=THEN, session="session_20260301_093000_00000001")
    assert asker.session_name == asker.session
    assert parse_asker(json.loads(json.dumps(asker_document(asker)))) == asker
    now = Machine(None, here)
    assert end_of(asker, processes=now, session_end=lambda _: "ended") == "ended"
