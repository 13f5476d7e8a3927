"""Deleting a session: nothing but sessions, nothing that is in use, and never without a record."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from agentforge_sessions.base.errors import AmbiguousId
from agentforge_sessions.base.files import DirectoryLock, LockTimeout, OsFileSystem, WriteError
from agentforge_sessions.base.identifiers import is_session_id
from agentforge_sessions.harness import (
    InvalidSessionId,
    SessionContext,
    SessionInUse,
    SessionNotFound,
    SessionStore,
    SessionUnreadable,
)
from agentforge_sessions.harness.prune_target import HarnessTarget
from agentforge_sessions.prune import read_audit
from tests.support.clock import START, FakeTokens
from tests.support.contained import contained
from tests.support.filesystem import Call, FaultyFileSystem
from tests.support.hostile_roots import snapshot
from tests.support.sessions import session_id as an_id
from tests.unit.harness.test_ids import HOSTILE

S = an_id(1)


@pytest.fixture
def store(base: Path) -> SessionStore:
    """A store with one session and its workspace."""
    made = SessionStore(base, token=FakeTokens(), lock_timeout_s=0.2, clock=lambda: START)
    names = ("workflow.yaml", "agent-workflow.yaml", "program.json")
    attachments = dict.fromkeys(names, b"steps\n")
    made.save(SessionContext.create(session_id=S), attachments=attachments)
    made.workspace_path(S).mkdir()
    (made.workspace_path(S) / "result.txt").write_text("kept")
    return made


def audit(base: Path) -> list[tuple[object, object]]:
    return [(one["event"], one["session_id"]) for one in read_audit(base / ".prune/audit.jsonl")]


# ---------------------------------------------------------------------------- what may be deleted


def delete_what_is_no_session(folder: Path) -> None:
    project = folder / "project"
    for name in ("src", "docs", ".git", "node_modules", "session_1", "session_20260301"):
        (project / name).mkdir(parents=True)
        (project / name / "session.yaml").write_text("not ours\n")
    for number, plant in enumerate(
        (
            lambda path: path.mkdir(),
            lambda path: path.write_text("a file"),
            lambda path: path.symlink_to(project / "src"),
            lambda path: path.symlink_to(project / "nowhere"),
            os.mkfifo,
            lambda path: (path / "session.yaml").mkdir(parents=True),
            lambda path: (path.mkdir(), os.mkfifo(path / "session.yaml")),
            lambda path: (path.mkdir(), (path / "session.yaml").symlink_to("/etc/hostname")),
            lambda path: (path.mkdir(), (path / "session.yaml").symlink_to("nowhere")),
        ),
        start=1,
    ):
        plant(project / an_id(number))
    before = snapshot(project)
    store = SessionStore(project)

    for name in os.listdir(project):
        if "." in name:
            with pytest.raises(InvalidSessionId):
                store.delete(name)
            continue
        there = is_session_id(name) and store.exists(name)
        assert there is (name in {an_id(number) for number in (3, 4, 6, 7, 8, 9)})
        for missing_ok in (True, False):
            if there:
                with pytest.raises(SessionUnreadable):
                    store.delete(name, missing_ok=missing_ok)
            elif missing_ok:
                assert store.delete(name) is False
            else:
                with pytest.raises(SessionNotFound):
                    store.delete(name, missing_ok=False)
    for hostile in (*HOSTILE, str(project / "src"), f"../{project.name}", "/", str(folder)):
        for call in (store.delete, store.load, store.exists, store.session_path):
            with pytest.raises(InvalidSessionId):
                call(hostile)  # type: ignore[arg-type]
        if isinstance(hostile, str):
            with suppress(InvalidSessionId, SessionNotFound, AmbiguousId):
                assert store.resolve(hostile) in os.listdir(project)

    assert snapshot(project) == before


def test_nothing_but_a_session_is_ever_deleted(tmp_path: Path) -> None:
    contained(delete_what_is_no_session, tmp_path)


@pytest.mark.parametrize("session_id", [S, "session_20260301_093000_0a1b2c3d"])
def test_a_session_is_deleted_whether_it_can_be_read_or_not(base: Path, session_id: str) -> None:
    store = SessionStore(base)
    for content in (None, b"", b"\0", b"state: [", b"x" * 100):
        store.save(SessionContext.create(session_id=session_id))
        if content is not None:
            store.session_path(session_id).write_bytes(content)
        assert store.delete(session_id) is True
        assert not (base / session_id).exists()
        assert store.delete(session_id) is False


@pytest.mark.parametrize("link", ["directory", "file"])
def test_a_session_behind_a_link_is_there_for_all_and_deleted_by_none(
    store: SessionStore, base: Path, link: str
) -> None:
    linked = base / S if link == "directory" else store.session_path(S)
    linked.rename(linked.with_name("moved"))
    linked.symlink_to("moved")
    before = snapshot(base)

    assert store.exists(S)
    assert store.list_sessions() == [S]
    with pytest.raises(SessionUnreadable) as of_load:
        store.load(S)
    with pytest.raises(SessionUnreadable) as of_delete:
        store.delete(S)
    assert str(of_delete.value) == str(of_load.value)
    assert of_delete.value.session_id == S
    assert snapshot(base) == before


def test_a_missing_session_is_told_where_it_must_be_there(base: Path) -> None:
    for store in (SessionStore(base / "missing"), SessionStore(base)):
        with pytest.raises(SessionNotFound) as caught:
            store.delete(S, missing_ok=False)
        assert (caught.value.session_id, caught.value.path) == (S, store.base_path)
        assert not store.base_path.exists()


# --------------------------------------------------------------------------------------- in use


@contextmanager
def locked(path: Path, operation: int) -> Iterator[None]:
    fd = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(fd, operation)
        yield
    finally:
        os.close(fd)


GUARDED = {
    "a runner": ("workflow.yaml", fcntl.LOCK_EX),
    "a runner of agents": ("agent-workflow.yaml", fcntl.LOCK_EX),
    "a person's program": ("program.json", fcntl.LOCK_EX),
    "an execution": ("workspace", fcntl.LOCK_SH),
    "a save": (".", fcntl.LOCK_EX),
}


@pytest.mark.parametrize("who", GUARDED)
def test_a_session_in_use_is_not_touched(store: SessionStore, base: Path, who: str) -> None:
    name, operation = GUARDED[who]
    before = snapshot(base)
    with locked(base / S / name, operation):
        with pytest.raises(SessionInUse) as caught:
            store.delete(S)
        assert caught.value.session_id == S
        assert caught.value.retryable
        assert snapshot(base) == before
    assert store.delete(S) is True


def test_what_another_deletion_removes_meanwhile_is_not_in_use(
    store: SessionStore, base: Path
) -> None:
    """The other one holds the session, then the private directory as well, until it has gone."""
    held = [os.open(path, os.O_RDONLY) for path in (base / S, base / ".prune")]
    for fd in held:
        fcntl.flock(fd, fcntl.LOCK_EX)
    asked: list[str] = []

    def go_on(call: Call) -> None:
        if call.operation == "flock" and call.path not in asked:
            asked.append(call.path)
            if Path(call.path).name == ".prune":
                os.rename(base / S, base / ".prune/going")
                for fd in held:
                    os.close(fd)

    fs = FaultyFileSystem(before=go_on)
    assert SessionStore(base, fs=fs).delete(S) is False
    assert [Path(one).name for one in asked] == [S, ".prune"]
    assert fs.open_descriptors == {}


def test_a_deletion_takes_the_guards_that_a_prune_takes() -> None:
    assert set(HarnessTarget().guards) == {name for name, _ in GUARDED.values()} - {"."}


def test_nobody_can_begin_to_work_while_a_session_is_deleted(
    store: SessionStore, base: Path
) -> None:
    refused: list[str] = []

    def begin(call: Call) -> None:
        if call.operation != "rename":
            return
        fs.before = None
        for name, _ in GUARDED.values():
            fd = os.open(base / S / name, os.O_RDONLY)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                refused.append(name)
            finally:
                os.close(fd)

    fs = FaultyFileSystem(before=begin)
    assert SessionStore(base, fs=fs).delete(S) is True
    assert refused == [name for name, _ in GUARDED.values()]
    assert fs.open_descriptors == {}


# ------------------------------------------------------------------------------------ the record


def test_the_record_is_on_disk_before_the_session_is_out_of_sight(
    store: SessionStore, base: Path
) -> None:
    seen: list[list[tuple[object, object]]] = []

    def look(call: Call) -> None:
        if call.operation == "rename":
            fs.before = None
            seen.append(audit(base))

    fs = FaultyFileSystem(before=look)
    SessionStore(base, fs=fs).delete(S)

    assert seen == [[("removing", S)]]
    assert audit(base) == [("removing", S), ("removed", S)]
    steps = [
        call.operation for call in fs.trace if "audit" in call.path or call.operation == "rename"
    ]
    assert steps.index("fsync") < steps.index("rename")


def test_what_cant_be_recorded_is_not_deleted(store: SessionStore, base: Path) -> None:
    for operation in ("writev", "fsync"):
        fs = FaultyFileSystem()
        fs.begin(
            lambda _, call, failing=operation: (
                errno.EIO if call.operation == failing and "/.prune/audit" in call.path else None
            )
        )
        with pytest.raises(WriteError) as caught:
            SessionStore(base, fs=fs).delete(S)
        assert caught.value.errno == errno.EIO
        assert store.load(S) is not None
        assert (store.workspace_path(S) / "result.txt").read_text() == "kept"


def test_a_prune_at_work_is_waited_for_no_longer_than_the_store_may(
    store: SessionStore, base: Path
) -> None:
    (base / ".prune").mkdir(exist_ok=True)
    with DirectoryLock(OsFileSystem(), base / ".prune"), pytest.raises(LockTimeout):
        store.delete(S)
    assert store.exists(S)
    assert store.delete(S) is True


# -------------------------------------------------------------------------- swapped meanwhile


def swap(base: Path) -> None:
    os.rename(base / S, base / "moved")
    (base / S).mkdir()
    (base / S / "session.yaml").write_text("somebody else's")
    (base / S / "precious").write_text("precious")


def test_what_was_put_in_its_place_meanwhile_is_put_back(store: SessionStore, base: Path) -> None:
    fs = FaultyFileSystem()

    def before(call: Call) -> None:
        if call.operation == "rename":
            fs.before = None
            swap(base)

    fs.before = before
    with pytest.raises(WriteError, match="second look") as caught:
        SessionStore(base, fs=fs).delete(S)

    assert caught.value.errno == errno.ESTALE
    assert (base / S / "precious").read_text() == "precious"
    assert (base / "moved" / "workspace" / "result.txt").read_text() == "kept"
    assert not [name for name in os.listdir(base) if name.startswith(".discarded")]
    assert audit(base) == [("removing", S), ("kept", S)]
