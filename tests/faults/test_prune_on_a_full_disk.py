"""Pruning frees a disk that is really full: ext4, xfs and a tmpfs, without a byte to spare."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import pytest

from agentforge_sessions.harness import SessionManager, SessionStore
from agentforge_sessions.prune import (
    PRIVATE,
    Disposal,
    PruneRootUnusable,
    RetentionPolicy,
    list_trash,
    prune,
    restore_from_trash,
)
from agentforge_sessions.prune.audit_log import AUDIT_NAME, actor, read_audit
from agentforge_sessions.sandbox import SandboxTarget, create_session_sandbox, prune_sessions
from tests.support.listing import names_in
from tests.support.mounts import mounted_image, mounted_tmpfs

NOW: Final = datetime.now(UTC)
OLD: Final = NOW - timedelta(hours=99)
DAY: Final = RetentionPolicy(max_age_hours=24)


@contextmanager
def _tmpfs(path: Path) -> Iterator[Path]:
    with mounted_tmpfs(path, options="size=2m,nr_inodes=2000") as disk:
        yield disk


DISKS: Final[dict[str, Callable[[Path], object]]] = {
    "ext4": lambda path: mounted_image(path, "ext4", 16, "-m", "0"),
    "xfs": lambda path: mounted_image(path, "xfs", 320),
    "tmpfs": _tmpfs,
}


@pytest.fixture(params=DISKS)
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    with DISKS[request.param](tmp_path / "disk") as mounted:  # type: ignore[attr-defined]
        yield mounted


def fill(disk: Path) -> None:
    """Leave no room for a byte, nor for a file's name where that takes room."""
    with (disk / "ballast").open("wb", buffering=0) as ballast:
        for size in (1 << 20, 4096, 512, 1):
            with suppress(OSError):
                while ballast.write(b"x" * size):
                    pass
            os.fsync(ballast.fileno())
    for number in range(5_000):
        try:
            (disk / f"more-{number}").write_bytes(b"x" * 60)
        except OSError as error:
            assert error.errno == errno.ENOSPC  # noqa: PT017
            return
    pytest.fail("the disk is not full")


def sandboxes(root: Path, count: int) -> list[str]:
    made = []
    for number in range(count):
        when = OLD + timedelta(minutes=number)
        name, _ = create_session_sandbox(workspace_root=root, clock=lambda when=when: when)
        (root / name / "data").write_bytes(b"d" * 3_000)
        made.append(name)
    return made


def removed(log: Path) -> list[object]:
    """Name what the log says was removed; each announcement is followed by what became of it.

    With lines from the reserve among them they are in no order of time. A directory that a full
    disk has no room to grow lets a session be kept, and announced again once others are gone.
    """
    told = Counter((line["session_id"], line["event"]) for line in read_audit(log))
    for session_id, event in list(told):
        assert event in {"removing", "kept", "removed"}
        assert told[session_id, "removed"] == 1
        assert told[session_id, "removing"] == 1 + told[session_id, "kept"]
    return sorted(session_id for session_id, event in told if event == "removed")


def test_a_first_prune_frees_a_full_disk(disk: Path) -> None:
    root = disk / "workspace"
    old = sandboxes(root, 40)
    young, _ = create_session_sandbox(workspace_root=root)
    fill(disk)

    result = prune_sessions(24, root)

    assert (result.deleted_sessions, result.errors) == (old, {})
    assert names_in(root) == [young]
    assert removed(root / PRIVATE / AUDIT_NAME) == sorted(old)
    (disk / "room").write_bytes(b"x" * 40 * 3_000)


def test_a_first_prune_to_the_trash_moves_what_it_can_and_says_the_rest(
    disk: Path, request: pytest.FixtureRequest
) -> None:
    """Nothing is freed by it; a record that there is no room for is in the name."""
    root = disk / "workspace"
    old = sandboxes(root, 3)
    fill(disk)

    result = prune_sessions(24, root, trash_for=timedelta(days=1))

    moved = result.deleted_sessions
    rest = old[len(moved) :]
    assert (moved + list(result.errors), names_in(root)) == (old, sorted(rest))
    assert moved
    assert not rest or request.node.callspec.params["disk"] == "xfs"  # a name may take a block
    for why in result.errors.values():
        assert os.strerror(errno.ENOSPC) in why
        assert "audit log" not in why
    trash = {record.session_id: record for record in list_trash(root)}
    assert sorted(trash) == sorted(moved)
    for record in trash.values():
        assert record.kind == "sandbox"
        assert record.size_bytes > 3_000
        assert abs(record.purge_after - record.trashed_at - timedelta(days=1)) <= timedelta(
            seconds=2
        )
    assert restore_from_trash(SandboxTarget(root), moved[-1]) == root / moved[-1]
    assert (root / moved[-1] / "data").read_bytes() == b"d" * 3_000


def test_agent_sessions_are_cleaned_up_on_a_full_disk(disk: Path) -> None:
    store = SessionStore(disk / "sessions")
    ended = []
    for number in range(5):
        when = OLD + timedelta(minutes=number)
        manager = SessionManager(store, clock=lambda when=when: when)
        ended.append(manager.create().session_id)
        manager.complete()
    fill(disk)

    assert SessionManager(store).cleanup_old_sessions(1) == ended
    assert names_in(disk / "sessions") == [".gitkeep"]
    assert removed(disk / "sessions" / PRIVATE / AUDIT_NAME) == sorted(ended)


def test_a_root_of_an_older_release_is_freed_with_the_log_elsewhere(
    disk: Path, tmp_path: Path
) -> None:
    root = disk / "workspace"
    old = sandboxes(root, 5)
    for below, _, files in os.walk(root / PRIVATE, topdown=False):
        for name in files:
            (Path(below) / name).unlink()
        Path(below).rmdir()
    fill(disk)

    try:
        refused = prune_sessions(24, root)
    except PruneRootUnusable as error:
        assert "--audit-log" in str(error)  # noqa: PT017 (where a directory takes no room, none is)
    else:
        assert list(refused.errors) == old
        assert all("--audit-log" in why for why in refused.errors.values())
    assert names_in(root) == sorted(old)
    log = tmp_path / "elsewhere.jsonl"
    result = prune(SandboxTarget(root), DAY, disposal=Disposal(audit_path=log))

    assert (result.deleted_sessions, result.errors) == (old, {})
    assert names_in(root) == []
    assert removed(log) == sorted(old)
    lines = read_audit(log)
    assert {line["root"] for line in lines} == {str(root)}
    assert all(line["by"] == actor() for line in lines)
