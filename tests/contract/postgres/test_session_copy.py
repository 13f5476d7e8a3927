"""Sessions between files and a database: there and back they are the same, to the byte."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.errors import StoreUnavailable
from agentforge_sessions.fleet.postgres.sessions.session_repository import PostgresSessions
from agentforge_sessions.harness import (
    SessionContext,
    SessionCorrupted,
    SessionIdTaken,
    SessionRepository,
    SessionStore,
    WriteError,
)
from agentforge_sessions.harness.session_layout import SESSION_FILE, WORKFLOW_FILE
from agentforge_sessions.harness.store.session_copy import (
    CopyOutcome,
    SessionDiffers,
    SessionNotCopied,
    copy_sessions,
)
from agentforge_sessions.testing import MemorySessions
from tests.support.clock import START, FakeTokens
from tests.support.mortal_filesystem import Killed, MortalFileSystem
from tests.support.sessions import session_id as an_id
from tests.support.soak import SOAKING
from tests.support.strategies import sessions

ONE, TWO, THREE = an_id(1), an_id(2), an_id(3)
COPIED, PRESENT, LEFT = CopyOutcome.COPIED, CopyOutcome.PRESENT, CopyOutcome.LEFT
BESIDE = st.dictionaries(
    st.sampled_from(["plan.yaml", "base.json", "steps/1.json", "steps/2.prompt.json"]),
    st.binary(max_size=100),
)


def begin(store: SessionRepository, session_id: str, *, rounds: int = 2) -> SessionContext:
    """Put a session with a history, an attachment and a step into a store."""
    session = SessionContext.create("tdflow", "red", session_id=session_id, now=START)
    store.save(session, attachments={"plan.yaml": b"plan"})
    store.keep_step(session_id, "1.json", b"{}")
    for number in range(rounds):
        session.add_history("noted", details=str(number))
        store.save(session)
    return session


def copied(source: SessionRepository, target: SessionRepository) -> dict[str, CopyOutcome]:
    return {one.session_id: one.outcome for one in copy_sessions(source, target)}


def content(base: Path) -> Mapping[str, bytes]:
    """Return all files of a base, with their bytes."""
    return {
        str(path.relative_to(base)): path.read_bytes()
        for path in sorted(base.rglob("*"))
        if path.is_file()
    }


@given(session=sessions(), beside=BESIDE)
@settings(
    max_examples=200 if SOAKING else 15,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_there_and_back_a_session_is_the_same(
    database: Database, base: Path, session: SessionContext, beside: dict[str, bytes]
) -> None:
    for former in (base, base.with_name("back")):
        shutil.rmtree(former, ignore_errors=True)
    here, back = SessionStore(base), SessionStore(base.with_name("back"))
    there = PostgresSessions(database)
    for one in there.list_sessions():
        there.delete(one)
    session.revision = max(1, session.revision)
    here.adopt(session, documents=beside)
    assert copied(here, there) == {session.session_id: COPIED}
    assert copied(there, back) == {session.session_id: COPIED}
    assert content(base.with_name("back")) == content(base)
    assert PostgresSessions(database).load(session.session_id) == session
    assert copied(here, there) == copied(there, back) == {session.session_id: PRESENT}


@pytest.fixture
def here(base: Path) -> SessionStore:
    return SessionStore(base)


@pytest.fixture
def there(database: Database) -> PostgresSessions:
    return PostgresSessions(database)


def test_only_those_that_are_named_are_copied(here: SessionStore, there: PostgresSessions) -> None:
    for session_id in (ONE, TWO, THREE):
        begin(here, session_id)
    (done,) = copy_sessions(here, there, [TWO])
    assert (done.session_id, done.outcome) == (TWO, COPIED)
    assert there.list_sessions() == [TWO]


def test_a_dry_run_says_the_same_and_copies_nothing(
    here: SessionStore, there: PostgresSessions
) -> None:
    begin(here, ONE)
    begin(here, TWO)
    list(copy_sessions(here, there, [ONE]))
    found = {one.session_id: one.outcome for one in copy_sessions(here, there, dry_run=True)}
    assert found == {ONE: PRESENT, TWO: COPIED}
    assert there.list_sessions() == [ONE]
    assert copied(here, there) == found


def test_what_differs_is_refused_and_the_rest_is_copied(
    here: SessionStore, there: PostgresSessions
) -> None:
    mine = begin(here, ONE)
    begin(here, TWO)
    begin(here, THREE)
    begin(there, ONE, rounds=5)
    theirs = begin(there, THREE)
    there.keep_step(THREE, "2.json", b"another step")
    first, second, third = copy_sessions(here, there)
    assert (first.outcome, second.outcome, third.outcome) == (LEFT, COPIED, LEFT)
    assert isinstance(first.error, SessionDiffers)
    assert isinstance(third.error, SessionDiffers)
    assert (first.error.own_revision, first.error.revision) == (3, 6)
    assert first.error.where == there.where_is(ONE)
    assert here.load(ONE) == mine
    assert there.load(THREE) == theirs


def test_a_session_that_goes_on_after_its_copy_differs(
    here: SessionStore, there: PostgresSessions
) -> None:
    session = begin(here, ONE)
    assert copied(here, there) == {ONE: COPIED}
    session.add_history("noted")
    here.save(session)
    assert copied(here, there) == {ONE: LEFT}


def test_a_session_that_a_runner_is_at_is_left(here: SessionStore, there: PostgresSessions) -> None:
    session = SessionContext.create(session_id=ONE)
    here.save(session, attachments={WORKFLOW_FILE: b"steps"})
    begin(here, TWO)
    lock = here.run_lock(ONE, WORKFLOW_FILE, timeout_s=0.0)
    lock.acquire()
    first, second = copy_sessions(here, there)
    lock.release()
    assert (first.outcome, second.outcome) == (LEFT, COPIED)
    assert isinstance(first.error, SessionNotCopied)
    assert first.error.retryable
    assert copied(here, there) == {ONE: COPIED, TWO: PRESENT}


def test_a_session_that_cant_be_read_is_left(here: SessionStore, there: PostgresSessions) -> None:
    begin(here, ONE)
    begin(here, TWO)
    (here.base_path / ONE / SESSION_FILE).write_text("no session")
    first, second = copy_sessions(here, there)
    assert (first.outcome, second.outcome) == (LEFT, COPIED)
    assert isinstance(first.error, SessionCorrupted)
    assert there.list_sessions() == [TWO]


class Moving(MemorySessions):
    """A store whose session changes whenever it is read."""

    rounds = 0

    def read_attachments(self, session_id: str) -> dict[str, bytes]:
        found = super().read_attachments(session_id)
        if self.rounds:
            self.rounds -= 1
            session = self.load(session_id)
            assert session is not None
            session.add_history("noted")
            self.save(session)
        return found


def test_a_session_that_changes_while_it_is_read_is_read_again(base: Path, tmp_path: Path) -> None:
    moving, target = Moving(tmp_path / "moving"), SessionStore(base)
    begin(moving, ONE)
    moving.rounds = 3
    (done,) = copy_sessions(moving, target)
    assert isinstance(done.error, SessionNotCopied)
    moving.rounds = 2
    assert copied(moving, target) == {ONE: COPIED}
    assert target.load(ONE) == moving.load(ONE)


def test_a_copy_that_was_killed_anywhere_is_finished_by_repeating_it(
    there: PostgresSessions, base: Path
) -> None:
    made = {session_id: begin(there, session_id) for session_id in (ONE, TWO)}
    death, ended = 0, False
    while not ended:
        target = SessionStore(base, fs=MortalFileSystem(death), token=FakeTokens())
        try:
            ended = set(copied(there, target).values()) == {COPIED}
        except Killed:
            found = SessionStore(base).list_sessions()
            assert set(copied(there, SessionStore(base)).values()) <= {COPIED, PRESENT}
            assert found in ([], [ONE], [ONE, TWO])
        for session_id, session in made.items():
            assert SessionStore(base).load(session_id) == session
            assert SessionStore(base).read_attachments(session_id) == {
                "plan.yaml": b"plan",
                "steps/1.json": b"{}",
            }
        shutil.rmtree(base)
        death += 1
    assert death > 20


def worked_on_here(there: PostgresSessions, base: Path) -> SessionContext:
    """A session of the database on which this machine worked, in a directory of the target."""
    work_in(base)
    return begin(there, ONE)


def work_in(base: Path) -> None:
    (base / ONE / "workspace").mkdir(parents=True)
    (base / ONE / "workspace" / "made.txt").write_text("by a phase")


def test_a_session_comes_back_to_the_directory_where_it_was_worked_on(
    there: PostgresSessions, base: Path
) -> None:
    session = worked_on_here(there, base)
    assert copied(there, SessionStore(base)) == {ONE: COPIED}
    assert SessionStore(base).load(ONE) == session
    assert SessionStore(base).read_attachments(ONE) == there.read_attachments(ONE)
    assert (base / ONE / "workspace" / "made.txt").read_text() == "by a phase"
    assert copied(there, SessionStore(base)) == {ONE: PRESENT}


def test_it_comes_back_whole_wherever_the_copy_is_killed(
    there: PostgresSessions, base: Path
) -> None:
    session = worked_on_here(there, base)
    death, ended = 0, False
    while not ended:
        try:
            target = SessionStore(base, fs=MortalFileSystem(death), token=FakeTokens())
            ended = copied(there, target) == {ONE: COPIED}
        except Killed:
            assert SessionStore(base).load(ONE) in (None, session)
            copied(there, SessionStore(base))
        assert SessionStore(base).load(ONE) == session
        assert SessionStore(base).read_attachments(ONE) == there.read_attachments(ONE)
        assert (base / ONE / "workspace" / "made.txt").read_text() == "by a phase"
        shutil.rmtree(base)
        work_in(base)
        death += 1
    assert death > 8


def test_a_directory_with_something_else_in_it_is_left_as_it_is(
    there: PostgresSessions, base: Path, tmp_path: Path
) -> None:
    worked_on_here(there, base)
    (base / ONE / "plan.yaml").write_text("another plan")
    (base / TWO).symlink_to(tmp_path)
    begin(there, TWO)
    before = content(base)
    first, second = copy_sessions(there, SessionStore(base))
    assert isinstance(first.error, SessionIdTaken)
    assert second.outcome is LEFT
    assert content(base) == before


def test_a_target_that_refuses_ends_the_copy(there: PostgresSessions, tmp_path: Path) -> None:
    begin(there, ONE)
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(WriteError):
        list(copy_sessions(there, SessionStore(tmp_path / "file" / "sessions")))


def test_a_store_that_does_not_answer_ends_the_copy(here: SessionStore) -> None:
    begin(here, ONE)
    with Database("postgresql://127.0.0.1:1/x") as nowhere, pytest.raises(StoreUnavailable):
        list(copy_sessions(here, PostgresSessions(nowhere)))
