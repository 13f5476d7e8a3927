"""What a store does at the edges: files made by hand, links, and two faults at once."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from agentforge_sessions.base.files import RemovalError, WriteError
from agentforge_sessions.harness import (
    SessionContext,
    SessionCorrupted,
    SessionManager,
    SessionStore,
)
from agentforge_sessions.harness.stream_port import NewEntry
from tests.support.filesystem import FaultyFileSystem


def saved(tmp_path: Path) -> tuple[SessionStore, SessionContext]:
    store = SessionStore(tmp_path / "sessions")
    session = SessionContext.create("spec")
    store.save(session)
    return store, session


def test_a_file_that_claims_never_to_have_been_saved_is_refused_with_the_reason(
    tmp_path: Path,
) -> None:
    store, session = saved(tmp_path)
    path = store.session_path(session.session_id)
    path.write_text(path.read_text().replace("revision: 1", "revision: 0"))

    with pytest.raises(SessionCorrupted, match="revision: is 0"):
        store.load(session.session_id)


def test_a_deletion_that_can_neither_be_confirmed_nor_undone_says_that_it_is_out_of_sight(
    tmp_path: Path,
) -> None:
    _, session = saved(tmp_path)
    fs = FaultyFileSystem()
    store = SessionStore(tmp_path / "sessions", fs=fs)
    renames = 0

    def plan(_: int, call: object) -> int | None:
        nonlocal renames
        operation = getattr(call, "operation", "")
        renames += operation == "rename"
        failing = (operation == "fsync" and renames) or (operation == "rename" and renames == 2)
        return errno.EIO if failing else None

    fs.begin(plan)
    with pytest.raises(RemovalError, match="out of every listing"):
        store.delete(session.session_id)
    fs.plan = None

    assert store.list_sessions() == []


def test_a_session_created_but_not_confirmed_is_current_and_said_to_be_visible(
    tmp_path: Path,
) -> None:
    base = tmp_path / "sessions"
    SessionStore(base).ensure_directory()
    fs = FaultyFileSystem()
    manager = SessionManager(SessionStore(base, fs=fs))
    syncs = renames = 0

    def plan(_: int, call: object) -> int | None:
        nonlocal syncs, renames
        operation = getattr(call, "operation", "")
        syncs += operation == "fsync"
        renames += operation == "rename"
        last_sync = operation == "fsync" and renames == 1
        return errno.EIO if last_sync or (operation == "rename" and renames == 2) else None

    fs.begin(plan)
    with pytest.raises(WriteError) as caught:
        manager.create("spec")
    fs.plan = None

    assert caught.value.visible
    session = manager.current_session
    assert session is not None
    assert manager.store.load(session.session_id) == session


def test_an_append_reads_the_session_only_if_it_was_written_since(tmp_path: Path) -> None:
    _, session = saved(tmp_path)
    fs, session_id = FaultyFileSystem(), session.session_id
    store = SessionStore(tmp_path / "sessions", fs=fs)
    mark = store.append_entries(session_id, "log", [NewEntry(b"a", b"1")])
    fs.begin()
    mark = store.append_entries(session_id, "log", [NewEntry(b"b", b"2")], expected=mark)
    assert fs.steps(store.session_directory(session_id)) == [
        *("open base", "flock base", "fstat base", "stat base", "stat session.yaml"),
        *("open streams", "open streams/log.log", "fstat streams/log.log"),
        *("pread streams/log.log", "writev streams/log.log", "fsync streams/log.log"),
        *("close streams/log.log", "close streams", "close base"),
    ]
    manager = SessionManager(SessionStore(tmp_path / "sessions"))
    manager.open(session_id)
    manager.pause()
    fs.begin()
    store.append_entries(session_id, "log", [NewEntry(b"c", b"3")], expected=mark)
    assert "pread session.yaml" in fs.steps(store.session_directory(session_id))
