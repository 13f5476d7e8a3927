"""One suite for every implementation of the ports to sessions.

An implementation takes part by an entry in `STORES`.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest
from attrs import frozen

from agentforge_sessions.base.errors import AmbiguousId
from agentforge_sessions.base.files import LockTimeout
from agentforge_sessions.base.files.errors import WriteError
from agentforge_sessions.entrypoints.pages.session_page import session_report
from agentforge_sessions.entrypoints.pages.values.material import PageSource
from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.store import PostgresStore
from agentforge_sessions.harness import (
    InvalidSession,
    InvalidSessionId,
    InvalidStateTransition,
    LocalSessions,
    SessionConflict,
    SessionContext,
    SessionCorrupted,
    SessionFilter,
    SessionIdTaken,
    SessionInUse,
    SessionManager,
    SessionNotFound,
    SessionRepository,
    SessionState,
    SessionStore,
    SessionSummary,
    UnreadableSession,
)
from agentforge_sessions.harness.domain.session_description import DescriptionChange
from agentforge_sessions.harness.errors import SessionTooLarge
from agentforge_sessions.harness.format.session_codec import decode_session, encode_session
from agentforge_sessions.harness.session_layout import GUARDS, RUN_LOCKS, WORKSPACE
from agentforge_sessions.harness.session_ports import SessionPlaces
from agentforge_sessions.harness.views.session_head import SessionHead
from agentforge_sessions.testing import MemorySessions
from agentforge_sessions.workflows import WorkflowRunner
from tests.support.agents import FakeGates, ScriptedAgent, tdflow_work
from tests.support.clock import START, FakeClock
from tests.support.sessions import session_id as an_id
from tests.unit.harness.test_ids import HOSTILE, NAMES

S, OTHER, THIRD = an_id(1), an_id(2), an_id(3)
HASHED: Final = "session_20260301_093000_00000100"
KNOWN: Final = (an_id(100), an_id(101), an_id(722), HASHED)
LIMIT: Final = 100_000


@frozen
class Kept:
    """A store, and what else its tests need.

    Attributes:
        sessions: The store.
        again: Opens it anew, as another process does.
        spoil: Makes what is stored of a session unreadable.
        as_text: Whether it keeps a session as the text of its file.
    """

    sessions: LocalSessions
    again: Callable[[], LocalSessions]
    spoil: Callable[[str], object]
    as_text: bool = True

    def put(self, *ids: str, attachments: dict[str, bytes] | None = None) -> None:
        for session_id in ids:
            session = SessionContext.create("tdflow", "red", session_id=session_id, now=START)
            self.sessions.save(session, attachments=attachments)

    def get(self, session_id: str = S) -> SessionContext:
        found = self.again().load(session_id)
        assert found is not None
        return found


def files(base: Path) -> Kept:
    def spoil(session_id: str) -> None:
        (base / session_id / "session.yaml").write_text("no session")

    def make() -> SessionStore:
        return SessionStore(base, max_file_bytes=LIMIT)

    return Kept(make(), make, spoil)


def memory(base: Path) -> Kept:
    first = MemorySessions(base, max_bytes=LIMIT)

    def spoil(session_id: str) -> None:
        first.shelf.documents[session_id] = b"no session"

    return Kept(first, lambda: MemorySessions(base, first.shelf, max_bytes=LIMIT), spoil)


STORES: Final[dict[str, Callable[[Path], Kept]]] = {"files": files, "memory": memory}


@pytest.fixture(params=[*STORES, "postgres"])
def kept(request: pytest.FixtureRequest, base: Path) -> Kept:
    if request.param in STORES:
        return STORES[request.param](base)
    database: Database = request.getfixturevalue("database")

    def spoil(session_id: str) -> None:
        with database.connection() as connection:
            connection.execute(
                "update agentforge.sessions set updated_at = created_at - interval '1 day' where "
                "id = %s",
                (session_id,),
            )

    def make() -> PostgresStore:
        return PostgresStore(database, base, max_bytes=LIMIT)

    return Kept(make(), make, spoil, as_text=False)


def test_a_reference_names_a_session_to_who_has_not_this_repository(kept: Kept) -> None:
    kept.put(S)
    reference = Path(kept.sessions.reference(S))
    assert reference.name == S
    assert reference.is_absolute() or str(reference) == S
    if reference.is_absolute():
        assert SessionManager(reference.parent).store.exists(reference.name)
    assert kept.again().reference(S) == str(reference)
    with pytest.raises(InvalidSessionId):
        kept.sessions.reference("../x")


@contextmanager
def running(kept: Kept, session_id: str = S) -> Iterator[None]:
    """Hold a session as a runner in another process does."""
    lock = kept.again().run_lock(session_id, RUN_LOCKS[0], timeout_s=0.0)
    lock.acquire()
    try:
        yield
    finally:
        lock.release()


def test_it_is_what_the_ports_ask_for(kept: Kept) -> None:
    assert isinstance(kept.sessions, SessionRepository)
    assert isinstance(kept.sessions, SessionPlaces)
    assert isinstance(kept.sessions, LocalSessions)


# ------------------------------------------------------------------------ create, load, save


def test_at_first_there_is_nothing(kept: Kept) -> None:
    sessions = kept.sessions
    assert sessions.load(S) is None
    assert sessions.exists(S) is False
    assert sessions.list_sessions() == []
    assert list(sessions.summaries()) == []
    assert sessions.read_document(S) is None
    assert sessions.read_attachment(S, "plan.yaml") is None
    assert sessions.change_mark(S) is None
    assert sessions.delete(S) is False


def test_a_session_is_for_every_process_what_it_was_when_it_was_saved(kept: Kept) -> None:
    session = SessionContext.create("tdflow", "red", 5_000, goal="all:\nof it \u2028 é", now=START)
    session.add_history("noted", details="  much\n\tof it", now=START)
    session.add_artifact("src/a.py", "created", now=START)
    kept.sessions.save(session)
    assert session.revision == 1
    for sessions in (kept.sessions, kept.again()):
        assert sessions.exists(session.session_id) is True
        assert sessions.load(session.session_id) == session


CARRIED: Final = {
    "title": "Nightly: scheduler \u00e9",
    "tags": ["nightly", "team/red", "no"],
    "metadata": {"ticket": 4711, "on": True, "ratio": -0.0, "of": [1, 1.0, None, {"": "a\n b\n"}]},
    "workflow_state": {"step": 2**80, "files": {"a b.py": [[], {}, "\0\u2028"]}, "none": None},
    "parent_id": OTHER,
}


def exactly(session: SessionContext) -> str:
    """Say what a session carries so that 1, 1.0 and true differ."""
    return repr([getattr(session, name) for name in CARRIED])


def test_what_a_session_carries_for_its_user_comes_back_exactly(kept: Kept) -> None:
    session = SessionContext.create(goal="g", session_id=S, now=START, **CARRIED)
    kept.sessions.save(session)
    for _ in range(2):
        assert kept.get() == session
        assert exactly(kept.get()) == exactly(session)
        assert kept.sessions.read_document(S) == encode_session(session)
        session.add_history("noted", now=START)
        kept.sessions.save(session)


@pytest.mark.parametrize(
    "change",
    [
        {"title": "another"},
        {"title": None},
        {"tags": ("a",)},
        {"tags": ()},
        {"metadata": {"a": 1}},
        {"metadata": {}},
        {"workflow_state": {"step": 1}},
        {"workflow_state": {}},
        {"parent_id": None},
        {
            name: () if name == "tags" else {} if name in ("metadata", "workflow_state") else None
            for name in CARRIED
        },
    ],
    ids=str,
)
def test_what_a_session_carries_is_changed_and_taken_away_by_a_save(
    kept: Kept, change: dict[str, object]
) -> None:
    kept.sessions.save(SessionContext.create(session_id=S, now=START, **CARRIED))
    session = kept.get()
    for name, value in change.items():
        setattr(session, name, value)
    kept.sessions.save(session)

    assert kept.get() == session
    assert exactly(kept.get()) == exactly(session)
    head = SessionHead.of(session)
    assert [one.head for one in kept.again().summaries()] == [head]
    page = kept.again().page(limit=5)
    assert [one.head for one in page.sessions] == [head]


def test_a_value_that_is_equal_and_not_the_same_is_saved(kept: Kept) -> None:
    session = SessionContext.create(session_id=S, now=START, metadata={"a": 1})
    kept.sessions.save(session)
    for value in (True, 1.0, 1):
        session.metadata = {"a": value}
        kept.sessions.save(session)
        assert repr(kept.get().metadata) == repr({"a": value})


def test_the_children_of_a_session_are_found_though_it_is_deleted(kept: Kept) -> None:
    kept.put(S, OTHER)
    child = SessionContext.create(session_id=THIRD, now=START, parent_id=S)
    kept.sessions.save(child)
    for _ in range(2):
        wanted = SessionFilter(parent_id=S)
        assert [one.session_id for one in kept.again().summaries(wanted)] == [THIRD]
        page = kept.again().page(wanted, limit=5)
        assert [one.session_id for one in page.sessions] == [THIRD]
        kept.sessions.delete(S)
    assert kept.get(THIRD) == child


def test_a_list_changed_by_hand_keeps_what_the_session_carries(kept: Kept) -> None:
    session = SessionContext.create(session_id=S, now=START, **CARRIED)
    session.add_history("noted", now=START)
    kept.sessions.save(session)
    del session.history[1:]
    session.title = "another"
    kept.sessions.save(session)
    assert kept.get() == session


def test_each_save_raises_the_revision_by_one(kept: Kept) -> None:
    kept.put(S)
    session = kept.get()
    for revision in (2, 3, 4):
        session.add_history("noted", details=str(revision))
        kept.sessions.save(session)
        assert session.revision == revision
        assert kept.get() == session


def test_what_is_stored_is_changed_by_a_save_alone(kept: Kept) -> None:
    kept.put(S)
    before = kept.get()
    for session in (kept.sessions.load(S), kept.sessions.load(S)):
        assert session is not None
        assert session == before
        session.add_history("not saved")
        session.token_budget.tokens_used = 7


def test_the_later_of_two_writers_gets_a_conflict_and_nothing_is_lost(kept: Kept) -> None:
    kept.put(S)
    first, second = kept.get(), kept.get()
    first.add_history("first")
    kept.sessions.save(first)
    second.add_history("second")
    before = copy.deepcopy(second)

    with pytest.raises(SessionConflict) as caught:
        kept.again().save(second)

    assert (caught.value.expected_revision, caught.value.actual_revision) == (1, 2)
    assert caught.value.where == kept.sessions.where_is(S)
    assert second == before
    assert kept.get() == first


def test_a_session_that_was_deleted_meanwhile_is_a_conflict_and_stays_deleted(kept: Kept) -> None:
    kept.put(S)
    session = kept.get()
    kept.again().delete(S)

    with pytest.raises(SessionConflict) as caught:
        kept.sessions.save(session)

    assert caught.value.actual_revision is None
    assert kept.again().list_sessions() == []


def test_another_session_under_the_same_id_is_a_conflict(kept: Kept) -> None:
    kept.put(S)
    session = kept.get()
    kept.sessions.delete(S)
    anew = SessionContext.create(session_id=S, now=START + timedelta(seconds=1))
    kept.again().save(anew)

    with pytest.raises(SessionConflict, match="another session was created"):
        kept.sessions.save(session)

    assert kept.get() == anew


def test_an_id_is_given_once(kept: Kept) -> None:
    kept.put(S, attachments={"plan.yaml": b"first"})
    first = kept.get()
    second = SessionContext.create(session_id=S)

    with pytest.raises(SessionIdTaken, match="is taken"):
        kept.again().save(second, attachments={"plan.yaml": b"second"})

    assert second.revision == 0
    assert kept.get() == first
    assert kept.sessions.read_attachment(S, "plan.yaml") == b"first"


def test_a_session_that_has_ended_stays_as_it_ended(kept: Kept) -> None:
    kept.put(S)
    session = kept.get()
    session.apply("complete", now=START)
    kept.sessions.save(session)
    kept.sessions.save(session)  # nothing has changed
    assert session.revision == 2

    session.current_phase = "after all"
    with pytest.raises(InvalidStateTransition):
        kept.sessions.save(session)

    assert kept.get().current_phase == "red"


def test_a_session_that_has_ended_is_described_and_nothing_else(kept: Kept) -> None:
    kept.put(S)
    session = kept.get()
    session.apply("complete", now=START)
    kept.sessions.save(session)
    for sessions in (kept.sessions, kept.again()):
        found = sessions.load(S)
        assert found is not None
        tag = f"tag-{found.revision}"
        assert found.describe(DescriptionChange(add_tags=[tag]), now=START) is not None
        sessions.save(found)
        assert kept.get() == found
        assert tag in kept.get().tags
    changes: list[Callable[[SessionContext], object]] = [
        lambda one: setattr(one, "goal", "another"),
        lambda one: setattr(one, "workflow_state", {"a": 1}),
        lambda one: one.token_budget.extend(1),
        lambda one: one.add_history("noted", now=START),
        lambda one: setattr(one, "state", SessionState.ABORTED),
    ]
    before = kept.get()
    for change in changes:
        for sessions in (kept.sessions, kept.again()):
            found = sessions.load(S)
            assert found is not None
            found.describe(DescriptionChange(title="described, too"), now=START)
            change(found)
            with pytest.raises(InvalidStateTransition):
                sessions.save(found)
            assert kept.get() == before


def test_a_state_set_by_hand_is_refused(kept: Kept) -> None:
    kept.put(S)
    session = kept.get()
    session.apply("abort", now=START)
    kept.sessions.save(session)
    revived = kept.get()
    revived.state, revived.completed_at = SessionState.ACTIVE, None

    with pytest.raises(InvalidStateTransition):
        kept.sessions.save(revived)

    assert kept.get().state is SessionState.ABORTED


def test_what_breaks_the_rules_is_not_written(kept: Kept) -> None:
    kept.put(S)
    session = kept.get()
    session.attempt_number = -1
    with pytest.raises(InvalidSession):
        kept.sessions.save(session)
    assert kept.get().attempt_number == 1
    assert session.revision == 1


def test_a_session_over_the_limit_is_refused_and_the_stored_one_kept(kept: Kept) -> None:
    kept.put(S)
    session = kept.get()
    session.add_history("noted", details="x" * LIMIT)

    with pytest.raises(SessionTooLarge) as caught:
        kept.sessions.save(session)

    assert caught.value.max_bytes == LIMIT < caught.value.size_bytes
    assert session.revision == 1
    assert len(kept.get().history) == 1


def test_eight_racing_writers_lose_nothing(kept: Kept) -> None:
    kept.put(S)
    workers, count = 8, 4
    start, failed = threading.Barrier(workers), []

    def work(worker: int) -> None:
        try:
            sessions = kept.again()
            start.wait()
            for number in range(count):
                while True:
                    session = sessions.load(S)
                    assert session is not None
                    session.add_history("noted", details=f"{worker}.{number}")
                    try:
                        sessions.save(session)
                        break
                    except SessionConflict:
                        continue
        except BaseException as error:
            failed.append(error)
            raise

    threads = [threading.Thread(target=work, args=[worker]) for worker in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failed == []
    found = kept.get()
    assert found.revision == 1 + workers * count
    noted = [one.details for one in found.history if one.action == "noted"]
    assert sorted(map(str, noted)) == sorted(
        f"{w}.{n}" for w in range(workers) for n in range(count)
    )


def test_of_eight_racing_creators_one_is_the_first(kept: Kept) -> None:
    start, won, lost = threading.Barrier(8), [], []

    def work(worker: int) -> None:
        session = SessionContext.create(session_id=S, goal=f"{worker}")
        start.wait()
        try:
            kept.again().save(session, attachments={"who": f"{worker}".encode()})
            won.append(worker)
        except SessionIdTaken:
            lost.append(worker)

    threads = [threading.Thread(target=work, args=[worker]) for worker in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (len(won), len(lost)) == (1, 7)
    assert kept.get().goal == f"{won[0]}"
    assert kept.sessions.read_attachment(S, "who") == f"{won[0]}".encode()


# ---------------------------------------------------------------------------- from another store


def elsewhere(revision: int = 7) -> SessionContext:
    """A session that another store has at a revision."""
    session = SessionContext.create("tdflow", "red", session_id=S, goal="all of it", now=START)
    session.add_history("noted", details="much", now=START)
    session.add_artifact("src/a.py", "created", now=START)
    session.revision = revision
    return session


BESIDE: Final = {"plan.yaml": b"plan", "steps/1.json": b"{}", "steps/2.json": b"\0\xff"}


def test_a_session_of_another_store_is_adopted_as_it_is_there(kept: Kept) -> None:
    session = elsewhere()
    kept.sessions.adopt(session, documents=BESIDE)
    again = kept.again()
    assert again.load(S) == session == elsewhere()
    assert again.read_document(S) == encode_session(session)
    assert again.read_attachments(S) == BESIDE
    assert again.read_attachment(S, "plan.yaml") == b"plan"
    assert again.step_names(S) == ["1.json", "2.json"]
    assert again.read_step(S, "2.json") == b"\0\xff"


def test_a_session_that_has_ended_is_adopted_too(kept: Kept) -> None:
    session = elsewhere()
    session.apply("complete", now=START)
    kept.sessions.adopt(session)
    assert kept.get() == session


def test_an_adopted_session_goes_on_from_its_revision(kept: Kept) -> None:
    kept.sessions.adopt(elsewhere())
    session = kept.get()
    session.add_history("noted", details="more")
    kept.sessions.save(session)
    assert session.revision == 8
    assert kept.get() == session


def test_an_id_that_is_taken_is_not_adopted(kept: Kept) -> None:
    kept.put(S)
    before = kept.get()
    with pytest.raises(SessionIdTaken):
        kept.sessions.adopt(elsewhere(), documents=BESIDE)
    assert kept.get() == before
    assert kept.sessions.read_attachments(S) == {}


def test_what_no_store_can_have_is_not_adopted(kept: Kept) -> None:
    with pytest.raises(ValueError, match="never saved"):
        kept.sessions.adopt(elsewhere(revision=0))
    with pytest.raises(ValueError, match="attachment"):
        kept.sessions.adopt(elsewhere(), documents={"workspace/x": b""})
    broken = elsewhere()
    broken.attempt_number = -1
    with pytest.raises(InvalidSession):
        kept.sessions.adopt(broken)
    large = elsewhere()
    large.add_history("noted", details="x" * LIMIT)
    with pytest.raises(SessionTooLarge):
        kept.sessions.adopt(large)
    assert kept.again().list_sessions() == []


def test_a_store_that_was_closed_opens_again(kept: Kept) -> None:
    kept.put(S)
    kept.sessions.close()
    kept.sessions.close()
    assert kept.sessions.exists(S)


# ------------------------------------------------------------------------------- what can't be read


def test_what_cant_be_read_is_a_session_and_a_typed_error(kept: Kept) -> None:
    kept.put(S, OTHER)
    session = kept.get()
    kept.spoil(S)
    sessions = kept.again()

    assert sessions.exists(S) is True
    assert sessions.list_sessions() == [S, OTHER]
    unreadable, readable = sessions.summaries()
    assert isinstance(unreadable, UnreadableSession)
    assert isinstance(readable, SessionSummary)
    assert unreadable.session_id == S
    with pytest.raises(SessionCorrupted) as caught:
        sessions.load(S)
    assert caught.value.session_id == S
    assert caught.value.where == sessions.where_is(S)
    assert caught.value.faults == unreadable.error.faults != ()
    session.add_history("noted")
    with pytest.raises(SessionCorrupted):
        sessions.save(session)
    if kept.as_text:
        assert sessions.read_document(S) == b"no session"
    else:
        with pytest.raises(SessionCorrupted):
            sessions.read_document(S)
    assert sessions.delete(S) is True
    assert sessions.list_sessions() == [OTHER]


# ---------------------------------------------------------------------------------- listing


@pytest.fixture
def listed(kept: Kept) -> Kept:
    """Four sessions, an hour between them, of which the last can't be read."""
    clock = FakeClock()
    for workflow, phase, end in (
        ("tdflow", "green", "pause"),
        ("spec", "red", "complete"),
        ("tdflow", "red", "abort"),
        ("tdflow", "red", "pause"),
    ):
        manager = SessionManager(kept.sessions, clock=clock)
        manager.create(workflow, phase)
        getattr(manager, end)()
        clock.advance(3_600)
    kept.spoil(kept.sessions.list_sessions()[-1])
    return kept


