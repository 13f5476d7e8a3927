"""The store: conflicts, listing, resolving, attachments, limits."""

from __future__ import annotations

import copy
import os
from datetime import timedelta
from pathlib import Path

import pytest

from agentforge_sessions.durable import LockTimeout
from agentforge_sessions.harness import (
    AmbiguousSessionId,
    SessionConflict,
    SessionContext,
    SessionIdTaken,
    SessionManager,
    SessionNotFound,
    SessionState,
    SessionStore,
    SessionSummary,
    SessionTooLarge,
    UnreadableSession,
)
from agentforge_sessions.harness.session_codec import HEAD_BYTES
from tests.support.clock import FakeClock
from tests.support.filesystem import FaultyFileSystem
from tests.support.listing import names_in
from tests.support.sessions import session_id as an_id

S = an_id(1)


def make(store: SessionStore, *ids: str) -> None:
    for session_id in ids:
        store.save(SessionContext.create(session_id=session_id))


FORMER = "session_20260301_093000_00000100"
KNOWN = (an_id(100), an_id(101), an_id(722), FORMER)


@pytest.mark.parametrize(
    ("shortened", "found"),
    [
        (an_id(101), an_id(101)),
        (FORMER[:-1], FORMER),
        ("session_20260301_093000_0001", None),
        ("22", an_id(722)),
        ("000100", None),  # an end wins over a middle, and two end so
        ("_000100", an_id(100)),
        ("07", an_id(722)),
        ("_0000", FORMER),
    ],
)
def test_resolve_takes_the_best_fit(store: SessionStore, shortened: str, found: str | None) -> None:
    make(store, *KNOWN)

    if found is None:
        with pytest.raises(AmbiguousSessionId):
            store.resolve(shortened)
    else:
        assert store.resolve(shortened) == found


@pytest.mark.parametrize(("shortened", "fitting"), [("session", 4), ("2026", 4), ("_0001", 2)])
def test_resolve_refuses_what_fits_several(
    store: SessionStore, shortened: str, fitting: int
) -> None:
    make(store, *KNOWN)

    with pytest.raises(AmbiguousSessionId) as caught:
        store.resolve(shortened)

    assert len(caught.value.candidates) == fitting
    assert list(caught.value.candidates) == sorted(caught.value.candidates)


def test_resolve_says_where_there_is_no_such_session(store: SessionStore, base: Path) -> None:
    make(store, S)
    with pytest.raises(SessionNotFound) as caught:
        store.resolve("q")
    assert caught.value.path == base


def test_the_later_of_two_writers_gets_a_conflict_and_nothing_is_lost(
    store: SessionStore, base: Path
) -> None:
    make(store, S)
    first, second = store.load(S), SessionStore(base).load(S)
    assert first is not None
    assert second is not None
    first.add_history("first")
    store.save(first)
    second.add_history("second")
    before = copy.deepcopy(second)

    with pytest.raises(SessionConflict) as caught:
        SessionStore(base).save(second)

    assert (caught.value.expected_revision, caught.value.actual_revision) == (1, 2)
    assert caught.value.path == base / S / "session.yaml"
    assert second == before
    assert store.load(S) == first


def test_a_session_that_was_deleted_meanwhile_is_a_conflict_and_stays_deleted(
    store: SessionStore, base: Path
) -> None:
    make(store, S)
    session = store.load(S)
    assert session is not None
    store.delete(S)

    with pytest.raises(SessionConflict) as caught:
        store.save(session)

    assert caught.value.actual_revision is None
    assert names_in(base) == [".gitkeep"]


def test_an_id_is_taken_by_a_session_and_by_anything_else(store: SessionStore, base: Path) -> None:
    make(store, S)
    directory, file = an_id(2), an_id(3)
    (base / directory).mkdir()
    (base / file).write_text("x")
    content = store.session_path(S).read_bytes()

    for taken in (S, directory, file):
        with pytest.raises(SessionIdTaken, match="is taken") as caught:
            make(store, taken)
        assert caught.value.session_id == taken

    assert store.session_path(S).read_bytes() == content
    assert os.listdir(base / directory) == []
    assert (base / file).read_text() == "x"


def test_deletion_at_another_revision_deletes_nothing(store: SessionStore) -> None:
    make(store, S)
    with pytest.raises(SessionConflict):
        store.delete(S, expected_revision=2)
    assert store.exists(S)
    assert store.delete(S, expected_revision=1) is True
    assert store.delete(S) is False


def test_a_listing_reads_only_the_head_however_long_the_history(
    store: SessionStore, fs: FaultyFileSystem
) -> None:
    short, long = an_id(2), an_id(1)
    make(store, short, long)
    session = store.load(long)
    assert session is not None
    for number in range(2_000):
        session.add_history("noted", details=f"number {number} " + "x" * 100)
    store.save(session)
    fs.begin()

    found = list(store.summaries())

    assert [one.session_id for one in found] == [long, short]
    assert all(isinstance(one, SessionSummary) for one in found)
    assert fs.bytes_read <= 2 * (HEAD_BYTES + 4)
    reads = [call for call in fs.trace if call.operation == "pread"]
    assert all(call.size <= HEAD_BYTES for call in reads)
    assert isinstance(found[0], SessionSummary)
    assert found[0].size_bytes > 200_000
    assert found[0].head.revision == 2


