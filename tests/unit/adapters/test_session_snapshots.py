"""Sessions with snapshots: taken at each checkpoint, gone back to, begun from, swept."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agentforge_sessions.base.files import DirectoryLock, OsFileSystem
from agentforge_sessions.harness import (
    InvalidStateTransition,
    PhaseResult,
    SessionInUse,
    SessionManager,
    SessionState,
    SessionStore,
)
from agentforge_sessions.harness.domain.history_events import (
    PhaseSucceeded,
    SessionForked,
    SessionRewound,
    WorkspacePrepared,
)
from agentforge_sessions.harness.services.session_checkpoints import (
    CheckpointNotKept,
    NoSnapshotKeeper,
    WorkspaceNotKept,
)
from agentforge_sessions.harness.views.checkpoints import CheckpointNotFound
from agentforge_sessions.repository import Git, GitUnavailable
from agentforge_sessions.repository.snapshots.snapshots import SnapshotMissing
from agentforge_sessions.repository.snapshots.workspace_scan import ScanLimits
from agentforge_sessions.wiring.workspaces.session_snapshots import KEPT_FOLDER, SessionSnapshots
from tests.support.repositories import new_checkout, plain_git, write_files
from tests.support.trees import tree_of


class Writer:
    """A phase executor whose code is a Python function of the workspace."""

    def __init__(self, store: SessionStore) -> None:
        self.store = store
        self.work: Callable[[Path], object] = lambda _: None

    def execute(
        self,
        code: str,
        *,
        session_id: str,
        deadline_s: float | None = None,
        fuel: int | None = None,
    ) -> PhaseResult:
        workspace = self.store.workspace_path(session_id)
        workspace.mkdir(exist_ok=True)
        write_files(workspace, {"file.txt": code})
        self.work(workspace)
        return PhaseResult(success=True, exit_code=0)


@pytest.fixture
def store(tmp_path: Path) -> SessionStore:
    return SessionStore(tmp_path / "sessions")


def manager_of(store: SessionStore, **options: Git | ScanLimits) -> SessionManager:
    snapshots = SessionSnapshots(store, **options)  # type: ignore[arg-type]
    return SessionManager(store, executor=Writer(store), snapshots=snapshots)


@pytest.fixture
def manager(store: SessionStore) -> SessionManager:
    manager = manager_of(store)
    manager.create("work", "one")
    return manager


def workspace(manager: SessionManager) -> Path:
    assert manager.current_session is not None
    return manager.store.workspace_path(manager.current_session.session_id)


def file_of(manager: SessionManager) -> str:
    return (workspace(manager) / "file.txt").read_text()


def three_phases(manager: SessionManager) -> None:
    for name, following in (("one", "two"), ("two", "three"), ("three", None)):
        manager.run_phase(f"{name}\n", tokens=10)
        if following:
            manager.advance_phase(following)


def no_git() -> Git:
    return Git(find=lambda: None)


# ---- Taking


def test_each_result_and_checkpoint_has_a_snapshot(manager: SessionManager) -> None:
    three_phases(manager)
    (workspace(manager) / "file.txt").write_text("by hand")
    manager.checkpoint_session()
    found = manager.checkpoints()
    assert [one.number for one in found] == [1, 2, 3, 4]
    assert [one.action for one in found] == ["phase_succeeded"] * 3 + ["checkpoint"]
    assert [one.phase for one in found] == ["one", "two", "three", "three"]
    assert len({one.snapshot for one in found}) == 4
    assert None not in {one.snapshot for one in found}


def test_going_on_to_a_phase_keeps_what_no_result_has_kept(manager: SessionManager) -> None:
    workspace(manager).mkdir()
    (workspace(manager) / "file.txt").write_text("by hand")
    manager.advance_phase("two")
    assert [one.action for one in manager.checkpoints()] == ["phase_advanced"]


def test_a_session_without_a_workspace_stores_nothing(manager: SessionManager) -> None:
    manager.advance_phase("two")
    manager.checkpoint_session()
    manager.record(PhaseSucceeded(attempt=1))
    directory = workspace(manager).parent
    assert [one.name for one in directory.iterdir()] == ["session.yaml"]
    assert "snapshot" not in (directory / "session.yaml").read_text()
    assert [one.snapshot for one in manager.checkpoints()] == [None, None]


def test_a_manager_without_snapshots_writes_what_it_always_did(store: SessionStore) -> None:
    manager = SessionManager(store, executor=Writer(store))
    session = manager.create("work", "one")
    manager.run_phase("x")
    directory = store.session_path(session.session_id).parent
    assert sorted(one.name for one in directory.iterdir()) == ["session.yaml", "workspace"]
    assert "snapshot" not in (directory / "session.yaml").read_text()
    with pytest.raises(NoSnapshotKeeper):
        manager.rewind(1)
    with pytest.raises(NoSnapshotKeeper):
        manager.diff()


def test_without_git_a_session_works_and_says_why_it_keeps_nothing(store: SessionStore) -> None:
    manager = manager_of(store, git=no_git())
    manager.create("work", "one")
    manager.run_phase("x")
    (found,) = manager.checkpoints()
    assert found.snapshot is None
    assert found.unkept == "there is no git on this machine; nothing was changed"
    with pytest.raises(CheckpointNotKept, match="no git"):
        manager.rewind(1)


def test_a_workspace_that_can_not_be_kept_does_not_stop_the_session(store: SessionStore) -> None:
    manager = manager_of(store)
    session = manager.create("work", "one")
    store.workspace_path(session.session_id).mkdir()
    os.mkfifo(workspace(manager) / "pipe")
    manager.run_phase("x")
    assert "pipe: it is a named pipe" in (manager.checkpoints()[0].unkept or "")
    (workspace(manager) / "pipe").unlink()
    manager.checkpoint_session()
    assert manager.checkpoints()[1].snapshot is not None


# ---- Comparing


def test_checkpoints_are_compared_by_number_phase_and_snapshot(manager: SessionManager) -> None:
    three_phases(manager)
    first = manager.checkpoints()[0].snapshot or ""
    for before, after in ((1, 2), ("1", "#2"), (first[:8], "two"), ("one", "two")):
        found = manager.diff(before, after, patch=True)
        assert [one.path for one in found.files] == ["file.txt"]
        assert b"-one\n+two\n" in found.patch
    assert manager.diff(1, 1).files == ()


def test_by_default_all_is_compared_with_the_workspace_as_it_is(manager: SessionManager) -> None:
    manager.run_phase("one\n")
    write_files(workspace(manager), {"new.txt": "x\n"})
    assert [one.path for one in manager.diff().files] == ["file.txt", "new.txt"]
    assert [one.path for one in manager.diff(1).files] == ["new.txt"]


def test_a_session_without_a_workspace_has_no_difference(manager: SessionManager) -> None:
    assert manager.diff().files == ()


def test_an_unknown_checkpoint_is_refused(manager: SessionManager) -> None:
    three_phases(manager)
    before = (workspace(manager).parent / "session.yaml").read_bytes()
    for named in ("0", "4", "four", "", "abcd", "-1", "../x", "9" * 30):
        with pytest.raises(CheckpointNotFound) as caught:
            manager.rewind(named)
        assert caught.value.known == 3
    assert (workspace(manager).parent / "session.yaml").read_bytes() == before


# ---- Going back


def test_going_back_restores_state_and_files_and_only_adds_to_the_history(
    manager: SessionManager,
) -> None:
    three_phases(manager)
    session = manager.current_session
    assert session is not None
    history, spent = list(session.history), session.token_budget.tokens_used
    write_files(workspace(manager), {"not/kept/yet": "x"})
    manager.rewind("one")
    assert file_of(manager) == "one\n"
    assert not (workspace(manager) / "not").exists()
    assert (session.current_phase, session.attempt_number) == ("one", 1)
    assert session.history[: len(history)] == history
    assert session.token_budget.tokens_used == spent == 30
    event = session.history[-1].event
    assert isinstance(event, SessionRewound)
    assert (event.checkpoint, event.succeeded) == (1, True)
    assert [one.in_force for one in manager.checkpoints()] == [True, False, False, False]
    loaded = manager_of(manager.store)
    loaded.open(session.session_id)
    assert loaded.current_session == session


def test_what_no_checkpoint_had_is_kept_before_going_back(manager: SessionManager) -> None:
    three_phases(manager)
    write_files(workspace(manager), {"unsaved": "work"})
    manager.rewind(1)
    assert [one.number for one in manager.checkpoints()] == [1, 2, 3, 4]
    manager.rewind(4)
    assert (workspace(manager) / "unsaved").read_text() == "work"
    assert manager.current_session is not None
    assert manager.current_session.current_phase == "three"


def test_what_can_not_be_kept_is_not_given_up(manager: SessionManager) -> None:
    three_phases(manager)
    write_files(workspace(manager), {"work.txt": "an hour's\n"})
    os.mkfifo(workspace(manager) / "pipe")
    session = manager.current_session
    assert session is not None
    entries = len(session.history)

    with pytest.raises(WorkspaceNotKept, match="pipe"):
        manager.rewind(1)

    assert len(session.history) == entries
    assert (workspace(manager) / "work.txt").read_text() == "an hour's\n"
    (workspace(manager) / "pipe").unlink()
    manager.rewind(1)
    manager.rewind(len(manager.checkpoints()))
    assert (workspace(manager) / "work.txt").read_text() == "an hour's\n"


def test_a_session_that_has_ended_is_not_taken_back(manager: SessionManager) -> None:
    three_phases(manager)
    manager.complete()
    with pytest.raises(InvalidStateTransition):
        manager.rewind(1)
    assert file_of(manager) == "three\n"


def test_a_session_at_work_is_not_taken_back(manager: SessionManager) -> None:
    three_phases(manager)
    fd = os.open(workspace(manager), os.O_RDONLY)
    import fcntl

    fcntl.flock(fd, fcntl.LOCK_SH)
    try:
        with pytest.raises(SessionInUse):
            manager.rewind(1)
    finally:
        os.close(fd)
    assert file_of(manager) == "three\n"


def test_files_are_brought_back_by_the_next_worker_if_the_first_was_killed(
    manager: SessionManager,
) -> None:
    """Killed between the save and the files: the workspace is not what the session says."""
    three_phases(manager)
    session_id = manager.current_session.session_id if manager.current_session else ""
    kept = {path: path.read_bytes() for path in [workspace(manager) / "file.txt"]}
    manager.rewind(1)
    for path, content in kept.items():
        path.write_bytes(content)
    (workspace(manager).parent / "snapshots.git" / "restored").unlink()
    other = manager_of(manager.store)
    other.open(session_id)
    other.prepare_workspace()
    assert file_of(other) == "one\n"
    write_files(workspace(other), {"file.txt": "newer"})
    other.prepare_workspace()
    assert file_of(other) == "newer"


def test_a_snapshot_that_is_missing_changes_nothing(manager: SessionManager) -> None:
    three_phases(manager)
    first = manager.checkpoints()[0].snapshot or ""
    directory = workspace(manager).parent / "snapshots.git"
    (directory / "objects" / first[:2] / first[2:]).unlink()
    before = (workspace(manager).parent / "session.yaml").read_bytes()
    with pytest.raises(SnapshotMissing):
        manager.rewind(1)
    assert (workspace(manager).parent / "session.yaml").read_bytes() == before
    assert file_of(manager) == "three\n"


# ---- Beginning from a checkpoint


def test_a_fork_has_the_files_the_history_and_its_parents_id(manager: SessionManager) -> None:
    three_phases(manager)
    parent = manager.current_session
    assert parent is not None
    manager.complete()
    before = tree_of(workspace(manager).parent)
    parents_workspace = workspace(manager)
    fork = manager.fork("two")
    assert fork.session_id != parent.session_id
    assert manager.current_session is fork
    assert file_of(manager) == "two\n"
    assert (fork.state, fork.current_phase) == (SessionState.ACTIVE, "two")
    event = fork.history[-1].event
    assert isinstance(event, SessionForked)
    assert (event.parent_id, event.checkpoint) == (parent.session_id, 2)
    assert fork.history[:-1] == parent.history[: len(fork.history) - 1]
    assert fork.token_budget == parent.token_budget
    after = tree_of(parents_workspace.parent)
    assert {k: v for k, v in after.items() if b"snapshots.git" not in k} == {
        k: v for k, v in before.items() if b"snapshots.git" not in k
    }
    manager.delete(parent.session_id)
    manager.advance_phase("three")
    manager.run_phase("again\n")
    assert manager.diff("two", "three").insertions == 1


def test_a_fork_takes_attachments_along_and_can_have_its_own_budget(
    manager: SessionManager,
) -> None:
    manager.release()
    session = manager.create("work", "one", attachments={"notes.txt": b"x"})
    beside = manager.store.session_path(session.session_id).parent
    write_files(beside, {"steps/0001.json": b"{}"})
    manager.run_phase("one\n", tokens=10)
    fork = manager.fork(1, token_budget=500)
    assert manager.store.read_attachments(fork.session_id) == {
        "notes.txt": b"x",
        "steps/0001.json": b"{}",
    }
    assert (fork.token_budget.total_budget, fork.token_budget.tokens_used) == (500, 0)


# ---- A phase that begins again


def ran(manager: SessionManager, text: str, *, ok: bool = True) -> None:
    manager.run_phase(text, judge=lambda _: None if ok else "no")


def test_a_phase_begins_again_with_the_files_that_it_began_with(manager: SessionManager) -> None:
    ran(manager, "1")
    manager.advance_phase("two")
    ran(manager, "2", ok=False)
    manager.retry_phase()
    ran(manager, "2 again")
    manager.advance_phase("three")
    ran(manager, "3", ok=False)
    entries = len(manager.open(manager.current_session.session_id).history)  # type: ignore[union-attr]

    assert manager.begin_phase_again("two")

    session = manager.current_session
    assert session is not None
    assert file_of(manager) == "1"
    assert (session.current_phase, session.attempt_number) == ("two", 1)
    assert len(session.history) == entries + 1
    event = session.history[-1].event
    assert isinstance(event, SessionRewound)
    assert (event.succeeded, session.history[event.position].action) == (None, "phase_advanced")
    ran(manager, "2 better")
    names = [(one.name, one.in_force) for one in manager.checkpoints()]
    assert names == [
        ("one-1", True),
        ("two-1", False),
        ("two-2", False),
        ("three-1", False),
        ("two-3", True),
    ]
    assert manager.begin_phase_again("two")
    assert file_of(manager) == "1"


def test_attempts_are_compared_by_their_names(manager: SessionManager) -> None:
    ran(manager, "1\n", ok=False)
    manager.retry_phase()
    ran(manager, "2\n")
    manager.rewind("one-1")
    patch = manager.diff("one-1", "one-2", patch=True).patch
    assert b"-1\n+2\n" in patch
    with pytest.raises(CheckpointNotFound):
        manager.diff("one-3")


def test_the_first_phase_begins_again_with_nothing(manager: SessionManager) -> None:
    ran(manager, "1", ok=False)
    assert manager.begin_phase_again("one")
    assert list(workspace(manager).iterdir()) == []
    ran(manager, "2")
    assert manager.begin_phase_again("one")
    assert list(workspace(manager).iterdir()) == []
    manager.rewind("one-2")
    assert file_of(manager) == "2"


def test_without_what_was_kept_no_phase_begins_again(store: SessionStore) -> None:
    manager = manager_of(store, git=no_git())
    manager.create("work", "one")
    ran(manager, "1")
    manager.advance_phase("two")
    ran(manager, "2")
    session = manager.current_session
    assert session is not None
    before = list(session.history)
    assert not manager.begin_phase_again("two")
    assert not manager.begin_phase_again("one")
    assert not manager.begin_phase_again("nowhere")
    assert (session.history, file_of(manager)) == (before, "2")


def test_a_phase_does_not_begin_again_while_code_works_in_its_files(
    manager: SessionManager,
) -> None:
    ran(manager, "1")
    with DirectoryLock(OsFileSystem(), workspace(manager)), pytest.raises(SessionInUse):
        manager.begin_phase_again("one")
    assert file_of(manager) == "1"


def test_what_nothing_refers_to_is_removed_once_it_is_old(store: SessionStore) -> None:
    moments = [datetime(2026, 1, 1, tzinfo=UTC)]
    snapshots = SessionSnapshots(store, clock=lambda: moments[-1])
    manager = SessionManager(store, executor=Writer(store), snapshots=snapshots)
    session_id = manager.create("work", "one").session_id
    ran(manager, "1")
    for text in ("lost", "newest"):  # as of workers that were killed before they saved
        write_files(workspace(manager), {"file.txt": text})
        snapshots.take(session_id, text)
    kept = snapshots.of(session_id)
    manager.sweep_snapshots()
    assert len(kept.list()) == 3
    assert manager.snapshots_disk_bytes() > 0
    moments.append(moments[0] + timedelta(hours=2))
    manager.sweep_snapshots()
    assert sorted(one.label.split()[0] for one in kept.list()) == ["newest", "result"]
    manager.rewind(1)
    assert file_of(manager) == "1"


def test_objects_are_packed_where_they_are_many(manager: SessionManager) -> None:
    for number in range(3):
        ran(manager, str(number))
        manager.retry_phase()
    session = manager.current_session
    assert session is not None
    snapshots = SessionSnapshots(manager.store).of(session.session_id)
    assert not snapshots.pack()
    assert snapshots.pack(many=-1)
    objects = snapshots.repository.directory / "objects"
    assert len(list(objects.glob("pack/*.pack"))) == 1
    assert snapshots.repository.loose_objects() == 0
    manager.rewind(1)
    assert file_of(manager) == "0"


# ---- On a person's repository


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return new_checkout(tmp_path / "work", {"file.txt": "base\n", "other.txt": "o\n"})


def begun(manager: SessionManager, work: Path, *, uncommitted: bool = False) -> str:
    snapshots = SessionSnapshots(manager.store)
    attachments = snapshots.attachments(work, "HEAD", with_uncommitted=uncommitted)
    return manager.create("work", "one", attachments=attachments).session_id


def refs_of(work: Path) -> str:
    return plain_git(work, "for-each-ref", "refs/agentforge").stdout.decode()


def test_a_session_of_a_repository_begins_with_its_files(store: SessionStore, work: Path) -> None:
    manager = manager_of(store)
    before = tree_of(work)
    session_id = begun(manager, work)
    assert file_of(manager) == "base\n"
    session = manager.current_session
    assert session is not None
    event = session.history[-1].event
    assert isinstance(event, WorkspacePrepared)
    assert manager.diff().files == ()
    manager.run_phase("changed\n")
    assert [one.path for one in manager.diff().files] == ["file.txt"]
    assert session_id in refs_of(work)
    assert {k: v for k, v in tree_of(work).items() if k in before} == before
    assert manager.begin_phase_again("one")
    assert file_of(manager) == "base\n"
    assert manager.checkpoints()[0].in_force
    manager.rewind(1)
    assert file_of(manager) == "base\n"


def test_a_killed_creation_is_finished_by_the_next_worker(store: SessionStore, work: Path) -> None:
    manager = manager_of(store)
    attachments = SessionSnapshots(store).attachments(work, "HEAD", with_uncommitted=False)
    without = SessionManager(store)  # as if it had died right after the save
    session_id = without.create("work", "one", attachments=attachments).session_id
    manager.open(session_id)
    manager.run_phase("changed\n")
    assert (workspace(manager) / "other.txt").read_text() == "o\n"
    assert [one.action for one in manager.checkpoints()] == [
        "workspace_prepared",
        "phase_succeeded",
    ]


def test_a_session_of_a_repository_needs_git(store: SessionStore, work: Path) -> None:
    manager = manager_of(store)
    session_id = begun(manager, work)
    other = manager_of(store, git=no_git())
    other.open(session_id)
    with pytest.raises(GitUnavailable):
        other.run_phase("changed\n")
    assert other.current_session is not None
    assert len(other.current_session.history) == 2


def test_with_the_session_goes_its_ref_and_nothing_else(store: SessionStore, work: Path) -> None:
    manager = manager_of(store)
    first = begun(manager, work)
    manager.release()
    second = begun(manager, work)
    manager.complete()
    plain_git(work, "update-ref", "refs/agentforge/other", "HEAD")
    manager.delete(first)
    assert first not in refs_of(work)
    assert second in refs_of(work)
    assert manager.cleanup_old_sessions(0) == [second]
    assert refs_of(work).split()[-1] == "refs/agentforge/other"
    assert list((store.base_path / KEPT_FOLDER).iterdir()) == []


def test_a_ref_in_a_repository_that_is_away_is_removed_later(
    store: SessionStore, work: Path
) -> None:
    manager = manager_of(store)
    session_id = begun(manager, work)
    (work / ".git").rename(work / "away")
    manager.delete(session_id)
    (work / "away").rename(work / ".git")
    assert session_id in refs_of(work)
    SessionSnapshots(store).forget_deleted()
    assert refs_of(work) == ""


def test_a_repository_that_was_removed_is_forgotten(store: SessionStore, work: Path) -> None:
    manager = manager_of(store)
    session_id = begun(manager, work)
    shutil.rmtree(work)
    manager.delete(session_id)
    assert list((store.base_path / KEPT_FOLDER).iterdir()) == []


def test_a_fork_keeps_the_base_of_its_parent(store: SessionStore, work: Path) -> None:
    manager = manager_of(store)
    parent = begun(manager, work)
    manager.run_phase("changed\n")
    fork = manager.fork(2)
    manager.delete(parent)
    assert fork.session_id in refs_of(work)
    assert [one.path for one in manager.diff().files] == ["file.txt"]
    manager.rewind(2)