def test_a_listing_is_sorted_by_id_and_has_the_heads(kept: Kept) -> None:
    kept.put(THIRD, S, OTHER)
    found = list(kept.again().summaries())
    assert [one.session_id for one in found] == [S, OTHER, THIRD]
    for one in found:
        assert isinstance(one, SessionSummary)
        assert one.head == SessionHead.of(kept.get(one.session_id))
        assert one.size_bytes > 0


HOUR: Final = timedelta(hours=1)


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        (SessionFilter(), [0, 1, 2]),
        (SessionFilter(state=SessionState.COMPLETED), [1]),
        (SessionFilter(state=SessionState.ACTIVE), []),
        (SessionFilter(workflow_type="tdflow"), [0, 2]),
        (SessionFilter(workflow_type="tdflow", state=SessionState.ABORTED), [2]),
        (SessionFilter(current_phase="red"), [1, 2]),
        (SessionFilter(current_phase="red", workflow_type="tdflow"), [2]),
        (SessionFilter(changed_until=START + HOUR), [0, 1]),
        (SessionFilter(changed_since=START + HOUR), [1, 2]),
        (SessionFilter(changed_since=START + HOUR, changed_until=START + HOUR), [1]),
    ],
)
def test_a_filter_keeps_what_fits_all_of_it_and_hides_nothing_unreadable(
    listed: Kept, wanted: SessionFilter, numbers: list[int]
) -> None:
    ids = listed.sessions.list_sessions()
    found = list(listed.again().summaries(wanted))
    assert [one.session_id for one in found] == [*(ids[number] for number in numbers), ids[-1]]
    assert isinstance(found[-1], UnreadableSession)


