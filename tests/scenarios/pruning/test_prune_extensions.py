"""Pruning session workspaces by other rules than age, into archives, a part at a time."""

from __future__ import annotations

import errno
import hashlib
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from attrs import evolve

from agentforge_sessions.prune import (
    InvalidRetentionPolicy,
    PruneEnvironment,
    PruneResult,
    PruneRootUnusable,
    RetentionPolicy,
    SessionInTheWay,
)
from agentforge_sessions.prune.domain import Reason
from agentforge_sessions.prune.policy import GIB
from agentforge_sessions.sandbox import prune_sessions
from agentforge_sessions.sandbox.prune_target import archive_sessions, restore_session
from tests.support.filesystem import nth_of
from tests.support.prune_sites import Site, outside_of, size_of, tree_of
from tests.support.recorder import Recorder


def prune(site: Site, policy: RetentionPolicy, **options: object) -> PruneResult:
    return prune_sessions(
        workspace_root=site.root,
        policy=policy,
        outside=site.outside(),
        **options,  # type: ignore[arg-type]
    )


# ---------------------------------------------------------------- rules


def test_scenario_retention_policy_keeps_a_total_size(site: Site) -> None:
    names = [site.add(age_hours=9 - age, files={"f": b"x" * 1_000}) for age in range(5)]
    sizes = [size_of(site.root / name) for name in names]

    result = prune(site, RetentionPolicy(max_total_bytes=sum(sizes[2:])))

    assert result.deleted_sessions == names[:2]
    assert prune(site, RetentionPolicy(max_total_bytes=sum(sizes[2:]))).deleted_sessions == []
    assert prune(site, RetentionPolicy(max_total_bytes=sum(sizes[2:]) - 1)).deleted_sessions == [
        names[2]
    ]


def test_scenario_retention_policy_keeps_space_free(site: Site) -> None:
    names = [site.add(age_hours=9 - age, files={"f": b"x" * 8_192}) for age in range(4)]
    room = sum(
        (Path(here) / name).lstat().st_blocks * 512
        for here, below, files in os.walk(site.root / names[0])
        for name in (*below, *files)
    )
    policy = RetentionPolicy(min_free_space_gb=1)
    for free, gone in ((GIB, 0), (GIB - 1, 1), (GIB - room, 1), (GIB - room - 1, 2), (0, 4)):
        outside = evolve(site.outside(), free_bytes=lambda _, free=free: free)
        result = prune_sessions(
            workspace_root=site.root, policy=policy, dry_run=True, outside=outside
        )
        assert result.deleted_sessions == names[:gone], free


def test_scenario_an_invalid_policy_deletes_nothing(site: Site, recorder: Recorder) -> None:
    site.add(age_hours=99)
    before = tree_of(site.top)
    for hours in (-1, float("nan"), float("inf"), True, "24"):
        with pytest.raises(InvalidRetentionPolicy):
            prune_sessions(hours, site.root, logger=recorder, outside=site.outside())  # type: ignore[arg-type]
    for most in (-1, 1.5, True, "3"):
        with pytest.raises(InvalidRetentionPolicy):
            prune_sessions(0, site.root, max_deletions=most, outside=site.outside())  # type: ignore[arg-type]
    assert tree_of(site.top) == before
    assert recorder.told == []


def test_scenario_what_names_no_age_or_two_is_refused(site: Site, recorder: Recorder) -> None:
    site.add(age_hours=99)
    before = tree_of(site.top)
    with pytest.raises(InvalidRetentionPolicy, match=r"older_than_hours: expected a number.*None"):
        prune_sessions(None, site.root, logger=recorder, outside=site.outside())  # type: ignore[arg-type]
    with pytest.raises(InvalidRetentionPolicy, match=r"older_than_hours: expected a number.*None"):
        archive_sessions(None, site.top / "archives", site.root)  # type: ignore[arg-type]
    for hours in (24, 24.0, 5, None):
        with pytest.raises(InvalidRetentionPolicy, match="beside a policy"):
            prune_sessions(
                hours,  # type: ignore[arg-type]
                site.root,
                logger=recorder,
                policy=RetentionPolicy(max_sessions=0),
                outside=site.outside(),
            )
    assert tree_of(site.top) == before
    assert recorder.told == []


