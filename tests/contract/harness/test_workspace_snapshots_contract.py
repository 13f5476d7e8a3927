"""One suite for everything that keeps the workspaces of sessions.

An implementation takes part by an entry in `KEEPERS`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest
from attrs import define, evolve

from agentforge_sessions.base.clock import Clock, utc_now
from agentforge_sessions.base.errors import AgentForgeError
from agentforge_sessions.fleet.objects.folder_store import FolderStore
from agentforge_sessions.fleet.objects.workspace_packs import WorkspacePacks
from agentforge_sessions.harness import LocalSessions, SessionContext, SessionManager, SessionStore
from agentforge_sessions.harness.snapshot_port import SnapshotTaken, WorkspaceSnapshots
from agentforge_sessions.testing import MemorySessions
from agentforge_sessions.wiring.workspaces.session_snapshots import SessionSnapshots
from tests.support.clock import START
from tests.support.memory_packs import MemoryPacks
from tests.support.memory_snapshots import MemorySnapshots
from tests.support.repositories import write_files
from tests.support.sessions import session_id as an_id
from tests.support.trees import tree_of

S, FORK = an_id(1), an_id(2)


@define
class Keeper:
    """What keeps workspaces, and the sessions that they are of."""

    snapshots: WorkspaceSnapshots
    sessions: LocalSessions
    again: Callable[[Clock | None], WorkspaceSnapshots]

    @property
    def workspace(self) -> Path:
        return self.sessions.workspace_path(S)

    def begin(self, **files: str) -> str:
        """Make a session whose workspace has these files; return their snapshot."""
        self.sessions.save(SessionContext.create(session_id=S, now=START))
        self.workspace.mkdir()
        return self.change(**files)

    def change(self, **files: str) -> str:
        write_files(self.workspace, {name.replace("__", "/"): text for name, text in files.items()})
        taken = self.snapshots.take(S, "changed")
        assert taken.unkept is None
        assert taken.snapshot is not None
        return taken.snapshot


def git(sessions: LocalSessions) -> Keeper:
    def again(clock: Clock | None = None) -> WorkspaceSnapshots:
        return SessionSnapshots(sessions, **({} if clock is None else {"clock": clock}))

    return Keeper(again(), sessions, again)


def git_and_packs(sessions: LocalSessions) -> Keeper:
    objects = sessions.base_path.parent / "objects"
    objects.mkdir(exist_ok=True)
    index = MemoryPacks(sessions.exists)

    def again(clock: Clock | None = None) -> WorkspaceSnapshots:
        packs = WorkspacePacks(index, FolderStore(objects), sessions.base_path)
        given = {} if clock is None else {"clock": clock}
        return SessionSnapshots(sessions, packs=packs, **given)

    return Keeper(again(), sessions, again)


def memory(sessions: LocalSessions) -> Keeper:
    first = MemorySnapshots(sessions)
    return Keeper(
        first, sessions, lambda clock: first if clock is None else evolve(first, clock=clock)
    )


KEEPERS: Final[dict[str, Callable[[Path], Keeper]]] = {
    "git beside files": lambda base: git(SessionStore(base)),
    "git and packs": lambda base: git_and_packs(MemorySessions(base)),
    "memory": lambda base: memory(MemorySessions(base)),
}


@pytest.fixture(params=list(KEEPERS))
def keeper(request: pytest.FixtureRequest, base: Path) -> Keeper:
    return KEEPERS[request.param](base)


def test_it_is_what_the_port_asks_for(keeper: Keeper) -> None:
    assert isinstance(keeper.snapshots, WorkspaceSnapshots)


def test_a_session_without_a_workspace_costs_nothing(keeper: Keeper) -> None:
    keeper.sessions.save(SessionContext.create(session_id=S))
    assert keeper.snapshots.take(S, "nothing") == SnapshotTaken()
    assert keeper.snapshots.prepare(S) is None
    assert keeper.snapshots.changes(S, None, None, patch=True, paths=()).files == ()
    assert keeper.snapshots.disk_bytes(S) == 0
    keeper.snapshots.forget_deleted()


def test_a_workspace_becomes_what_a_snapshot_says_once_for_each_mark(keeper: Keeper) -> None:
    first = keeper.begin(a="one\n", src__b="kept\n", run="#!/bin/sh\n")
    (keeper.workspace / "run").chmod(0o755)
    second = keeper.change(a="two\n", c="new\n")
    assert first != second
    after = tree_of(keeper.workspace)
    (keeper.workspace / "src" / "b").unlink()

    again = keeper.again(None)
    again.settle(S, second, mark=3)
    assert tree_of(keeper.workspace) == after

    again.settle(S, first, mark=3)  # done already, by whichever worker
    assert tree_of(keeper.workspace) == after
    again.settle(S, first, mark=4)
    assert (keeper.workspace / "a").read_text() == "one\n"
    assert not (keeper.workspace / "c").exists()


def test_what_the_only_machine_has_stays_as_it_is_when_it_is_taken_up(keeper: Keeper) -> None:
    keeper.sessions.save(SessionContext.create(session_id=S, now=START))
    keeper.snapshots.take_up(S, SnapshotTaken())
    keeper.workspace.mkdir()
    first = keeper.change(a="one\n")
    keeper.change(a="two\n")
    (keeper.workspace / "half").write_text("half\n")
    before = tree_of(keeper.workspace)
    for last in (SnapshotTaken(), SnapshotTaken(first), SnapshotTaken(unkept="a pipe")):
        keeper.again(None).take_up(S, last)
        assert tree_of(keeper.workspace) == before
    assert keeper.snapshots.is_here(S)


def test_a_snapshot_that_is_not_there_is_an_error_and_changes_nothing(keeper: Keeper) -> None:
    first = keeper.begin(a="one\n")
    keeper.snapshots.require(S, first)
    before = tree_of(keeper.workspace)
    for act in (
        lambda: keeper.snapshots.require(S, "0" * 40),
        lambda: keeper.snapshots.settle(S, "0" * 40, mark=1),
        lambda: keeper.snapshots.changes(S, "0" * 40, None, patch=False, paths=()),
    ):
        with pytest.raises(AgentForgeError):
            act()
    assert tree_of(keeper.workspace) == before


def test_a_workspace_goes_back_to_nothing(keeper: Keeper) -> None:
    keeper.begin(a="one\n")
    taken = keeper.snapshots.empty(S)
    assert taken.snapshot is not None
    keeper.snapshots.settle(S, taken.snapshot, mark=1)
    assert tree_of(keeper.workspace) == {}
    assert keeper.workspace.is_dir()


def test_what_differs_is_told_by_file_and_line(keeper: Keeper) -> None:
    first = keeper.begin(a="one\n", src__b="x\ny\n", c="gone\n")
    (keeper.workspace / "c").unlink()
    second = keeper.change(a="two\n", src__d="d\n")
    compare = keeper.again(None).changes

    found = compare(S, first, second, patch=True, paths=())
    assert [(one.path, one.kind, one.insertions, one.deletions) for one in found.files] == [
        ("a", "modified", 1, 1),
        ("c", "deleted", 0, 1),
        ("src/d", "added", 1, 0),
    ]
    assert (found.insertions, found.deletions) == (2, 2)
    assert b"+two" in found.patch
    assert [one.old_mode for one in found.files] == ["100644", "100644", "000000"]
    only = compare(S, None, second, patch=False, paths=["src"])
    assert [one.path for one in only.files] == ["src/b", "src/d"]
    assert only.patch == b""
    (keeper.workspace / "now").write_text("now\n")
    assert [one.path for one in compare(S, second, None, patch=False, paths=()).files] == ["now"]


def test_a_fork_begins_with_its_parents_snapshots_and_outlives_it(keeper: Keeper) -> None:
    first = keeper.begin(a="one\n")
    second = keeper.change(a="two\n")
    keeper.sessions.save(SessionContext.create(session_id=FORK))
    keeper.snapshots.settle(FORK, second, mark=0, parent_id=S, more=[first])
    assert keeper.sessions.delete(S)
    keeper.snapshots.forget_deleted()

    workspace = keeper.sessions.workspace_path(FORK)
    assert (workspace / "a").read_text() == "two\n"
    keeper.again(None).settle(FORK, first, mark=1)
    assert (workspace / "a").read_text() == "one\n"


def test_a_sweep_leaves_what_is_wanted_and_what_a_worker_may_be_about_to_refer_to(
    keeper: Keeper,
) -> None:
    first = keeper.begin(a="one\n")
    second = keeper.change(a="two\n")
    third = keeper.change(a="three\n")
    assert keeper.snapshots.disk_bytes(S) > 0
    keeper.snapshots.sweep(S, [second])
    for one in (first, second, third):
        keeper.snapshots.require(S, one)

    keeper.again(lambda: utc_now() + timedelta(hours=2)).sweep(S, [first, second])
    keeper.snapshots.settle(S, first, mark=1)
    assert (keeper.workspace / "a").read_text() == "one\n"
    keeper.snapshots.require(S, second)


@pytest.mark.parametrize("kept_by", [git, git_and_packs, memory])
def test_a_manager_goes_back_and_forks_on_sessions_that_are_no_files(
    base: Path, kept_by: Callable[[LocalSessions], Keeper]
) -> None:
    keeper = kept_by(MemorySessions(base))
    manager = SessionManager(keeper.sessions, snapshots=keeper.snapshots)
    session = manager.create("work", "one", attachments={"plan.yaml": b"a"})
    workspace = keeper.sessions.workspace_path(session.session_id)
    workspace.mkdir()
    for text in ("one\n", "two\n"):
        write_files(workspace, {"a": text})
        manager.checkpoint_session()
    keeper.sessions.keep_step(session.session_id, "0001.json", b"{}")

    manager.rewind(1)
    assert (workspace / "a").read_text() == "one\n"
    fork = manager.fork(2)

    assert (keeper.sessions.workspace_path(fork.session_id) / "a").read_text() == "two\n"
    kept = keeper.sessions.read_attachments(fork.session_id)
    assert kept == {"plan.yaml": b"a", "steps/0001.json": b"{}"}