@pytest.mark.parametrize(
    ("shortened", "found"),
    [
        (an_id(101), an_id(101)),
        (HASHED[:-1], HASHED),
        ("session_20260301_093000_0001", None),
        ("22", an_id(722)),
        ("000100", None),  # an end wins over a middle, and two end so
        ("_000100", an_id(100)),
        ("07", an_id(722)),
        ("_0000", HASHED),
    ],
)
def test_resolve_takes_the_best_fit(kept: Kept, shortened: str, found: str | None) -> None:
    kept.put(*KNOWN)

    if found is None:
        with pytest.raises(AmbiguousId):
            kept.sessions.resolve(shortened)
    else:
        assert kept.sessions.resolve(shortened) == found


@pytest.mark.parametrize(("shortened", "fitting"), [("session", 4), ("2026", 4), ("_0001", 2)])
def test_resolve_refuses_what_fits_several(kept: Kept, shortened: str, fitting: int) -> None:
    kept.put(*KNOWN)

    with pytest.raises(AmbiguousId) as caught:
        kept.sessions.resolve(shortened)

    assert len(caught.value.candidates) == fitting
    assert list(caught.value.candidates) == sorted(caught.value.candidates)


def test_resolve_says_where_there_is_no_such_session(kept: Kept) -> None:
    kept.put(S)
    with pytest.raises(SessionNotFound) as caught:
        kept.sessions.resolve("q")
    assert caught.value.where == kept.sessions.where
    assert kept.sessions.where in str(caught.value)


