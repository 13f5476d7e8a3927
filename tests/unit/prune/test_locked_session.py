"""A session's record: read once if it changed long ago, and again at the slightest change."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest
from attrs import frozen

from agentforge_sessions.base.files import OsFileSystem
from agentforge_sessions.harness import SessionManager, SessionStore
from agentforge_sessions.harness.prune_target import HarnessTarget
from agentforge_sessions.harness.session_layout import SESSION_FILE
from agentforge_sessions.prune import PruneResult, PruneTarget, RetentionPolicy, prune
from agentforge_sessions.prune.domain import Reason
from agentforge_sessions.prune.ports import Record
from agentforge_sessions.sandbox import SandboxTarget
from agentforge_sessions.sandbox.session_workspaces.session_metadata_file import METADATA_NAME
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


@frozen
class Kind:
    """A kind of sessions that is dated by one file.

    Attributes:
        add: Make an old session.
        target: Its kind at a root.
        record: The file.
        old: A part of its content by which the session is as it was decided.
        new: The same part, of the same size, of a session that was used since.
    """

    add: Callable[[Site], str]
    target: Callable[[Path], PruneTarget]
    record: str
    old: str
    new: str


AGENT = Kind(ended, HarnessTarget, SESSION_FILE, "revision: 2", "revision: 3")
WORKSPACE = Kind(
    lambda site: site.add(age_hours=99),
    SandboxTarget,
    METADATA_NAME,
    '0000Z",\n  "version"',
    '0001Z",\n  "version"',
)
kinds = pytest.mark.parametrize("kind", [AGENT, WORKSPACE], ids=["harness", "sandbox"])


def run(site: Site, kind: Kind) -> PruneResult:
    site.fs.begin()
    return prune(kind.target(site.root), RetentionPolicy(max_age_hours=24), outside=site.outside())


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


def calls_about(site: Site, kind: Kind) -> list[str]:
    """Name the calls that were about records by their names, but for their removal."""
    about = [call.operation for call in site.fs.trace if call.path.endswith(kind.record)]
    return [one for one in about if one in {"open", "stat"}]


@kinds
@pytest.mark.parametrize(
    ("now_ns", "calls"),
    [(FAR_AHEAD_NS, ["open", "stat", "stat"]), (0, ["open", "open", "open"])],
)
def test_a_record_is_read_again_only_if_it_changed_a_moment_ago(
    site: Site, kind: Kind, now_ns: int, calls: list[str]
) -> None:
    """Three times: to decide, once the session is locked, and once it is out of sight."""
    old = kind.add(site)
    site.file_clock = lambda: now_ns
    assert run(site, kind).deleted_sessions == [old]
    assert calls_about(site, kind) == calls


@kinds
@pytest.mark.parametrize("now_ns", [FAR_AHEAD_NS, 0])
def test_a_session_that_was_changed_after_it_was_decided_is_kept(
    site: Site, kind: Kind, now_ns: int
) -> None:
    old = kind.add(site)
    site.file_clock = lambda: now_ns
    done: list[Call] = []

    def before(call: Call) -> None:
        if not done and call.operation == "flock" and call.path.endswith(".prune"):
            done.append(call)
            rewrite(site.root / old / kind.record, kind.old, kind.new)

    site.fs.before = before
    result = run(site, kind)

    assert done
    assert result.deleted_sessions == []
    assert [one.reasons for one in result.decisions] == [(Reason.CHANGED,)]
    assert old in site.sessions()


@kinds
@pytest.mark.parametrize("now_ns", [FAR_AHEAD_NS, 0])
def test_a_session_that_is_changed_just_before_it_is_renamed_is_put_back(
    site: Site, kind: Kind, now_ns: int
) -> None:
    old = kind.add(site)
    path = site.root / old / kind.record
    site.file_clock = lambda: now_ns
    before_the_rename(site, old, lambda: rewrite(path, kind.old, kind.new))
    result = run(site, kind)

    assert result.deleted_sessions == []
    assert [one.reasons for one in result.decisions] == [(Reason.CHANGED,)]
    assert old in site.sessions()
    assert kind.new in path.read_text()
    assert site.hidden() == []


@kinds
def test_a_session_whose_record_is_touched_and_says_the_same_goes(site: Site, kind: Kind) -> None:
    old = kind.add(site)
    path = site.root / old / kind.record
    site.file_clock = lambda: FAR_AHEAD_NS
    before_the_rename(site, old, lambda: os.utime(path, (1, 1)))
    assert run(site, kind).deleted_sessions == [old]
    assert calls_about(site, kind) == ["open", "stat", "stat", "open"]


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
