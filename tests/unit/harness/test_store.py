"""The store: conflicts, listing, resolving, attachments, limits."""

from __future__ import annotations

import copy
import os
from datetime import timedelta
from pathlib import Path

import pytest

from tests.support.clock import FakeClock
from tests.support.filesystem import FaultyFileSystem
from tests.support.listing import names_in
from tools.durable import LockTimeout, WriteError
from tools.harness import (
    AmbiguousSessionId,
    SessionConflict,
    SessionContext,
    SessionManager,
    SessionNotFound,
    SessionState,
    SessionStore,
    SessionSummary,
    SessionTooLarge,
    UnreadableSession,
)
from tools.harness.session_codec import HEAD_BYTES


def make(store: SessionStore, *ids: str) -> None:
    for session_id in ids:
        store.save(SessionContext.create(session_id=session_id))


@pytest.mark.parametrize(
    ("shortened", "found"),
    [
        ("abc-1", "abc-1"),
        ("abc", "abc"),  # a whole id wins over the beginning of others
        ("xyz", "xyz-7"),
        ("7", "xyz-7"),
        ("bc-2", "abc-2"),
        ("z-", "xyz-7"),
    ],
)
def test_resolve_takes_the_best_fit(store: SessionStore, shortened: str, found: str) -> None:
    make(store, "abc", "abc-1", "abc-2", "xyz-7")

    assert store.resolve(shortened) == found


@pytest.mark.parametrize(("shortened", "fitting"), [("ab", 3), ("-", 3), ("abc-", 2)])
def test_resolve_refuses_what_fits_several(
    store: SessionStore, shortened: str, fitting: int
) -> None:
    make(store, "abc", "abc-1", "abc-2", "xyz-7")

    with pytest.raises(AmbiguousSessionId) as caught:
        store.resolve(shortened)

    assert len(caught.value.candidates) == fitting
    assert list(caught.value.candidates) == sorted(caught.value.candidates)


def test_resolve_says_where_there_is_no_such_session(store: SessionStore, base: Path) -> None:
    make(store, "abc")
    with pytest.raises(SessionNotFound) as caught:
        store.resolve("q")
    assert caught.value.path == base


def test_the_later_of_two_writers_gets_a_conflict_and_nothing_is_lost(
    store: SessionStore, base: Path
) -> None:
    make(store, "s")
    first, second = store.load("s"), SessionStore(base).load("s")
    assert first is not None
    assert second is not None
    first.add_history("first")
    store.save(first)
    second.add_history("second")
    before = copy.deepcopy(second)

    with pytest.raises(SessionConflict) as caught:
        SessionStore(base).save(second)

    assert (caught.value.expected_revision, caught.value.actual_revision) == (1, 2)
    assert caught.value.path == base / "s" / "session.yaml"
    assert second == before
    assert store.load("s") == first


def test_a_session_that_was_deleted_meanwhile_is_a_conflict_and_stays_deleted(
    store: SessionStore, base: Path
) -> None:
    make(store, "s")
    session = store.load("s")
    assert session is not None
    store.delete("s")

    with pytest.raises(SessionConflict) as caught:
        store.save(session)

    assert caught.value.actual_revision is None
    assert names_in(base) == [".gitkeep"]


def test_a_second_creation_of_one_id_is_a_conflict(store: SessionStore) -> None:
    make(store, "s")
    with pytest.raises(SessionConflict) as caught:
        make(store, "s")
    assert (caught.value.expected_revision, caught.value.actual_revision) == (0, 1)


def test_deletion_at_another_revision_deletes_nothing(store: SessionStore) -> None:
    make(store, "s")
    with pytest.raises(SessionConflict):
        store.delete("s", expected_revision=2)
    assert store.exists("s")
    assert store.delete("s", expected_revision=1) is True
    assert store.delete("s") is False