def test_it_says_where_a_session_is(kept: Kept) -> None:
    assert kept.sessions.where_is(S).startswith(kept.sessions.where)
    assert S in kept.sessions.where_is(S)
    assert kept.sessions.where_is(S, "steps/0001.json").endswith(f"{S}/steps/0001.json")


# --------------------------------------------------------------------------------- deletion


def test_a_deletion_takes_all_that_is_kept_and_nothing_else(kept: Kept) -> None:
    kept.put(S, OTHER, attachments={"plan.yaml": b"a"})
    kept.sessions.workspace_path(S).mkdir()

    assert kept.again().delete(S) is True

    assert kept.sessions.list_sessions() == [OTHER]
    assert kept.sessions.read_attachment(S, "plan.yaml") is None
    assert not kept.sessions.session_directory(S).exists()
    assert kept.sessions.read_attachment(OTHER, "plan.yaml") == b"a"
    assert kept.sessions.delete(S) is False
    with pytest.raises(SessionNotFound):
        kept.sessions.delete(S, missing_ok=False)


def test_a_deletion_at_another_revision_deletes_nothing(kept: Kept) -> None:
    kept.put(S)
    with pytest.raises(SessionConflict):
        kept.sessions.delete(S, expected_revision=2)
    assert kept.sessions.exists(S)
    assert kept.sessions.delete(S, expected_revision=1) is True


