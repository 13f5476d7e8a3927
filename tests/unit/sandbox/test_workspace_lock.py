"""Who may execute in a workspace, and who waits."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from agentforge_sessions.sandbox import WorkspaceBusy, WorkspaceError
from agentforge_sessions.sandbox.workspaces.workspace_lock import _thread_locks, claim
from tests.support.descriptors import held_below

HOLDER = """
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDONLY)
fcntl.flock(fd, fcntl.LOCK_EX)
print('held', flush=True)
sys.stdin.read()
"""


def test_a_second_claim_waits_for_the_first_whatever_path_leads_there(tmp_path: Path) -> None:
    (tmp_path / "w").mkdir()
    (tmp_path / "up").symlink_to(".")
    order: list[str] = []
    started = threading.Event()

    def second() -> None:
        started.set()
        with claim(tmp_path / "up" / "w", timeout_s=60):
            order.append("second")

    with claim(tmp_path / "w", timeout_s=1):
        thread = threading.Thread(target=second)
        thread.start()
        started.wait()
        time.sleep(0.15)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]
    assert not _thread_locks


def test_a_claim_that_waits_too_long_is_told_who_holds_it(tmp_path: Path) -> None:
    with (
        claim(tmp_path, timeout_s=1),
        pytest.raises(WorkspaceBusy) as caught,
        claim(tmp_path, timeout_s=0.1),
    ):
        pass
    assert (caught.value.path, caught.value.held_by) == (tmp_path, "this process")
    assert caught.value.waited_s == 0.1
    with claim(tmp_path, timeout_s=0.1) as root:
        assert root is not None


def test_a_claim_of_another_process_is_waited_for(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    try:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(WorkspaceBusy) as caught, claim(tmp_path, timeout_s=0.1):
            pass
        assert caught.value.held_by == "another process"
        person = threading.Timer(0.2, holder.stdin.close)
        person.start()
        with claim(tmp_path, timeout_s=60) as root:
            assert root is not None
        person.join()
    finally:
        holder.kill()
        holder.wait()
        holder.stdout.close()


def test_a_wait_can_be_given_up(tmp_path: Path) -> None:
    given_up = threading.Event()
    threading.Timer(0.1, given_up.set).start()
    with (
        claim(tmp_path, timeout_s=1),
        claim(tmp_path, timeout_s=30, given_up=given_up.is_set) as root,
    ):
        assert root is None


def test_a_free_workspace_is_claimed_without_waiting_and_held_while_it_is_removed(
    tmp_path: Path,
) -> None:
    workspace = tmp_path / "w"
    workspace.mkdir()
    with claim(workspace, timeout_s=0) as root:
        assert root is not None
        assert os.path.samestat(os.fstat(root), workspace.stat())
        with pytest.raises(WorkspaceBusy), claim(workspace, timeout_s=0):
            pass
        workspace.rename(tmp_path / "away")
        with pytest.raises(WorkspaceBusy), claim(tmp_path / "away", timeout_s=0):
            pass
        (tmp_path / "away").rmdir()
    assert not _thread_locks
    with pytest.raises(WorkspaceError, match="does not exist"), claim(workspace, timeout_s=0):
        pass


def test_a_workspace_in_use_is_told_at_once(tmp_path: Path) -> None:
    with (
        claim(tmp_path, timeout_s=1),
        pytest.raises(WorkspaceBusy),
        claim(tmp_path, timeout_s=0),
    ):
        pass
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(WorkspaceBusy), claim(tmp_path, timeout_s=0):
            pass
        holder.kill()
    with claim(tmp_path, timeout_s=0) as root:
        assert root is not None


def test_an_error_while_a_workspace_is_held_is_not_taken_for_a_busy_one(tmp_path: Path) -> None:
    mine = WorkspaceBusy(tmp_path, 1.0, "another process")
    with pytest.raises(WorkspaceBusy) as caught, claim(tmp_path, timeout_s=0):
        raise mine
    assert caught.value is mine
    assert not _thread_locks


def test_who_waited_for_a_workspace_that_was_replaced_gets_the_one_that_is_there(
    tmp_path: Path,
) -> None:
    workspace = tmp_path / "w"
    workspace.mkdir()
    got: list[int] = []
    waiting = threading.Event()

    def wait() -> None:
        def told() -> bool:
            waiting.set()
            return False

        with claim(workspace, timeout_s=30, given_up=told) as root:
            assert root is not None
            got.append(os.fstat(root).st_ino)

    with claim(workspace, timeout_s=1):
        thread = threading.Thread(target=wait)
        thread.start()
        assert waiting.wait(30)
        workspace.rename(tmp_path / "away")
        workspace.mkdir()
    thread.join()
    assert got == [workspace.stat().st_ino]
    assert not _thread_locks


def test_a_claim_leaves_nothing_behind(tmp_path: Path) -> None:
    with claim(tmp_path, timeout_s=1):
        pass
    with pytest.raises(ValueError, match="mine"), claim(tmp_path, timeout_s=1):
        raise ValueError("mine")
    with pytest.raises(WorkspaceError), claim(tmp_path / "gone", timeout_s=1):
        pass
    assert held_below(tmp_path) == []
    assert os.listdir(tmp_path) == []
    assert not _thread_locks
