"""The trash: what went can come back, until its time is over."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agentforge_sessions.prune import (
    Disposal,
    InvalidRetentionPolicy,
    NotInTrash,
    PruneResult,
    PruneRootMissing,
    PruneRootUnusable,
    RetentionPolicy,
    SessionInTheWay,
    TrashRecord,
    list_trash,
    list_unrecorded,
    prepare_root,
    prune,
    restore_from_trash,
)
from agentforge_sessions.prune.audit_reserve import RESERVE_NAME
from agentforge_sessions.sandbox import SandboxTarget
from tests.support.filesystem import Buffers, FaultyFileSystem, nth_of
from tests.support.prune_sites import Site, below, tree_of, uuid_of

OLD = RetentionPolicy(max_age_hours=24)
WEEK = timedelta(days=7)


def run(site: Site, grace: timedelta | None = WEEK, **options: Any) -> PruneResult:
    return prune(
        SandboxTarget(site.root),
        OLD,
        disposal=Disposal(grace=grace),
        outside=site.outside(),
        **options,
    )


def restore(site: Site, session_id: str) -> Path:
    return restore_from_trash(SandboxTarget(site.root), session_id, outside=site.outside())


def in_trash(site: Site) -> list[str]:
    return [record.session_id for record in list_trash(site.root, outside=site.outside())]


def rename(site: Site, change: Callable[[str], str]) -> None:
    [hidden] = (site.private / "trash").iterdir()
    hidden.rename(hidden.with_name(change(hidden.name)))


def test_what_goes_is_in_the_trash_whole_and_dated(site: Site) -> None:
    old = site.add(age_hours=30)
    whole = tree_of(site.root / old)

    result = run(site)

    assert result.deleted_sessions == [old]
    assert site.sessions() == []
    [hidden] = site.hidden("trash")
    assert tree_of(site.private / "trash" / hidden) == whole
    assert list_trash(site.root) == [
        TrashRecord(
            session_id=old,
            kind="sandbox",
            trashed_at=site.clock.now,
            purge_after=site.clock.now + WEEK,
            size_bytes=result.reclaimed_bytes,
        )
    ]
    assert [line["event"] for line in site.audit()] == ["removing", "trashed"]
    assert site.audit()[0]["trash"] is True


def test_a_session_comes_back_as_it_was(site: Site) -> None:
    old = site.add(age_hours=30)
    (site.root / old / "link").symlink_to("/etc")
    os.chmod(site.root / old / "data.txt", 0o640)
    whole = below(tree_of(site.root), old)
    run(site)

    assert restore(site, old) == site.root / old

    assert below(tree_of(site.root), old) == whole
    assert site.hidden("trash") == []
    assert in_trash(site) == []
    assert site.events()[-1] == ("restored", old)


def test_what_came_back_is_as_old_as_it_was(site: Site) -> None:
    old = site.add(age_hours=30)
    run(site)
    restore(site, old)
    assert run(site).deleted_sessions == [old]


def test_the_trash_is_emptied_once_its_time_is_over_and_not_before(site: Site) -> None:
    old = site.add(age_hours=30)
    run(site)

    site.clock.advance(WEEK.total_seconds() - 1)
    assert run(site).purged_sessions == []
    assert in_trash(site) == [old]

    site.clock.advance(1)
    result = run(site)
    assert result.purged_sessions == [old]
    assert result.deleted_sessions == []
    assert site.hidden("trash") == []
    assert site.events()[-2:] == [("purging", old), ("purged", old)]
    with pytest.raises(NotInTrash):
        restore(site, old)


def test_a_dry_run_names_what_the_run_purges_and_purges_nothing(site: Site) -> None:
    old = site.add(age_hours=30)
    run(site)
    site.clock.advance(WEEK.total_seconds() + 1)
    before = tree_of(site.top)
    named = run(site, dry_run=True)
    assert tree_of(site.top) == before
    assert "1 would leave the trash" in str(named)
    assert named.purged_sessions == run(site).purged_sessions == [old]


def test_a_prune_without_a_trash_keeps_to_the_time_that_was_promised(site: Site) -> None:
    first = site.add(age_hours=30)
    run(site)
    second = site.add(age_hours=30)

    assert run(site, None).deleted_sessions == [second]

    assert in_trash(site) == [first]


@pytest.mark.parametrize("grace", [timedelta(0), timedelta(microseconds=1)])
def test_a_short_time_is_over_at_the_next_prune(site: Site, grace: timedelta) -> None:
    old = site.add(age_hours=30)
    run(site, grace)
    assert in_trash(site) == [old]
    site.clock.advance(1)
    assert run(site).purged_sessions == [old]


def test_a_time_longer_than_there_are_dates_never_ends(site: Site) -> None:
    old = site.add(age_hours=30)
    assert run(site, timedelta.max).deleted_sessions == [old]
    site.clock.now = datetime(9990, 1, 1, tzinfo=UTC)
    run(site)
    assert restore(site, old).is_dir()


def test_a_time_before_now_is_refused(site: Site) -> None:
    old = site.add(age_hours=30)
    with pytest.raises(InvalidRetentionPolicy, match="grace"):
        run(site, timedelta(microseconds=-1))
    assert site.sessions() == [old]


# ---------------------------------------------------------------- restoring


def test_a_session_whose_name_is_taken_stays_in_the_trash(site: Site) -> None:
    old = site.add(age_hours=30)
    run(site)
    for plant in (Path.mkdir, Path.touch, os.mkfifo, lambda path: path.symlink_to("nowhere")):
        plant(site.root / old)
        before = tree_of(site.top)
        with pytest.raises(SessionInTheWay) as caught:
            restore(site, old)
        assert (caught.value.session_id, caught.value.path) == (old, site.root / old)
        assert tree_of(site.top) == before
        (site.root / old).rmdir() if (site.root / old).is_dir() else (site.root / old).unlink()
    assert restore(site, old).is_dir()


def test_of_several_of_one_id_the_last_comes_back_first(site: Site) -> None:
    name = uuid_of(7)
    for content in (b"first", b"second", b"third"):
        site.add(age_hours=30, session_id=name, files={"file": content})
        run(site)
        site.clock.advance(60)
    assert in_trash(site) == [name] * 3

    for content in (b"third", b"second", b"first"):
        where = restore(site, name)
        assert (where / "file").read_bytes() == content
        where.rename(site.top / content.decode())
    with pytest.raises(NotInTrash):
        restore(site, name)


@pytest.mark.parametrize(
    "name", [uuid_of(99), "", ".", "..", "../beside", "x~1", "a/b", "nul\0", ".prune", "n" * 300]
)
def test_what_is_not_in_the_trash_is_told(site: Site, name: str) -> None:
    site.add(age_hours=30)
    run(site)
    before = tree_of(site.top)
    with pytest.raises(NotInTrash) as caught:
        restore(site, name)
    assert (caught.value.session_id, caught.value.path) == (name, site.root)
    assert tree_of(site.top) == before


def test_a_root_without_a_trash_and_no_root(site: Site) -> None:
    assert list_trash(site.root) == []
    with pytest.raises(NotInTrash):
        restore(site, uuid_of(1))
    with pytest.raises(PruneRootMissing):
        list_trash(site.top / "missing")


@pytest.mark.parametrize("operation", ["rename", "fsync"])
def test_a_restore_that_fails_leaves_the_session_where_it_was(site: Site, operation: str) -> None:
    """Or in its place: never nowhere, and never twice."""
    old = site.add(age_hours=30)
    run(site)
    for number in range(5):
        site.fs.begin(nth_of(operation, number, errno.EIO))
        with suppress(PruneRootUnusable):
            restore(site, old)
        site.fs.begin()
        in_root = site.sessions() == [old]
        assert in_root != bool(site.hidden("trash"))
        if in_root:
            run(site)
    assert in_trash(site) == [old]


# ---------------------------------------------------------------- records


@pytest.mark.parametrize(
    "times",
    [
        "",
        ".",
        "sandbox.1.2",
        "sandbox.1.2.3.json",
        "sandbox.-1.2.3",
        "SANDBOX.1.2.3",
        "sandbox.1.2.g",
        f"sandbox.1.{'f' * 20}.3",
        "sandbox.1.2.3~",
        "sandbox. 1.2.3",
    ],
)
def test_what_is_not_dated_is_never_purged(site: Site, times: str) -> None:
    old = site.add(age_hours=30)
    run(site)
    rename(site, lambda name: f"{name.partition('.')[0]}.{times}")
    before = site.hidden("trash")
    site.clock.advance(10 * WEEK.total_seconds())

    result = run(site)

    assert result.purged_sessions == []
    assert in_trash(site) == []
    assert site.hidden("trash") == before
    rename(site, lambda name: name.partition(".")[0])
    assert restore(site, old).is_dir()


def test_a_session_whose_times_are_lost_comes_back(site: Site) -> None:
    old = site.add(age_hours=30)
    run(site)
    rename(site, lambda name: name.partition(".")[0])
    assert list_unrecorded(site.root) == [old]
    assert restore(site, old).is_dir()
    assert site.hidden("trash") == []


def test_times_in_the_trash_are_exact(site: Site) -> None:
    site.clock.now = datetime(2026, 3, 1, 4, 5, 6, 789_012, tzinfo=UTC)
    site.add(age_hours=30)
    run(site, timedelta(microseconds=1))
    [record] = list_trash(site.root)
    assert record.trashed_at == site.clock.now
    assert record.purge_after == site.clock.now + timedelta(microseconds=1)


# ---------------------------------------------------------------- faults


class FullTrash(FaultyFileSystem):
    """A full disk: its trash has room for one more name, and the audit log has its reserve only."""

    def __init__(self) -> None:
        super().__init__()
        self.names_left = 1

    def _full(self, path: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)

    def writev(self, fd: int, buffers: Buffers) -> int:
        if not self.names.get(fd, "?").endswith(RESERVE_NAME):
            self._full(self.names.get(fd, "?"))
        return super().writev(fd, buffers)

    def rename(
        self, source: str, target: str, *, src_dir_fd: int | None, dst_dir_fd: int | None
    ) -> None:
        if "~" in target:
            if not self.names_left:
                self._full(target)
            self.names_left -= 1
        super().rename(source, target, src_dir_fd=src_dir_fd, dst_dir_fd=dst_dir_fd)


def test_what_a_full_trash_has_no_room_for_stays_and_the_reason_is_told(site: Site) -> None:
    old = [site.add(age_hours=40 - number) for number in range(3)]
    prepare_root(site.root)
    site.fs = FullTrash()

    result = run(site)

    assert result.deleted_sessions == old[:1]
    assert list(result.errors) == old[1:]
    assert site.sessions() == old[1:]
    for why in result.errors.values():  # the log is not what hinders it
        assert "it could not be moved" in why
        assert os.strerror(errno.ENOSPC) in why
        assert "audit log" not in why


def test_what_can_not_be_purged_stays_and_is_told(site: Site) -> None:
    old = [site.add(age_hours=30), site.add(age_hours=30)]
    run(site)
    site.clock.advance(WEEK.total_seconds())
    site.fs.begin(
        lambda _, call: (
            errno.EPERM
            if call.operation == "unlink"
            and f"trash/{old[0]}" in call.path
            and call.path.endswith("data.txt")
            else None
        )
    )

    result = run(site)

    assert result.purged_sessions == [old[1]]
    assert list(result.errors) == [old[0]]
    assert "stays in the trash" in result.errors[old[0]]
    site.fs.begin()
    assert run(site).purged_sessions == [old[0]]


def test_nothing_is_purged_that_the_audit_log_does_not_know(site: Site) -> None:
    old = site.add(age_hours=30)
    run(site)
    site.clock.advance(WEEK.total_seconds())
    for operation in ("writev", "fsync"):
        site.fs.begin(
            lambda _, call, operation=operation: (
                errno.EIO
                if call.operation == operation and call.path.endswith("audit.jsonl")
                else None
            )
        )
        result = run(site)
        assert result.purged_sessions == []
        assert "audit log" in result.errors[old]
        assert in_trash(site) == [old]
