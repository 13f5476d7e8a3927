"""A worker that takes snapshots and goes back is killed at any instant; the next one finds all."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from agentforge_sessions.adapters.session_snapshots import SessionSnapshots
from agentforge_sessions.harness import SessionManager, SessionStore
from tests.support.promptness import wait_until
from tests.support.repositories import plain_git, write_files
from tests.support.soak import SOAKING

KILLS = 60 if SOAKING else 2
LONGEST_LIFE_S = 1.5 if SOAKING else 0.8

WORKER = """
import pathlib, sys
from agentforge_sessions.adapters.session_snapshots import SessionSnapshots
from agentforge_sessions.harness import SessionManager, SessionStore
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
