"""A worker that takes snapshots and goes back is killed at any instant; the next one finds all."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentforge_sessions.harness import SessionManager, SessionStore
from agentforge_sessions.wiring.workspaces.session_snapshots import SessionSnapshots
from tests.support.promptness import wait_until
from tests.support.repositories import plain_git, write_files
from tests.support.soak import SOAKING

KILLS = 60 if SOAKING else 2
LONGEST_LIFE_S = 1.5 if SOAKING else 0.8

WORKER = """
import pathlib, sys
from agentforge_sessions.wiring.workspaces.session_snapshots import SessionSnapshots
from agentforge_sessions.harness import (SessionManager, SessionStore)
store = SessionStore(sys.argv[1])
manager = SessionManager(store, snapshots=SessionSnapshots(store))
session = manager.open(sys.argv[2])
workspace = store.workspace_path(sys.argv[2])
manager.prepare_workspace()
pathlib.Path(sys.argv[3]).touch()
while True:
    number = len(session.history)
    for name in range(20):
        (workspace / f"f{name}").write_text(f"{number}\\n")
    manager.checkpoint_session()
    manager.rewind(max(1, len(manager.checkpoints()) - 2))
"""


@pytest.mark.timeout(600)
def test_session_and_snapshots_agree_after_a_kill_at_any_instant(tmp_path: Path) -> None:
    rng = random.Random(7)
    store = SessionStore(tmp_path / "sessions")
    manager = SessionManager(store, snapshots=SessionSnapshots(store))
    session_id = manager.create("work", "one").session_id
    workspace = store.workspace_path(session_id)
    write_files(workspace, {f"f{name}": "0\n" for name in range(20)})
    manager.checkpoint_session()
    for kill in range(KILLS):
        begun = tmp_path / f"begun-{kill}"
        words = [sys.executable, "-c", WORKER, store.base_path, session_id, begun]
        worker = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        try:
            wait_until(begun.exists)
            time.sleep(rng.uniform(0, LONGEST_LIFE_S))
        finally:
            worker.send_signal(signal.SIGKILL)
            worker.wait()
        judge(store, session_id)
    plain_git(workspace.with_name("snapshots.git"), "fsck", "--strict")


AT_EACH_CALL = """
import os, pathlib, subprocess, sys
from dataclasses import replace
from agentforge_sessions.harness.session_layout import SNAPSHOTS
from agentforge_sessions.repository.snapshots.snapshot_repository import SnapshotRepository
from agentforge_sessions.repository.snapshots.snapshots import Snapshots
from tests.support.filesystem import FaultyFileSystem
from tests.support.repositories import plain_git

folder, step = pathlib.Path(sys.argv[1]), int(sys.argv[2])
workspace = folder / "workspace"
repository = SnapshotRepository(folder / SNAPSHOTS, workspace)
repository.make()
snapshots = Snapshots(repository)
(workspace / "below").mkdir(parents=True)
snapshots.take("first")
known, call, died = set(), 0, True
while died:
    for name in ("file", "below/file"):
        (workspace / name).write_text(f"{call}")
    child = os.fork()
    if not child:
        left = iter(range(call, -1, -1))
        fs = FaultyFileSystem(before=lambda _: next(left) or os._exit(9))
        Snapshots(replace(repository, fs=fs)).take("killed")
        os._exit(0)
    died = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    taken = snapshots.take("next")
    known.add(taken.id)
    assert known <= {one.id for one in snapshots.list()}
    shown = plain_git(repository.directory, "cat-file", "blob", f"{taken.tree}:below/file").stdout
    assert shown == f"{call}".encode(), shown
    latest = plain_git(repository.directory, "rev-parse", "refs/latest").stdout.decode().strip()
    assert latest == taken.id
    call += step