def test_a_listing_reads_only_the_head_however_long_the_history(
    store: SessionStore, fs: FaultyFileSystem
) -> None:
    make(store, "short", "long")
    session = store.load("long")
    assert session is not None
    for number in range(2_000):
        session.add_history("noted", details=f"number {number} " + "x" * 100)
    store.save(session)
    fs.begin()

    found = list(store.summaries())

    assert [one.session_id for one in found] == ["long", "short"]
    assert all(isinstance(one, SessionSummary) for one in found)
    assert fs.bytes_read <= 2 * (HEAD_BYTES + 4)
    reads = [call for call in fs.trace if call.operation == "pread"]
    assert all(call.size <= HEAD_BYTES for call in reads)
    assert isinstance(found[0], SessionSummary)
    assert found[0].size_bytes > 200_000
    assert found[0].head.revision == 2


def test_a_listing_leaves_out_what_is_no_session(store: SessionStore, base: Path) -> None:
    make(store, "s")
    (base / "file").write_text("x")
    (base / ".hidden").mkdir()
    (base / "empty").mkdir()
    (base / "no id!").mkdir()
    (base / "no id!" / "session.yaml").write_text("x")
    (base / "link").symlink_to(base / "s")

    assert store.list_sessions() == ["s"]
    assert [one.session_id for one in store.summaries()] == ["s"]


def test_a_session_edited_by_hand_is_listed_too(store: SessionStore, base: Path) -> None:
    make(store, "s")
    path = base / "s" / "session.yaml"
    path.write_text("# a note\n" + path.read_text().replace("state: active", "state:  active"))

    [one] = store.summaries()
    assert isinstance(one, SessionSummary)
    assert one.head.state is SessionState.ACTIVE
    session = store.load("s")
    assert session is not None
    session.add_history("goes on")
    store.save(session)
    assert store.load("s") == session


def test_a_session_over_the_limit_is_refused_and_the_old_one_kept(base: Path) -> None:
    store = SessionStore(base, max_file_bytes=2_000)
    make(store, "s")
    session = store.load("s")
    assert session is not None
    session.add_history("noted", details="x" * 2_000)

    with pytest.raises(SessionTooLarge) as caught:
        store.save(session)

    assert caught.value.max_bytes == 2_000
    assert caught.value.size_bytes > 2_000
    assert session.revision == 1
    found = store.load("s")
    assert found is not None
    assert len(found.history) == 1


def test_attachments_appear_with_the_session_and_are_read_back(
    store: SessionStore, base: Path
) -> None:
    store.save(
        SessionContext.create(session_id="s"), attachments={"plan.yaml": b"a", "notes.txt": b""}
    )

    assert store.read_attachment("s", "plan.yaml") == b"a"
    assert store.read_attachment("s", "notes.txt") == b""
    assert store.read_attachment("s", "other") is None
    assert sorted(os.listdir(base / "s")) == ["notes.txt", "plan.yaml", "session.yaml"]


def test_a_name_that_is_taken_by_something_else_is_never_overwritten(
    store: SessionStore, base: Path
) -> None:
    store.ensure_directory()
    (base / "file").write_text("x")
    (base / "directory").mkdir()
    for name in ("file", "directory"):
        with pytest.raises(WriteError, match="has its name"):
            make(store, name)
    assert (base / "file").read_text() == "x"
    assert os.listdir(base / "directory") == []


def test_a_save_waits_for_the_lock_no_longer_than_it_may(base: Path) -> None:
    store = SessionStore(base, lock_timeout_s=0.0)
    make(store, "s")
    session = store.load("s")
    assert session is not None
    from tools.durable import DirectoryLock, OsFileSystem

    with DirectoryLock(OsFileSystem(), base / "s"), pytest.raises(LockTimeout):
        store.save(session)
    store.save(session)
    assert session.revision == 2


def test_what_a_killed_creation_left_is_swept_by_the_next(store: SessionStore, base: Path) -> None:
    store.ensure_directory()
    left = base / ".discarded-new-1"
    left.mkdir()
    (left / "session.yaml").write_text("half")

    make(store, "s")

    assert names_in(base) == [".gitkeep", "s"]


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
