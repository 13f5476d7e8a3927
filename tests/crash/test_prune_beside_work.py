"""Prunes that would take everything, beside work: nobody is touched, nobody crashes."""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from agentforge_sessions.prune import PruneEnvironment, SkipReason
from agentforge_sessions.sandbox import (
    Sandbox,
    WorkspaceError,
    create_session_sandbox,
    get_session_sandbox,
    prune_sessions,
)
from agentforge_sessions.sandbox.workspaces.workspace_lock import claim
from tests.crash._nursery import Nursery
from tests.support.filesystem import Call, FaultyFileSystem
from tests.support.soak import SOAKING

SECONDS = 30.0 if SOAKING else 0.3
EXECUTIONS = 200 if SOAKING else 5
BEGIN_AFTER_S = 0.15


def soon() -> float:
    return time.monotonic() + BEGIN_AFTER_S


def for_a_while(nursery: Nursery, stop: Path, pids: list[int]) -> list[dict[str, Any]]:
    """Let them work for some time, and until prunes and work have met."""
    began = time.monotonic()
    told: list[dict[str, Any]] = []
    met: set[str] = set()
    while (past := time.monotonic() - began) < SECONDS or (past < 60 and len(met) < 2):
        time.sleep(0.05)
        told += nursery.heard()
        met = {one["met"] for one in told if "met" in one}
    stop.touch()
    told += nursery.finish(*pids, heard=told)
    return told


def test_workspaces_that_other_processes_hold_are_never_touched(
    nursery: Nursery, tmp_path: Path
) -> None:
    root, stop, start = tmp_path / "root", tmp_path / "stop", soon()
    root.mkdir()
    shared = {"root": str(root), "start": start, "stop": str(stop)}
    pids = [nursery.start("work_in_workspaces", worker=worker, **shared) for worker in range(3)]
    pids += [nursery.start("prune_until_stopped", **shared) for _ in range(2)]
    told = for_a_while(nursery, stop, pids)

    assert [wrong for one in told for wrong in one.get("wrong", ())] == []
    assert sum(one.get("held", 0) for one in told) > 0, "nobody worked"
    assert sum(one.get("lost", 0) for one in told) > 0, "prunes and work never met"
    assert sum(one.get("deleted", 0) for one in told) > 0, "nothing was pruned"
    assert sum(one.get("twice", 0) for one in told) == 0
    print({key: sum(one.get(key, 0) for one in told) for key in ("held", "lost", "deleted")})
    last = prune_sessions(0, root)
    # One that was pruned between its making and its first sandbox is made anew without metadata.
    assert all(one.reason is SkipReason.NO_METADATA for one in last.skipped)
    assert set(os.listdir(root)) == {".prune", *last.skipped_sessions}


def test_sessions_are_cleaned_up_only_after_their_end_while_managers_save(
    nursery: Nursery, tmp_path: Path
) -> None:
    base, stop, start = tmp_path / "sessions", tmp_path / "stop", soon()
    shared = {"base": str(base), "start": start, "stop": str(stop)}
    pids = [nursery.start("manage_sessions", worker=worker, **shared) for worker in range(3)]
    pids += [nursery.start("clean_up_until_stopped", **shared) for _ in range(2)]
    told = for_a_while(nursery, stop, pids)

    assert [wrong for one in told for wrong in one.get("wrong", ())] == []
    assert sum(one.get("ended", 0) for one in told) > 10, "nobody worked"
    assert sum(one.get("deleted", 0) for one in told) > 0, "nothing was cleaned up"
    assert sum(one.get("twice", 0) for one in told) == 0
    print({key: sum(one.get(key, 0) for one in told) for key in ("ended", "gone", "deleted")})


# --------------------------------------------------------------------------- real executions

CODE = """
import os, time
with open("mark.txt", "w") as file:
    file.write("x" * 1000)
os.makedirs("a/b", exist_ok=True)
for number in range(20):
    with open(f"a/b/{number}.txt", "w") as file:
        file.write(str(number))
time.sleep(0.02)
assert open("mark.txt").read() == "x" * 1000
assert sorted(os.listdir("a/b"), key=lambda name: int(name[:-4])) == [f"{n}.txt" for n in range(20)]
print("whole")
"""


