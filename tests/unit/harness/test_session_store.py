"""The store of files: what its directories and errors look like, listing, limits.

What it has in common with every other is in tests/contract/harness.
"""

from __future__ import annotations

import os
from datetime import timedelta
from pathlib import Path

import pytest

from agentforge_sessions.harness import (
    SessionConflict,
    SessionContext,
    SessionIdTaken,
    SessionManager,
    SessionNotFound,
    SessionState,
    SessionStore,
    SessionSummary,
    UnreadableSession,
)
from agentforge_sessions.harness.format.session_codec import HEAD_BYTES
from tests.support.clock import FakeClock
from tests.support.filesystem import FaultyFileSystem
from tests.support.listing import names_in
from tests.support.sessions import session_id as an_id

S = an_id(1)


def make(store: SessionStore, *ids: str) -> None:
    for session_id in ids:
        store.save(SessionContext.create(session_id=session_id))


def test_an_error_names_the_place_as_a_path(store: SessionStore, base: Path) -> None:
    make(store, S)
    first, second = store.load(S), SessionStore(base).load(S)
    assert first is not None
    assert second is not None
    store.save(first)

    with pytest.raises(SessionConflict) as conflict:
        store.save(second)
    with pytest.raises(SessionNotFound) as missing:
        store.resolve("q")

    assert conflict.value.path == base / S / "session.yaml" == store.session_path(S)
    assert missing.value.path == base
    assert (store.where, store.where_is(S)) == (str(base), str(store.session_path(S)))


def test_attachments_are_files_beside_the_session(store: SessionStore, base: Path) -> None:
    attachments = {"plan.yaml": b"a", "notes.txt": b""}
    store.save(SessionContext.create(session_id=S), attachments=attachments)

    assert sorted(os.listdir(base / S)) == ["notes.txt", "plan.yaml", "session.yaml"]
    assert (base / S / "plan.yaml").read_bytes() == b"a"


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


def test_what_a_killed_creation_left_is_swept_by_the_next(store: SessionStore, base: Path) -> None:
    store.ensure_directory()
    left = base / ".discarded-new-1"
    left.mkdir()
    (left / "session.yaml").write_text("half")

    make(store, S)

    assert names_in(base) == [".gitkeep", S]


def test_list_gives_the_newest_first_and_find_goes_on_by_id_after_what_it_cannot_read(
    manager: SessionManager, clock: FakeClock
) -> None:
    ids = []
    for _ in range(3):
        ids.append(manager.create().session_id)
        manager.release()
        clock.advance(3_600)
    assert [one.session_id for one in manager.list()] == ids[::-1]
    hours = timedelta(hours=2)
    assert [one.session_id for one in manager.find(older_than=hours)] == ids[:2]
    assert [one.session_id for one in manager.find(younger_than=hours)] == ids[1:]

    manager.store.session_path(ids[1]).write_text("x")
    reported: list[UnreadableSession] = []
    found = [one.session_id for one in manager.find(on_unreadable=reported.append)]
    assert found == [ids[0], ids[2]]
    assert [one.session_id for one in reported] == [ids[1]]