def test_a_listing_leaves_out_what_is_no_session(store: SessionStore, base: Path) -> None:
    make(store, S)
    (base / "file").write_text("x")
    (base / ".hidden").mkdir()
    (base / an_id(2)).mkdir()
    (base / an_id(3)).write_text("x")
    for name in ("src", "no id!", "session_1", an_id(4) + "x", an_id(5)[:-1] + "\u0661"):
        (base / name).mkdir()
        (base / name / "session.yaml").write_text("x")
    (base / "link").symlink_to(base / S)

    assert store.list_sessions() == [S]
    assert [one.session_id for one in store.summaries()] == [S]


def test_a_session_edited_by_hand_is_listed_too(store: SessionStore, base: Path) -> None:
    make(store, S)
    path = base / S / "session.yaml"
    path.write_text("# a note\n" + path.read_text().replace("state: active", "state:  active"))

    [one] = store.summaries()
    assert isinstance(one, SessionSummary)
    assert one.head.state is SessionState.ACTIVE
    session = store.load(S)
    assert session is not None
    session.add_history("goes on")
    store.save(session)
    assert store.load(S) == session


def test_a_session_over_the_limit_is_refused_and_the_old_one_kept(base: Path) -> None:
    store = SessionStore(base, max_file_bytes=2_000)
    make(store, S)
    session = store.load(S)
    assert session is not None
    session.add_history("noted", details="x" * 2_000)

    with pytest.raises(SessionTooLarge) as caught:
        store.save(session)

    assert caught.value.max_bytes == 2_000
    assert caught.value.size_bytes > 2_000
    assert session.revision == 1
    found = store.load(S)
    assert found is not None
    assert len(found.history) == 1


def test_attachments_appear_with_the_session_and_are_read_back(
    store: SessionStore, base: Path
) -> None:
    store.save(
        SessionContext.create(session_id=S), attachments={"plan.yaml": b"a", "notes.txt": b""}
    )

    assert store.read_attachment(S, "plan.yaml") == b"a"
    assert store.read_attachment(S, "notes.txt") == b""
    assert store.read_attachment(S, "other") is None
    assert sorted(os.listdir(base / S)) == ["notes.txt", "plan.yaml", "session.yaml"]


def test_a_save_waits_for_the_lock_no_longer_than_it_may(base: Path) -> None:
    store = SessionStore(base, lock_timeout_s=0.0)
    make(store, S)
    session = store.load(S)
    assert session is not None
    from agentforge_sessions.durable import DirectoryLock, OsFileSystem

    with DirectoryLock(OsFileSystem(), base / S), pytest.raises(LockTimeout):
        store.save(session)
    store.save(session)
    assert session.revision == 2


def test_what_a_killed_creation_left_is_swept_by_the_next(store: SessionStore, base: Path) -> None:
    store.ensure_directory()
    left = base / ".discarded-new-1"
    left.mkdir()
    (left / "session.yaml").write_text("half")

    make(store, S)

    assert names_in(base) == [".gitkeep", S]


@pytest.fixture
def kinds(manager: SessionManager, clock: FakeClock) -> list[str]:
    ids = []
    for workflow, end in (("tdflow", "pause"), ("spec", "complete"), ("tdflow", "abort")):
        ids.append(manager.create(workflow).session_id)
        getattr(manager, end)()
        manager.release()
        clock.advance(3_600)
    return ids


def test_list_gives_the_newest_first_and_find_sorts_by_id(
    manager: SessionManager, kinds: list[str]
) -> None:
    assert [one.session_id for one in manager.list()] == kinds[::-1]
    assert [one.session_id for one in manager.find()] == sorted(kinds)


def test_filters_keep_what_fits_all_of_them(manager: SessionManager, kinds: list[str]) -> None:
    def ids(**filters: object) -> list[str]:
        return sorted(one.session_id for one in manager.list(**filters))

    first, second, third = kinds
    assert ids(state=SessionState.COMPLETED) == [second]
    assert ids(state=SessionState.ACTIVE) == []
    assert ids(workflow_type="tdflow") == [first, third]
    assert ids(workflow_type="tdflow", state=SessionState.ABORTED) == [third]
    assert ids(older_than=timedelta(hours=2)) == [first, second]
    assert ids(younger_than=timedelta(hours=2)) == [second, third]
    assert ids(older_than=timedelta(hours=2), younger_than=timedelta(hours=2)) == [second]


def test_find_tells_of_what_it_cannot_read_and_goes_on(
    manager: SessionManager, kinds: list[str]
) -> None:
    manager.store.session_path(kinds[1]).write_text("x")
    told: list[UnreadableSession] = []

    found = [one.session_id for one in manager.find(on_unreadable=told.append)]

    assert found == [kinds[0], kinds[2]]
    assert [one.session_id for one in told] == [kinds[1]]