@pytest.mark.timeout(3600 if SOAKING else 120)
def test_running_executions_keep_their_files_while_everything_else_is_pruned(
    tmp_path: Path,
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    stop = threading.Event()

    def execute(_: int) -> tuple[int, int]:
        whole = lost = 0
        session_id, sandbox = create_session_sandbox(workspace_root=root)
        while whole + lost < EXECUTIONS or (not lost and whole < 300):
            try:
                result = sandbox.execute(CODE)
            except WorkspaceError:  # it was pruned since the last one: a fresh workspace
                lost += 1
                sandbox = get_session_sandbox(session_id, workspace_root=root)
                continue
            assert result.stdout == "whole\n", result.stderr
            assert result.success
            assert "mark.txt" in result.files_created or "mark.txt" in result.files_modified
            assert result.metadata["changes_complete"]
            whole += 1
            time.sleep(0.02)  # nobody works in it, and prunes come by
        sandbox.close()
        return whole, lost

    def prune() -> int:
        deleted = 0
        while not stop.is_set():
            result = prune_sessions(0, root)
            assert dict(result.errors) == {}
            deleted += len(result.deleted_sessions)
            stop.wait(0.005)
        return deleted

    with ThreadPoolExecutor(3) as threads:
        pruning = threads.submit(prune)
        try:
            told = list(threads.map(execute, range(2)))
        finally:
            stop.set()
        deleted = pruning.result()
    assert sum(whole for whole, _ in told) > 0
    assert deleted > 0, "prunes and executions never met"
    print(f"(whole, lost) {told}, {deleted} pruned")


# ---------------------------------------------------------- who comes while a session is removed


class Meeting:
    """Has somebody come to a workspace at the moment in which a prune takes it out of sight."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.outcome: object = None
        self._waiting = threading.Event()
        self._thread = threading.Thread(target=self._come)
        self._met = False

    def before(self, call: Call) -> None:
        if call.operation == "rename" and ".prune/going" in call.path and not self._met:
            self._met = True
            self._thread.start()
            assert self._waiting.wait(60)

    def after(self) -> None:
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _come(self) -> None:
        def asked_while_waiting() -> bool:
            self._waiting.set()  # for the lock that the prune holds
            return False

        try:
            workspace = self.sandbox.workspace
            with claim(workspace, timeout_s=60, given_up=asked_while_waiting) as fd:
                assert fd is not None
                here = os.stat(self.sandbox.workspace)
                self.outcome = os.path.samestat(here, os.fstat(fd))
        except WorkspaceError as error:
            self.outcome = error


def test_who_waits_for_a_workspace_that_is_pruned_hears_that_it_is_gone(tmp_path: Path) -> None:
    _, sandbox = create_session_sandbox(workspace_root=tmp_path)
    meeting = Meeting(sandbox)
    fs = FaultyFileSystem(before=meeting.before)
    result = prune_sessions(0, tmp_path, outside=PruneEnvironment(fs=fs))
    meeting.after()
    assert len(result.deleted_sessions) == 1
    assert isinstance(meeting.outcome, WorkspaceError)
    assert meeting.outcome.path == sandbox.workspace
    assert "No code ran" in str(meeting.outcome)


def test_who_waits_for_a_workspace_that_is_made_anew_gets_the_new_one(tmp_path: Path) -> None:
    _, sandbox = create_session_sandbox(workspace_root=tmp_path)
    meeting = Meeting(sandbox)

    def before(call: Call) -> None:
        meeting.before(call)
        if call.operation == "fsync" and not sandbox.workspace.exists():
            sandbox.workspace.mkdir()  # out of sight, and somebody makes another

    fs = FaultyFileSystem(before=before)
    result = prune_sessions(0, tmp_path, outside=PruneEnvironment(fs=fs))
    meeting.after()
    assert len(result.deleted_sessions) == 1
    assert meeting.outcome is True
    assert sandbox.workspace.is_dir()


def test_a_session_that_is_taken_between_the_look_and_the_removal_stays(tmp_path: Path) -> None:
    _, sandbox = create_session_sandbox(workspace_root=tmp_path)
    release = threading.Event()
    taken = threading.Event()

    def work() -> None:
        with claim(sandbox.workspace, timeout_s=60):
            taken.set()
            release.wait(60)

    thread = threading.Thread(target=work)

    def before(call: Call) -> None:
        locks = call.operation == "flock" and call.path.endswith("/.prune")
        if locks and not thread.ident:  # the look is over
            thread.start()
            assert taken.wait(60)

    try:
        result = prune_sessions(
            0, tmp_path, outside=PruneEnvironment(fs=FaultyFileSystem(before=before))
        )
    finally:
        release.set()
        thread.join()
    assert result.deleted_sessions == []
    assert dict(result.errors) == {}
    assert sandbox.workspace.is_dir()
