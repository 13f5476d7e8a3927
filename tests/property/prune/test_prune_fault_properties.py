"""Whatever system call fails: a session is whole, or gone with a line in the audit log.

Or it is out of sight, and the next prune finishes it. Nothing untyped is raised, and an error that
says that nothing was removed is right.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentforge_sessions.prune import (
    Disposal,
    PruneError,
    PruneResult,
    RetentionPolicy,
    TarArchiver,
    list_trash,
    prune,
)
from agentforge_sessions.prune.removal.private_directory import session_of
from agentforge_sessions.sandbox import SandboxTarget
from tests.support.filesystem import FaultyFileSystem, Plan, calls, every_call_from, nth_call
from tests.support.prune_sites import Site, Tree, below, outside_of, tree_of, uuid_of
from tests.support.soak import SOAKING, examples

ERRNOS: Final = (
    (errno.EIO, errno.ENOSPC, errno.EACCES, errno.EMFILE, errno.EROFS, errno.ENOENT, errno.ELOOP)
    if SOAKING
    else (errno.EIO, errno.ENOENT)
)
STEP: Final = 1 if SOAKING else 17
"""Every call in the soak; normally one in seventeen, others for each mode and errno."""

MODES: Final = ("removal", "trash", "archive")
BEGUN, TRASHED = uuid_of(70), uuid_of(71)
IN_TRASH: Final = f"{TRASHED}~1.sandbox.1.2.0"


class Case:
    """A root with sessions to go, to stay and to be finished, and what it was like before."""

    def __init__(self, top: Path, mode: str) -> None:
        self.mode = mode
        self.site = Site(top)
        site = self.site
        self.old = [site.add(age_hours=60), site.add(age_hours=50), site.add(age_hours=40)]
        (site.root / self.old[0] / "link").symlink_to(site.beside)
        self.staying = [site.add(age_hours=1), site.add(age_hours=None)]
        (site.private / "going" / f"{BEGUN}~1" / "deep").mkdir(parents=True)
        (site.private / "going" / f"{BEGUN}~1" / "file").touch()
        (site.private / "coming" / "0a" / "deep").mkdir(parents=True)
        trash = site.private / "trash"
        (trash / IN_TRASH / "deep").mkdir(parents=True)
        (site.root / "shared").mkdir()
        site.private.chmod(0o700)
        self.before = tree_of(site.top)
        self.lied = False

    def run(self, plan: Plan | None = None) -> PruneResult:
        site = self.site
        site.fs.begin(plan)
        archiver = None
        if self.mode == "archive":
            archiver = TarArchiver(
                directory=site.top / "archives", clock=site.clock, token=site.tokens, level=1
            )
        try:
            return prune(
                SandboxTarget(site.root),
                RetentionPolicy(max_age_hours=24),
                disposal=Disposal(
                    grace=timedelta(days=1) if self.mode == "trash" else None,
                    archiver=archiver,
                    batch=2,
                    lock_timeout_s=0,
                ),
                outside=site.outside(),
            )
        finally:
            assert site.fs.open_descriptors == {}

    # ------------------------------------------------------------ what must hold

    def check(self, plan: Plan) -> None:
        site = self.site
        try:
            result = self.run(plan)
        except PruneError as error:
            result, said = None, str(error)
        else:
            said = "nothing was removed"
        assert "nothing was removed" in said
        failed = list(site.fs.failed)
        # Told that it is not there, a prune takes a session in the trash for gone, and forgets
        # its record: the session stays until somebody restores it.
        self.lied = any(call.operation == "open" and "trash/" in call.path for call in failed)
        now = tree_of(site.top)
        removing = {name for event, name in site.events() if event == "removing"}
        out = {session_of(name) for name in site.hidden()}
        trashed = {session_of(name) for name in site.hidden("trash")}
        for name in self.old:
            path = f"root/{name}"
            if path in now:
                assert below(now, path) == below(self.before, path), failed
                assert result is None or name not in result.deleted_sessions
                continue
            assert result is not None, failed
            assert name in removing, failed
            if name in result.deleted_sessions:
                assert name not in out
                assert (name in trashed) == (self.mode == "trash")
            else:
                assert name in result.errors, failed
                assert name in result.unfinished_sessions, failed
                assert name in out | trashed, failed
        self.others_stay(now)
        if result is None:
            assert (site.private / "trash" / IN_TRASH).is_dir(), failed
            assert (site.private / "going" / f"{BEGUN}~1" / "file").exists(), failed
        elif result.purged_sessions:
            assert ("purging", TRASHED) in site.events()
        if self.mode == "archive" and result is not None:
            for name in result.deleted_sessions:
                assert Path(result.archives[name]).stat().st_size > 0
        self.next_run(out | trashed)

    def next_run(self, hidden: set[str]) -> None:
        """Without a fault, all is finished."""
        site = self.site
        site.clock.advance(3_600)
        result = self.run()
        assert result.errors == {}, result
        assert site.hidden() == []
        assert site.hidden("coming") == []
        now = tree_of(site.top)
        assert not [name for name in self.old if f"root/{name}" in now]
        known = {name for event, name in site.events() if event == "removing"}
        assert known >= set(self.old)
        self.others_stay(now)
        if self.mode == "trash":
            restorable = {record.session_id for record in list_trash(site.root)}
            assert restorable == set(self.old)
        elif not self.lied:
            assert site.hidden("trash") == []
        if self.mode == "archive":
            made = [name for name in os.listdir(site.top / "archives") if name.endswith(".zst")]
            for name in self.old:
                assert [one for one in made if name in one], name

    def others_stay(self, now: Tree) -> None:
        ours = [f"root/{name}" for name in (".prune", *self.old)]
        assert outside_of(now, [*ours, "archives"]) == outside_of(self.before, ours)


def attempt(mode: str, plan: Plan, deleters: int = 1) -> FaultyFileSystem:
    top = tempfile.mkdtemp()
    try:
        case = Case(Path(top) / "site", mode)
        case.site.deleters = deleters
        case.check(plan)
        return case.site.fs
    finally:
        shutil.rmtree(top)


def count_calls(mode: str) -> int:
    with tempfile.TemporaryDirectory() as top:
        case = Case(Path(top) / "site", mode)
        result = case.run()
        assert sorted(result.deleted_sessions) == case.old
        assert result.finished_sessions == [BEGUN]
        assert result.purged_sessions == [TRASHED]
        return len(case.site.fs.trace)


@pytest.mark.parametrize("number", ERRNOS, ids=errno.errorcode.get)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.timeout(600)
def test_any_single_call_may_fail(mode: str, number: int) -> None:
    whole = count_calls(mode)
    assert whole > 100
    first = (MODES.index(mode) + ERRNOS.index(number)) % STEP
    for index in range(first, whole, STEP):
        attempt(mode, nth_call(index, number), deleters=1 if index % 2 else 4)


WRITING: Final = ("writev", "fsync", "rename", "unlink", "rmdir", "mkdir")


@settings(max_examples=examples(20))
@given(
    st.sampled_from(MODES),
    st.integers(0, 250),
    st.sampled_from((errno.EIO, errno.ENOSPC, errno.EROFS, errno.EACCES)),
    st.sampled_from([WRITING, ("fsync",), ("rename",), ("unlink", "rmdir"), ("open",), ("stat",)]),
    st.sampled_from((1, 4)),
)
def test_a_disk_may_break_for_good(
    mode: str, index: int, number: int, operations: tuple[str, ...], deleters: int
) -> None:
    attempt(mode, every_call_from(index, number, operations), deleters)


@settings(max_examples=examples(25))
@given(
    st.sampled_from(MODES),
    st.sets(st.integers(0, 300), max_size=12),
    st.sampled_from((errno.EIO, errno.ENOSPC, errno.EACCES, errno.ENOENT)),
)
def test_any_calls_may_fail(mode: str, numbers: set[int], number: int) -> None:
    attempt(mode, calls(numbers, number))


def test_the_next_prune_needs_no_luck() -> None:
    """A removal that fails again and again is finished once it can be."""
    with tempfile.TemporaryDirectory() as top:
        case = Case(Path(top) / "site", "removal")
        stubborn: Callable[..., int | None] = lambda _, call: (  # noqa: E731
            errno.EIO if call.operation == "unlink" and "data.txt" in call.path else None
        )
        for _ in range(3):
            result = case.run(stubborn)
            assert sorted(result.errors) == case.old
        case.next_run(set())
