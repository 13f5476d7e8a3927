"""One suite for every store of question sessions, below the service and through it.

An implementation takes part by an entry in `STORES`, or by a fixture of its own.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import anyio
import pytest
from attrs import evolve, frozen

from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.questions import PostgresQuestions
from agentforge_sessions.questions import (
    AnswersTimeout,
    Asker,
    NoAnswers,
    QuestionRepository,
    QuestionsConfig,
    QuestionSessions,
    SessionCorrupted,
    SessionEnded,
    SessionExists,
    SessionNotFound,
    SessionRejected,
    SessionStatus,
    UnreadableQuestion,
)
from agentforge_sessions.questions.errors import InvalidSessionId, TooManySessions
from agentforge_sessions.questions.files.documents import ANSWERS_FILE, REQUEST_FILE, STATUS_FILE
from agentforge_sessions.questions.files.store import QuestionStore
from tests.support.clock import START, FakeClock
from tests.support.memory_questions import MemoryQuestions
from tests.support.promptness import wait_until, when
from tests.support.questions import ANSWERS, MISSING, QUESTIONS, FakeIds

CALL: Final = "call-1"


@frozen
class Kept:
    """A store, and what else its tests need.

    Attributes:
        again: Opens it anew, as another process does.
        spoil: Makes what is stored of a session unreadable.
        document: Returns a document of a session, byte for byte.
    """

    again: Callable[[], QuestionRepository]
    spoil: Callable[[str], object]
    document: Callable[[str, str], bytes | None]

    def service(self, **given: Any) -> QuestionSessions:
        """Open the service on the store, as another process does."""
        limits = {
            name: given.pop(name)
            for name in ("max_sessions", "session_timeout_s", "retention_s")
            if name in given
        }
        given.setdefault("clock", FakeClock())
        return QuestionSessions(store=self.again(), config=QuestionsConfig(**limits), **given)


def files(base: Path) -> Kept:
    def spoil(session_id: str) -> None:
        (base / session_id / REQUEST_FILE).write_text("{")

    def document(session_id: str, name: str) -> bytes | None:
        path = base / session_id / name
        return path.read_bytes() if path.exists() else None

    return Kept(lambda: QuestionStore(base), spoil, document)


def memory(base: Path) -> Kept:
    first = MemoryQuestions()
    return Kept(
        lambda: MemoryQuestions(first.shelf),
        first.spoil,
        lambda session_id, name: first.shelf.documents[session_id].load(name),
    )


STORES: Final[dict[str, Callable[[Path], Kept]]] = {"files": files, "memory": memory}


@pytest.fixture(params=[*STORES, "postgres"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kept]:
    if request.param in STORES:
        yield STORES[request.param](tmp_path / "questions")
        return
    database: Database = request.getfixturevalue("database")
    opened = [PostgresQuestions(database)]

    def again() -> PostgresQuestions:
        opened.append(PostgresQuestions(database))
        return opened[-1]

    def spoil(session_id: str) -> None:
        with database.connection() as connection:
            connection.execute(
                "update agentforge.questions set request = '{', change = default where id = %s",
                (session_id,),
            )

    def document(session_id: str, name: str) -> bytes | None:
        column = {REQUEST_FILE: 0, STATUS_FILE: 1, ANSWERS_FILE: 2}[name]
        row = database.one(
            "select request, status_document, answers from agentforge.questions where id = %s",
            (session_id,),
        )
        assert row is not None
        return None if row[column] is None else str(row[column]).encode()

    yield Kept(again, spoil, document)
    for one in opened:
        one.close()


@pytest.fixture
def sessions(kept: Kept) -> QuestionSessions:
    return kept.service(new_id=FakeIds())


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


# -------------------------------------------------------------------------------- the port


def test_a_store_is_one(kept: Kept) -> None:
    store = kept.again()
    assert isinstance(store, QuestionRepository)
    assert store.where
    assert store.look_s > 0


def test_what_is_asked_is_there_whole_and_for_everybody(kept: Kept) -> None:
    asked = kept.service().ask(QUESTIONS, call_id=CALL, working_directory="/srv/work")
    found = kept.service().get(asked.session_id)
    assert found == asked
    assert (found.call_id, found.working_directory) == (CALL, "/srv/work")
    assert kept.again().names() == [asked.session_id]
    assert kept.service().exists(asked.session_id)


def test_the_documents_are_those_of_the_files(kept: Kept, tmp_path: Path) -> None:
    """Each byte: so questions may move from one store into another."""
    reference = files(tmp_path / "reference")
    asker = Asker.current()
    for one in (kept, reference):
        sessions = one.service(new_id=FakeIds())
        answered, rejected, abandoned = (
            sessions.create_session(QUESTIONS, call_id=CALL, asker=asker) for _ in range(3)
        )
        sessions.save_session_answers(answered, ANSWERS)
        sessions.mark_answers_read(answered)
        sessions.reject_session(rejected, "not now")
        sessions.abandon_session(abandoned, "nobody waits")
    for which in (answered, rejected, abandoned):
        for name in (REQUEST_FILE, STATUS_FILE, ANSWERS_FILE):
            assert kept.document(which, name) == reference.document(which, name)


@pytest.mark.parametrize("end", ["reject_session", "abandon_session", "time_out_session"])
def test_a_reason_that_another_program_wrote_stays(kept: Kept, end: str) -> None:
    """It writes the reason before the status, or has a word for the status that is not ours."""
    sessions = kept.service()
    which = sessions.create_session(QUESTIONS)
    with sessions.store.locked(which) as locked:
        locked.write_record(evolve(locked.read_record(), rejection_reason="not now"))
    assert kept.service().get(which).rejection_reason == "not now"

    ended = getattr(kept.service(), end)(which)

    assert ended.rejection_reason == "not now"
    assert kept.service().store.read_record(which) == ended


def test_a_reason_of_ours_takes_the_place_of_anothers(kept: Kept) -> None:
    sessions = kept.service()
    which = sessions.create_session(QUESTIONS)
    with sessions.store.locked(which) as locked:
        locked.write_record(evolve(locked.read_record(), rejection_reason="not now"))
    assert sessions.reject_session(which, "never").rejection_reason == "never"
    assert kept.service().get(which).rejection_reason == "never"


def test_an_id_is_taken_once(kept: Kept, sessions: QuestionSessions) -> None:
    which = sessions.create_session(QUESTIONS)
    before = kept.document(which, REQUEST_FILE)
    with pytest.raises(SessionExists, match=which):
        kept.service().create_session(QUESTIONS[:1], session_id=which)
    assert kept.document(which, REQUEST_FILE) == before


@pytest.mark.parametrize("text", ["", "..", "x", "../../etc", MISSING + "/..", "a\0b"])
def test_what_is_no_id_reaches_nothing(sessions: QuestionSessions, text: str) -> None:
    with pytest.raises(InvalidSessionId):
        sessions.get(text)
    with pytest.raises(InvalidSessionId):
        sessions.save_session_answers(text, ANSWERS)
    with pytest.raises(InvalidSessionId):
        sessions.create_session(QUESTIONS, session_id=text)
    assert not sessions.exists(text)


def test_what_is_not_there_is_not_found(kept: Kept, sessions: QuestionSessions) -> None:
    for act in (
        lambda: sessions.get(MISSING),
        lambda: sessions.store.read_record(MISSING),
        lambda: sessions.save_session_answers(MISSING, ANSWERS),
        lambda: sessions.reject_session(MISSING),
        lambda: sessions.abandon_session(MISSING),
        lambda: sessions.time_out_session(MISSING),
        lambda: sessions.wait_for(MISSING, 0),
        lambda: sessions.resolve_id("abc"),
    ):
        with pytest.raises(SessionNotFound):
            act()
    store = kept.again()
    assert store.signature(MISSING) is None
    assert store.names() == []
    assert dict(store.signatures()) == {}
    assert dict(store.read_many([MISSING])) == {}
    assert sessions.list_sessions() == []
    assert not sessions.validate_session(MISSING).is_valid


def test_no_more_wait_than_may(kept: Kept) -> None:
    now = START
    sessions = kept.service(max_sessions=2, session_timeout_s=60, clock=lambda: now)
    first = sessions.create_session(QUESTIONS)
    sessions.create_session(QUESTIONS)
    with pytest.raises(TooManySessions) as caught:
        sessions.create_session(QUESTIONS)
    assert (caught.value.waiting, caught.value.max_sessions) == (2, 2)
    sessions.reject_session(first)
    sessions.create_session(QUESTIONS)
    now = START + timedelta(seconds=60)
    sessions.create_session(QUESTIONS)  # those before have timed out, whatever they say


def test_of_many_askers_only_as_many_as_may_get_a_place(kept: Kept) -> None:
    asked, refused = [], []

    def ask() -> None:
        try:
            asked.append(kept.service(max_sessions=3).create_session(QUESTIONS))
        except TooManySessions as error:
            refused.append(error)

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(asked), len(refused)) == (3, 3)
    assert kept.again().names() == sorted(asked)


# ------------------------------------------------------------------------------ endings


def test_a_session_is_answered_once(kept: Kept, sessions: QuestionSessions) -> None:
    which = sessions.create_session(QUESTIONS, call_id=CALL)
    saved = sessions.save_session_answers(which, ANSWERS)
    found = kept.service().get(which)
    assert (found.status, found.answers) == (SessionStatus.COMPLETED, saved)
    assert saved.call_id == CALL
    for act in (
        lambda: sessions.save_session_answers(which, ANSWERS),
        lambda: sessions.reject_session(which),
        lambda: sessions.abandon_session(which),
        lambda: sessions.time_out_session(which),
    ):
        with pytest.raises(SessionEnded) as caught:
            act()
        assert caught.value.status is SessionStatus.COMPLETED
    assert kept.service().get(which) == found


@pytest.mark.parametrize(
    ("end", "status"),
    [
        ("reject_session", SessionStatus.REJECTED),
        ("abandon_session", SessionStatus.ABANDONED),
        ("time_out_session", SessionStatus.TIMED_OUT),
    ],
)
def test_a_session_ends_otherwise_with_its_reason(
    kept: Kept, sessions: QuestionSessions, end: str, status: SessionStatus
) -> None:
    which = sessions.create_session(QUESTIONS)
    getattr(sessions, end)(which, "because")
    record = kept.service().get(which).record
    assert record.status is status
    assert "because" in {record.rejection_reason, record.end_reason}
    with pytest.raises(SessionEnded):
        sessions.save_session_answers(which, ANSWERS)
    assert kept.document(which, ANSWERS_FILE) is None


def test_an_answer_after_the_time_ends_the_session_as_timed_out(kept: Kept) -> None:
    """What was found out under the lock is stored, though the answer is refused."""
    now = START
    sessions = kept.service(session_timeout_s=60, clock=lambda: now)
    which = sessions.create_session(QUESTIONS)
    now = START + timedelta(seconds=61)
    with pytest.raises(SessionEnded):
        sessions.save_session_answers(which, ANSWERS)
    assert kept.service().get(which).status is SessionStatus.TIMED_OUT
    assert kept.document(which, ANSWERS_FILE) is None


def test_of_several_who_end_a_session_one_wins(kept: Kept) -> None:
    which = kept.service().create_session(QUESTIONS)
    won: list[str] = []
    lost: list[SessionEnded] = []
    start = threading.Barrier(6)

    def race(number: int) -> None:
        own = kept.service()
        start.wait()
        try:
            if number % 2:
                own.reject_session(which, f"racer {number}")
                won.append("rejected")
            else:
                own.save_session_answers(which, ANSWERS)
                won.append("completed")
        except SessionEnded as error:
            lost.append(error)

    threads = [threading.Thread(target=race, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(won), len(lost)) == (1, 5)
    assert kept.service().get(which).status.value == won[0]
    assert {error.status.value for error in lost} == set(won)


def test_what_others_wrote_into_a_document_stays(kept: Kept, sessions: QuestionSessions) -> None:
    which = sessions.create_session(QUESTIONS)
    sessions.save_session_answers(which, ANSWERS)
    before = json.loads(kept.document(which, ANSWERS_FILE) or b"")
    sessions.mark_answers_read(which)
    after = json.loads(kept.document(which, ANSWERS_FILE) or b"")
    assert after.pop("lastReadAt") is not None
    assert after == before
    waiting = sessions.create_session(QUESTIONS)
    with pytest.raises(NoAnswers):
        sessions.mark_answers_read(waiting)


# ------------------------------------------------------------------------------ looking


def test_sessions_are_listed_the_oldest_first_and_by_their_status(kept: Kept) -> None:
    clock = FakeClock()
    sessions = kept.service(clock=clock, new_id=FakeIds())
    first, second, third = (sessions.create_session(QUESTIONS) for _ in range(3))
    sessions.reject_session(second)
    looker = kept.service(clock=clock)
    assert [one.session_id for one in looker.list_sessions()] == [first, second, third]
    assert [one.session_id for one in looker.pending()] == [first, third]
    rejected = looker.list_sessions(SessionStatus.REJECTED)
    assert [one.session_id for one in rejected] == [second]
    assert set(kept.again().signatures()) == {first, second, third}
    assert {first, third} <= set(kept.again().signatures({SessionStatus.PENDING}))
    sessions.save_session_answers(first, ANSWERS)
    assert [one.session_id for one in looker.pending()] == [third]


def test_what_did_not_change_has_the_signature_that_it_had(
    kept: Kept, sessions: QuestionSessions
) -> None:
    one, other = (sessions.create_session(QUESTIONS) for _ in range(2))
    store = kept.again()
    before = {which: store.signature(which) for which in (one, other)}
    assert dict(store.signatures()) == before
    sessions.reject_session(other)
    assert store.signature(one) == before[one]
    assert store.signature(other) != before[other]


def test_what_did_not_change_is_not_read_again(kept: Kept, sessions: QuestionSessions) -> None:
    which = sessions.create_session(QUESTIONS)
    store = kept.again()
    seen, read = store.read_changed(which, None)
    assert read == sessions.get(which)
    assert seen == store.signature(which)
    assert store.read_changed(which, seen) == (seen, None)
    sessions.reject_session(which)
    after, read = store.read_changed(which, seen)
    assert after != seen
    assert read == sessions.get(which)
    with pytest.raises(SessionNotFound):
        store.read_changed(MISSING, None)


def test_one_that_can_not_be_read_hides_no_other(kept: Kept, sessions: QuestionSessions) -> None:
    bad, good = (sessions.create_session(QUESTIONS) for _ in range(2))
    kept.spoil(bad)
    unreadable: list[UnreadableQuestion] = []
    looker = kept.service(sleep=lambda _: None)
    found = looker.list_sessions(on_unreadable=unreadable.append)
    assert [one.session_id for one in found] == [good]
    assert [one.session_id for one in unreadable] == [bad]
    with pytest.raises(SessionCorrupted):
        looker.get(bad)
    assert not looker.validate_session(bad).is_valid
    assert looker.validate_session(good).is_valid
    looker.abandon_session(bad, "it can't be read")
    assert looker.store.read_record(bad).status is SessionStatus.ABANDONED


def test_an_id_is_found_by_its_beginning(kept: Kept, sessions: QuestionSessions) -> None:
    which = sessions.create_session(QUESTIONS)
    assert kept.service().resolve_id(which[:8].upper()) == which
    assert kept.service().short_ids() == {which: which[:8]}


def test_a_change_of_any_waiting_session_changes_the_mark(kept: Kept) -> None:
    sessions = kept.service()
    sessions.create_session(QUESTIONS)
    marks = [kept.again().change_mark()]
    which = sessions.create_session(QUESTIONS)
    marks.append(kept.again().change_mark())
    sessions.reject_session(which)
    marks.append(kept.again().change_mark())
    for before, after in pairwise(marks):
        assert before != after or before is None  # files settle first


# -------------------------------------------------------------------------------- upkeep


def test_what_is_older_than_it_is_kept_goes_whatever_its_status(kept: Kept) -> None:
    now = START
    sessions = kept.service(retention_s=3600, clock=lambda: now)
    waiting, ended = (sessions.create_session(QUESTIONS) for _ in range(2))
    sessions.save_session_answers(ended, ANSWERS)
    now = START + timedelta(seconds=3000)
    young = sessions.create_session(QUESTIONS)
    assert sessions.cleanup_expired_sessions().deleted == ()
    now = START + timedelta(seconds=3601)
    result = sessions.cleanup_expired_sessions()
    assert (sorted(result.deleted), result.kept) == (sorted([waiting, ended]), 1)
    assert kept.again().names() == [young]
    now = START + timedelta(days=1000)
    assert kept.service(retention_s=0, clock=lambda: now).cleanup_expired_sessions().deleted == ()
    assert kept.again().names() == [young]


# ------------------------------------------------------------------------------- waiting


def test_who_waits_is_woken_by_an_answer_from_elsewhere(kept: Kept) -> None:
    which = kept.service().create_session(QUESTIONS)
    answering = threading.Timer(0.05, lambda: kept.service().save_session_answers(which, ANSWERS))
    answering.start()
    answers = kept.service().wait_for_answers(which, 60)
    answering.join()
    assert answers.answers == ANSWERS


def test_who_waits_learns_of_every_end(kept: Kept) -> None:
    sessions = kept.service()
    rejected, abandoned, waiting = (sessions.create_session(QUESTIONS) for _ in range(3))
    sessions.reject_session(rejected, "no")
    with pytest.raises(SessionRejected):
        kept.service().wait_for(rejected)
    sessions.abandon_session(abandoned, "gone")
    with pytest.raises(SessionEnded, match="abandoned"):
        kept.service().wait_for(abandoned)
    with pytest.raises(AnswersTimeout):
        kept.service().wait_for(waiting, 0)
    with pytest.raises(AnswersTimeout):
        kept.service().wait_for(waiting, 0, on_timeout="end")
    assert kept.service().get(waiting).status is SessionStatus.TIMED_OUT


@pytest.mark.anyio
async def test_a_task_that_waits_is_woken_as_well(kept: Kept) -> None:
    which = kept.service().create_session(QUESTIONS)
    answering = threading.Timer(0.05, lambda: kept.service().save_session_answers(which, ANSWERS))
    answering.start()
    with anyio.fail_after(60):
        answers = await kept.service().wait_for_answers_async(which)
    await anyio.to_thread.run_sync(answering.join)
    assert answers.answers == ANSWERS


def test_a_change_is_reported_to_who_watches(kept: Kept) -> None:
    sessions = kept.service()
    which, other = (sessions.create_session(QUESTIONS) for _ in range(2))
    rung = threading.Event()
    with kept.again().watching(which, rung.set):
        sessions.reject_session(other)
        sessions.reject_session(which)
        wait_until(rung.is_set)


def test_changes_of_all_sessions_are_followed(kept: Kept) -> None:
    sessions = kept.service()
    first = sessions.create_session(QUESTIONS)
    stop = threading.Event()
    found = kept.service().changes(stop=stop)
    assert next(found) == {first}
    second = sessions.create_session(QUESTIONS)
    while second not in next(found):
        pass
    sessions.save_session_answers(first, ANSWERS)
    while first not in next(found):
        pass
    stopping = when(lambda: True, stop.set)
    assert list(found) in ([], [frozenset({first})], [frozenset({second})])
    stopping.join()


@pytest.mark.anyio
async def test_changes_are_followed_by_a_task(kept: Kept) -> None:
    sessions = kept.service()
    found = kept.service().changes_async()
    with anyio.fail_after(60):
        assert await anext(found) == frozenset()
        which = sessions.create_session(QUESTIONS)
        while which not in await anext(found):
            pass
        await found.aclose()