def test_scenario_an_empty_workspace_root_is_none(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of a variable that is not set; the working directory is not meant."""
    site.add(age_hours=99)
    monkeypatch.chdir(site.root)
    before = tree_of(site.top)
    for act in (
        lambda: prune_sessions(24, ""),
        lambda: archive_sessions(24, site.top / "archives", ""),
        lambda: restore_session(site.top / "x.tar.zst", ""),
    ):
        with pytest.raises(PruneRootUnusable, match="workspace_root is empty"):
            act()
    assert tree_of(site.top) == before


def test_scenario_several_prunes_at_once_take_what_the_others_leave(site: Site) -> None:
    names = [site.add(age_hours=90 - age) for age in range(40)]
    start = threading.Barrier(3)

    def one(_: int) -> PruneResult:
        start.wait()
        return prune_sessions(24, site.root, outside=PruneEnvironment(clock=site.clock))

    with ThreadPoolExecutor(3) as threads:
        results = list(threads.map(one, range(3)))

    assert sorted(name for result in results for name in result.deleted_sessions) == names
    assert all(result.errors == {} for result in results)
    assert site.sessions() == []


@pytest.mark.parametrize("policys", [None, 2, 5])
def test_scenario_max_deletions_takes_the_oldest_and_leaves_the_rest_for_the_next_time(
    site: Site, policys: int | None
) -> None:
    names = [site.add(age_hours=90 - age) for age in range(5)]
    policy = RetentionPolicy(max_age_hours=24, max_deletions=policys)
    most = 3 if policys is None else min(3, policys)

    result = prune(site, policy, max_deletions=3)

    assert result.deleted_sessions == names[:most]
    waiting = [one.candidate.session_id for one in result.decisions if not one.remove]
    assert waiting == names[most:]
    assert {one.reasons for one in result.decisions if not one.remove} == {(Reason.LIMIT,)}
    assert prune(site, policy, max_deletions=0).deleted_sessions == []
    assert prune(site, policy, max_deletions=9).deleted_sessions == (
        names[most:] if policys is None else names[most : most + policys]
    )


# ---------------------------------------------------------------- archives


def archive(site: Site, hours: float = 24, **options: object) -> PruneResult:
    return archive_sessions(
        hours,
        site.top / "archives",
        site.root,
        outside=site.outside(),
        **options,  # type: ignore[arg-type]
    )


def test_scenario_archive_sessions_and_restore_one(site: Site, recorder: Recorder) -> None:
    old = [site.add(age_hours=99), site.add(age_hours=98, files={"a/b/c": b"c" * 99_999})]
    site.add(age_hours=1)
    before = tree_of(site.root)

    result = archive(site, logger=recorder)

    assert result.deleted_sessions == old
    assert list(result.archives) == old
    for name in old:
        kept = Path(result.archives[name])
        assert kept.parent == site.top / "archives"
        assert kept.name == f"sandbox-{name}-20260301T093000Z.tar.zst"
        checksum = hashlib.sha256(kept.read_bytes()).hexdigest()
        assert kept.with_name(kept.name + ".sha256").read_text() == f"{checksum}  {kept.name}\n"
        assert kept.stat().st_mode & 0o777 == 0o600
        assert restore_session(kept, site.root, outside=site.outside()) == site.root / name
    assert outside_of(tree_of(site.root), [".prune"]) == before
    assert recorder.names("warning") == []
    with pytest.raises(SessionInTheWay):
        restore_session(result.archives[old[0]], site.root, outside=site.outside())


def test_scenario_a_dry_run_archives_nothing(site: Site) -> None:
    site.add(age_hours=99)
    before = tree_of(site.top)

    result = archive(site, dry_run=True)

    assert len(result.deleted_sessions) == 1
    assert result.archives == {}
    assert tree_of(site.top) == before


def test_scenario_a_session_that_can_not_be_archived_is_kept_and_others_go(site: Site) -> None:
    old = [site.add(age_hours=99 - number) for number in range(3)]
    whole = tree_of(site.root / old[0])
    site.fs.plan = nth_of("writev", 0, errno.ENOSPC)

    result = archive(site)

    assert result.deleted_sessions == old[1:]
    assert list(result.errors) == [old[0]]
    assert "could not be archived, so it was kept" in result.errors[old[0]]
    assert os.strerror(errno.ENOSPC) in result.errors[old[0]]
    assert tree_of(site.root / old[0]) == whole
    assert len(os.listdir(site.top / "archives")) == 4


# ---------------------------------------------------------------- the trash