def test_a_session_in_use_is_not_deleted(kept: Kept) -> None:
    kept.put(S, attachments={RUN_LOCKS[0]: b"steps"})
    with running(kept):  # which may have claimed it by a revision of its own
        before = kept.get()
        with pytest.raises(SessionInUse) as caught:
            kept.sessions.delete(S)
    assert caught.value.session_id == S
    assert kept.get() == before
    assert kept.sessions.delete(S) is True


def test_those_that_ended_long_ago_are_deleted_oldest_first(kept: Kept) -> None:
    ids = [an_id(number) for number in (5, 3, 4, 1, 2, 6)]
    for days, (session_id, end) in enumerate(
        zip(ids, ("complete", "abort", "pause", None, "complete", "complete"), strict=True)
    ):
        session = SessionContext.create(session_id=session_id, now=START)
        kept.sessions.save(session, attachments={RUN_LOCKS[0]: b"steps"})
        if end:
            session.apply(end, now=START + timedelta(days=days))
            kept.sessions.save(session)
    busy, young = ids[1], ids[5]
    clock = FakeClock(START + timedelta(days=14.5))
    delete = kept.again().delete_ended
    with running(kept, busy):
        deleted = delete(days=10, dry_run=False, clock=clock)
    assert deleted == [ids[0], ids[4]]
    assert kept.sessions.list_sessions() == sorted({*ids} - {*deleted})
    assert delete(days=10, dry_run=True, clock=clock) == [busy]
    assert delete(days=9, dry_run=True, clock=clock) == [busy, young]
    kept.spoil(busy)
    assert delete(days=0, dry_run=False, clock=clock) == [young]
    assert kept.sessions.list_sessions() == sorted({ids[1], ids[2], ids[3]})


