"""A session's record: read once if it changed long ago, and again at the slightest change."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from agentforge_sessions.durable import OsFileSystem
from agentforge_sessions.harness import SessionManager, SessionStore
from agentforge_sessions.harness.prune_target import HarnessTarget
from agentforge_sessions.harness.session_deletion import SESSION_FILE
from agentforge_sessions.prune import PruneResult, RetentionPolicy, prune
from agentforge_sessions.prune.policy import Reason
from agentforge_sessions.prune.ports import Record
from tests.support.clock import FakeClock
from tests.support.filesystem import Call
from tests.support.prune_sites import Site

SECOND_NS: Final = 1_000_000_000
FAR_AHEAD_NS: Final = 10**19
"""By this clock, every file changed long ago."""


def ended(site: Site) -> str:
    manager = SessionManager(
        SessionStore(site.root), clock=FakeClock(site.clock.now - timedelta(hours=99))
    )
    session_id = manager.create("tdflow", "red", goal="a goal").session_id
    manager.complete()
    return session_id


def run(site: Site) -> PruneResult:
    site.fs.begin()
    return prune(
        HarnessTarget(site.root), RetentionPolicy(max_age_hours=24), outside=site.outside()
    )


def rewrite(path: Path, old: str, new: str) -> None:
    """Change a file in place, its size kept, so that its times say so."""
    before = path.stat().st_ctime_ns
    content = path.read_text().replace(old, new, 1)
    while path.stat().st_ctime_ns == before:  # a kernel's tick may be coarse
        path.write_text(content)


def before_the_rename(site: Site, session_id: str, act: Callable[[], object]) -> None:
    done: list[Call] = []

    def before(call: Call) -> None:
        if not done and call.operation == "rename" and session_id in call.path:
            done.append(call)
            act()

    site.fs.before = before


def reads(site: Site) -> int:
    return sum(
        call.operation == "open" and call.path.endswith(SESSION_FILE) for call in site.fs.trace
    )


@pytest.mark.parametrize(("now_ns", "times"), [(FAR_AHEAD_NS, 1), (0, 3)])
def test_a_record_is_read_again_only_if_it_changed_a_moment_ago(
    site: Site, now_ns: int, times: int
) -> None:
    """Three times: to decide, once the session is locked, and once it is out of sight."""
    old = ended(site)
    site.file_clock = lambda: now_ns
    assert run(site).deleted_sessions == [old]
    assert reads(site) == times


@pytest.mark.parametrize("now_ns", [FAR_AHEAD_NS, 0])
def test_a_session_that_was_changed_after_it_was_decided_is_kept(site: Site, now_ns: int) -> None:
    old = ended(site)
    site.file_clock = lambda: now_ns
    done: list[Call] = []

    def before(call: Call) -> None:
        if not done and call.operation == "flock" and call.path.endswith(".prune"):
            done.append(call)
            rewrite(site.root / old / SESSION_FILE, "revision: 2", "revision: 3")

    site.fs.before = before
    result = run(site)

    assert done
    assert result.deleted_sessions == []
    assert [one.reasons for one in result.decisions] == [(Reason.CHANGED,)]
    assert old in site.sessions()


@pytest.mark.parametrize("now_ns", [FAR_AHEAD_NS, 0])
def test_a_session_that_is_changed_just_before_it_is_renamed_is_put_back(
    site: Site, now_ns: int
) -> None:
    old = ended(site)
    path = site.root / old / SESSION_FILE
    site.file_clock = lambda: now_ns
    before_the_rename(site, old, lambda: rewrite(path, "revision: 2", "revision: 3"))
    result = run(site)

    assert result.deleted_sessions == []
    assert [one.reasons for one in result.decisions] == [(Reason.CHANGED,)]
    assert old in site.sessions()
    assert "revision: 3" in path.read_text()
    assert site.hidden() == []


def test_a_session_whose_record_is_touched_and_says_the_same_goes(site: Site) -> None:
    old = ended(site)
    path = site.root / old / SESSION_FILE
    site.file_clock = lambda: FAR_AHEAD_NS
    before_the_rename(site, old, lambda: os.utime(path, (1, 1)))
    assert run(site).deleted_sessions == [old]
    assert reads(site) == 2


# ---------------------------------------------------------------- the record itself


def record_changed_at(changed_ns: int) -> Record:
    fields = dict.fromkeys(("st_atime_ns", "st_mtime_ns"), 0) | {"st_ctime_ns": changed_ns}
    return Record("file", os.stat_result((0,) * 10, fields))


@pytest.mark.parametrize(
    ("changed_ns", "settled"),
    [
        (5 * SECOND_NS + 1, True),
        (10 * SECOND_NS - SECOND_NS // 10 - 1, True),
        (10 * SECOND_NS - SECOND_NS // 10, False),
        (10 * SECOND_NS - 1, False),
        (11 * SECOND_NS + 1, False),
        (5 * SECOND_NS, False),  # the file system may count seconds only
    ],
)
def test_a_record_is_settled_a_moment_after_its_last_change(changed_ns: int, settled: bool) -> None:
    assert record_changed_at(changed_ns).is_settled(10 * SECOND_NS) is settled


def replace(path: Path) -> None:
    path.with_name("new").write_text("content")
    path.with_name("new").replace(path)


@pytest.mark.parametrize(
    ("change", "same"),
    [
        (lambda path: path.read_text(), True),
        (lambda path: path.write_text("content and more"), False),
        (lambda path: rewrite(path, "content", "another"), False),
        (lambda path: path.chmod(0o640), False),
        (lambda path: path.unlink(), False),
        (replace, False),
    ],
    ids=["read", "longer", "as long", "another mode", "removed", "replaced"],
)
def test_a_record_is_as_it_was_until_its_file_changes(
    tmp_path: Path, change: Callable[[Path], object], same: bool
) -> None:
    path = tmp_path / "file"
    path.write_text("content")
    record = Record("file", path.stat())
    change(path)
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        assert record.is_as_it_was(OsFileSystem(), fd) is same
    finally:
        os.close(fd)