assert not list(repository.directory.rglob("*.lock"))
checked = plain_git(repository.directory, "fsck", "--strict", "--no-dangling")
print(call // step, checked.stdout)
"""


def test_a_kill_before_any_call_of_a_snapshot_leaves_the_others_and_the_next_one_whole(
    tmp_path: Path,
) -> None:
    step = 1 if SOAKING else 20
    words = [sys.executable, "-c", AT_EACH_CALL, tmp_path, str(step)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    kills, fsck = done.stdout.split(" ", 1)
    assert int(kills) * step > 80
    assert fsck.strip() == "b''"


REWIND_AT_EACH_CALL = """
import os, pathlib, sys
from dataclasses import replace
from agentforge_sessions.agents.hooks.work_tree import WorkTree
from agentforge_sessions.repository.snapshots.snapshots import Snapshots
from tests.support.filesystem import FaultyFileSystem

folder, step = pathlib.Path(sys.argv[1]), int(sys.argv[2])
root, session = folder / "project", folder / "session"
root.mkdir()
session.mkdir()
(root / ".gitignore").write_text("ignored\\n")
(root / "ignored").write_text("a person's")
OLD = {"a": "old", "below/a": "old", "below/gone": "old", "swapped": "old", ".gitignore": None}
NEW = {"a": "new", "below/a": "new", "new/er": "new", "swapped/in": "new", ".gitignore": None}

def files():
    found = [path for path in root.rglob("*") if path.is_file() and path.name != "ignored"]
    return {str(path.relative_to(root)): path.read_text() for path in found}

def put(wanted):
    for path in sorted(root.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.name in {"ignored", ".gitignore"} or path.unlink()
    for name, text in wanted.items():
        (root / name).parent.mkdir(exist_ok=True)
        text and (root / name).write_text(text)

tree = WorkTree(root, session)
put(OLD)
old, wanted = tree.store(), files()
call, died = 0, True
while died:
    put(NEW)
    new, before = tree.store(), files()
    child = os.fork()
    if not child:
        left = iter(range(call, -1, -1))
        fs = FaultyFileSystem(before=lambda _: next(left) or os._exit(9))
        snapshots = tree.snapshots()
        Snapshots(replace(snapshots.repository, fs=fs)).restore(old)
        os._exit(0)
    died = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    for name, text in files().items():
        is_temporary = pathlib.Path(name).name.endswith(".tmp")
        assert is_temporary or text in {wanted.get(name), before.get(name)}, (call, name)
    tree.snapshots().restore(old)
    assert files() == wanted, (call, files())
    tree.snapshots().restore(new)
    assert files() == before, (call, files())
    assert (root / "ignored").read_text() == "a person's"
    call += step
print(call // step)
"""


def test_a_kill_before_any_call_of_going_back_leaves_each_file_old_or_new(tmp_path: Path) -> None:
    step = 1 if SOAKING else 12
    words = [sys.executable, "-c", REWIND_AT_EACH_CALL, tmp_path, str(step)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) * step > 80


REWIND_AT_EACH_CALL_OF_THE_SESSION = """
import os, pathlib, subprocess, sys
from agentforge_sessions.harness import SessionManager, SessionStore
from agentforge_sessions.wiring.bootstrap import open_snapshots
from tests.support.agent_conversations import Conversation, Project
from tests.support.filesystem import FaultyFileSystem

folder, step = pathlib.Path(sys.argv[1]), int(sys.argv[2])
project = Project(folder / "project")
subprocess.run(["git", "init", "-q", project.folder], check=True)
session_id, talk = project.begin(), Conversation(project)
file = project.folder / "a.txt"
file.write_text("one")
talk.start()
talk.prompt()
file.write_text("two")
talk.hook("Stop", last_assistant_message="done")

def opened(store):
    manager = SessionManager(store, snapshots=open_snapshots(project.store), clock=project.clock)
    manager.load(session_id)
    return manager

call, died = 0, True
while died:
    mine = f"mine at {call}"
    file.write_text(mine)
    child = os.fork()
    if not child:
        left = iter(range(call, -1, -1))
        fs = FaultyFileSystem(before=lambda _: next(left) or os._exit(9))
        opened(SessionStore(project.store.base_path, fs=fs)).rewind(1, in_turn=True)
        os._exit(0)
    died = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert file.read_text() in {"one", mine}, call
    manager = opened(project.store)
    manager.rewind(1, in_turn=True)
    assert file.read_text() == "one", call
    found = []
    for one in manager.checkpoints()[-3:]:
        manager.rewind(one.number, in_turn=True)
        found.append(file.read_text())
    assert mine in found, (call, found)
    call += step
print(call // step)
"""


def test_a_kill_before_any_call_of_the_session_in_a_rewind_loses_no_file_of_the_person(
    tmp_path: Path,
) -> None:
    step = 1 if SOAKING else 12
    words = [sys.executable, "-c", REWIND_AT_EACH_CALL_OF_THE_SESSION, tmp_path, str(step)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.splitlines()[-1]) * step > 40


def judge(store: SessionStore, session_id: str) -> None:
    manager = SessionManager(store, snapshots=SessionSnapshots(store))
    manager.open(session_id)
    manager.prepare_workspace()
    kept = [one for one in manager.checkpoints() if one.snapshot is not None]
    assert len(kept) == len(manager.checkpoints())
    known = {one.id for one in SessionSnapshots(store).of(session_id).list()}
    assert {one.snapshot for one in kept} <= known
    manager.rewind(kept[-1].number)
    assert manager.diff(kept[-1].number).files == ()
    contents = {one.read_text() for one in store.workspace_path(session_id).iterdir()}
    assert len(contents) == 1, "the files are of one checkpoint"