# -------------------------------------------------------------------------- what is kept beside it


def test_attachments_appear_with_the_session_and_are_never_changed(kept: Kept) -> None:
    kept.put(S, attachments={"plan.yaml": b"a", "notes.txt": b""})
    session = kept.get()
    session.add_history("noted")
    kept.sessions.save(session, attachments={"plan.yaml": b"b", "more": b"c"})

    for sessions in (kept.sessions, kept.again()):
        assert sessions.read_attachment(S, "plan.yaml") == b"a"
        assert sessions.read_attachment(S, "notes.txt") == b""
        assert sessions.read_attachment(S, "more") is None
        assert sessions.read_attachments(S) == {"plan.yaml": b"a", "notes.txt": b""}


def test_a_fork_has_what_its_parent_had(kept: Kept) -> None:
    kept.put(S, attachments={"plan.yaml": b"a"})
    fork = SessionContext.create(session_id=OTHER)
    inherited = {**kept.sessions.read_attachments(S), "steps/0001.json": b"{}"}
    kept.sessions.save(fork, inherited=inherited)
    assert kept.again().read_attachments(OTHER) == inherited
    assert kept.again().read_attachment(OTHER, "plan.yaml") == b"a"


@pytest.mark.parametrize(
    "name",
    [*("", ".", "..", "../x", "a/b", "/x", ".hidden", "-x", "a\0", "a\n", "é", "x" * 129)],
)
def test_a_hostile_name_of_an_attachment_is_refused(kept: Kept, name: str) -> None:
    with pytest.raises(ValueError, match="attachment"):
        kept.sessions.save(SessionContext.create(session_id=S), attachments={name: b""})
    assert kept.sessions.exists(S) is False
    with pytest.raises(ValueError, match="attachment"):
        kept.sessions.read_attachment(S, name)


@pytest.mark.parametrize("name", ["session.yaml", WORKSPACE, "snapshots.git", "workspace/x"])
def test_nothing_kept_beside_a_session_takes_a_name_of_its_own(kept: Kept, name: str) -> None:
    with pytest.raises(ValueError, match="attachment"):
        kept.sessions.save(SessionContext.create(session_id=S), inherited={name: b""})
    assert kept.sessions.exists(S) is False


def test_steps_are_kept_for_whichever_worker_comes_next(kept: Kept) -> None:
    kept.put(S, OTHER, attachments={"plan.yaml": b"a"})
    assert kept.sessions.step_names(S) == []
    assert kept.sessions.read_step(S, "0001.json") is None
    for name in ("0002.json", "0001.json"):
        kept.sessions.keep_step(S, name, name.encode())
    kept.sessions.keep_step(S, "0002.json", b"anew")

    other = kept.again()
    assert other.step_names(S) == ["0001.json", "0002.json"]
    assert other.read_step(S, "0001.json") == b"0001.json"
    assert other.read_step(S, "0002.json") == b"anew"
    assert other.read_step(S, "plan.yaml") is None
    assert other.step_names(OTHER) == []
    taken = {"plan.yaml": b"a", "steps/0001.json": b"0001.json", "steps/0002.json": b"anew"}
    assert other.read_attachments(S) == taken
    assert kept.get().revision == 1
    other.delete(S)
    assert kept.sessions.step_names(S) == []


def test_no_step_is_kept_without_its_session(kept: Kept) -> None:
    kept.sessions.ensure_directory()
    with pytest.raises(WriteError):
        kept.sessions.keep_step(S, "0001.json", b"{}")
    assert kept.sessions.list_sessions() == []
    assert not kept.sessions.session_directory(S).exists()


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", "/x", ".hidden", "a\0", "x" * 129])
def test_a_hostile_name_of_a_step_is_refused(kept: Kept, name: str) -> None:
    kept.put(S)
    with pytest.raises(ValueError, match="step"):
        kept.sessions.keep_step(S, name, b"")
    with pytest.raises(ValueError, match="step"):
        kept.sessions.read_step(S, name)
    assert kept.sessions.step_names(S) == []


def test_a_session_is_read_as_the_text_of_its_file(kept: Kept) -> None:
    kept.put(S)
    data = kept.again().read_document(S)
    assert data is not None
    assert decode_session(data, path=Path(S) / "session.yaml") == kept.get()


def test_the_mark_changes_with_the_session(kept: Kept) -> None:
    kept.put(S)
    session, seen = kept.get(), {kept.sessions.change_mark(S)}
    assert {kept.again().change_mark(S)} == seen
    for number in range(3):
        session.add_history("noted", details=str(number))
        kept.again().save(session)
        mark = kept.sessions.change_mark(S)
        assert mark not in seen
        seen.add(mark)


# ----------------------------------------------------------------------------------------- ids

CALLS: Final[dict[str, Callable[[LocalSessions, str], object]]] = {
    "change_mark": lambda sessions, given: sessions.change_mark(given),
    "delete": lambda sessions, given: sessions.delete(given),
    "exists": lambda sessions, given: sessions.exists(given),
    "is_interrupted": lambda sessions, given: sessions.is_interrupted(given, SessionState.ACTIVE),
    "is_led": lambda sessions, given: sessions.is_led(given),
    "load": lambda sessions, given: sessions.load(given),
    "read_attachment": lambda sessions, given: sessions.read_attachment(given, "plan.yaml"),
    "read_attachments": lambda sessions, given: sessions.read_attachments(given),
    "read_document": lambda sessions, given: sessions.read_document(given),
    "keep_step": lambda sessions, given: sessions.keep_step(given, "0001.json", b""),
    "read_step": lambda sessions, given: sessions.read_step(given, "0001.json"),
    "step_names": lambda sessions, given: sessions.step_names(given),
    "run_lock": lambda sessions, given: sessions.run_lock(given, RUN_LOCKS[0], timeout_s=0.0),
    "session_directory": lambda sessions, given: sessions.session_directory(given),
    "where_is": lambda sessions, given: sessions.where_is(given),
    "workspace_path": lambda sessions, given: sessions.workspace_path(given),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_hostile_id_is_refused_wherever_it_is_given(kept: Kept, call: str) -> None:
    for given in HOSTILE:
        with pytest.raises(InvalidSessionId) as caught:
            CALLS[call](kept.sessions, given)  # type: ignore[arg-type]
        assert caught.value.given is given


def test_a_harmless_name_that_no_session_has_is_not_found(kept: Kept) -> None:
    for name in NAMES:
        assert kept.sessions.load(name) is None
        assert kept.sessions.exists(name) is False
        assert kept.sessions.delete(name) is False
        with pytest.raises(SessionNotFound):
            kept.sessions.delete(name, missing_ok=False)


@pytest.mark.parametrize(
    "given", ["", ".", "../x", "a/b", "\0", "a\nb", "é", " a", "x" * 129, "a*"]
)
def test_a_hostile_part_of_an_id_is_refused(kept: Kept, given: str) -> None:
    kept.put(S)
    with pytest.raises(InvalidSessionId):
        kept.sessions.resolve(given)


# ----------------------------------------------------------------------- places, and who is at work


def test_a_session_has_a_directory_here_and_its_workspace_is_in_it(kept: Kept) -> None:
    kept.put(S)
    directory = kept.sessions.session_directory(S)
    assert directory.is_dir()
    assert directory.parent == kept.sessions.base_path
    assert kept.sessions.workspace_path(S) == directory / WORKSPACE
    assert kept.again().session_directory(S) == directory


def test_making_the_base_twice_is_harmless(kept: Kept) -> None:
    kept.sessions.ensure_directory()
    kept.sessions.ensure_directory()
    assert kept.sessions.base_path.is_dir()
    assert kept.sessions.list_sessions() == []


def test_a_run_is_led_by_one_worker_and_interrupted_without(kept: Kept) -> None:
    kept.put(S, attachments={RUN_LOCKS[0]: b"steps"})
    with running(kept):
        assert kept.sessions.is_interrupted(S, SessionState.ACTIVE) is False
        assert kept.sessions.is_led(S) is True
        with pytest.raises(LockTimeout):
            kept.sessions.run_lock(S, RUN_LOCKS[0], timeout_s=0.0).acquire()
    assert kept.sessions.is_interrupted(S, SessionState.ACTIVE) is True
    assert kept.sessions.is_interrupted(S, SessionState.PAUSED) is False
    assert kept.sessions.is_led(S) is False
    with running(kept):
        pass


def test_what_no_runner_leads_is_not_interrupted_and_has_nothing_to_lock(kept: Kept) -> None:
    kept.put(S)
    assert kept.sessions.is_interrupted(S, SessionState.ACTIVE) is False
    assert kept.sessions.is_led(S) is False
    for missing in (S, OTHER):
        with pytest.raises(FileNotFoundError):
            kept.sessions.run_lock(missing, RUN_LOCKS[0], timeout_s=0.0).acquire()


def test_while_a_session_is_held_idle_nobody_runs_it_and_saves_go_on(kept: Kept) -> None:
    kept.put(S, attachments={RUN_LOCKS[0]: b"steps"})
    with kept.sessions.idle(S, GUARDS):
        with pytest.raises(LockTimeout):
            kept.again().run_lock(S, RUN_LOCKS[0], timeout_s=0.0).acquire()
        session = kept.get()
        session.add_history("noted")
        kept.again().save(session)
    assert kept.get() == session
    with running(kept):
        with pytest.raises(SessionInUse), kept.sessions.idle(S, GUARDS):
            pass
        with kept.sessions.idle(S, [WORKSPACE]):
            pass
    with pytest.raises(SessionInUse), kept.sessions.idle(OTHER, GUARDS):
        pass


# ------------------------------------------------------------------- what knows the ports alone


def test_a_manager_leads_a_session_through_its_life(kept: Kept) -> None:
    clock = FakeClock()
    manager = SessionManager(kept.sessions, clock=clock)
    session = manager.create("tdflow", "red", token_budget=1_000, goal="a goal")
    manager.record_tokens(400)
    manager.advance_phase("green")
    manager.pause("for a while")

    other = SessionManager(kept.again(), clock=clock)
    other.open(session.session_id)
    other.resume()
    manager.store.exists(session.session_id)
    with pytest.raises(SessionConflict):
        manager.extend_budget(5)
    manager.reload()
    manager.extend_budget(5)
    manager.complete()

    assert kept.get(session.session_id) == session
    assert [one.head.state for one in other.list(workflow_type="tdflow")] == [
        SessionState.COMPLETED
    ]
    assert list(other.find(older_than=timedelta.max)) == []
    assert len(list(other.find(younger_than=timedelta.max))) == 1
    clock.advance(3 * 86_400)
    assert other.cleanup_old_sessions(2) == [session.session_id]
    with pytest.raises(SessionNotFound) as caught:
        other.open(session.session_id)
    assert caught.value.where == kept.sessions.where


def test_a_runner_takes_an_agents_work_to_its_end(kept: Kept) -> None:
    def worker() -> WorkflowRunner:
        return WorkflowRunner(SessionManager(kept.again()), FakeGates(), lock_timeout_s=0)

    agent = ScriptedAgent()
    session_id = worker().begin(tdflow_work())
    outcome = worker().resume(session_id, agent)

    assert outcome.state is SessionState.COMPLETED
    assert [one.phase for one in agent.requests] == ["red", "green", "refactor"]
    assert (kept.sessions.workspace_path(session_id) / "adder.py").is_file()
    assert "Timeline" in session_report(PageSource(kept.get(session_id), kept.sessions))
