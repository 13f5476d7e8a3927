"""The private directory of a root: ours alone, locked, and nothing planted in its place is used."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve

from agentforge_sessions.prune import (
    Disposal,
    PruneBusy,
    PruneResult,
    PruneRootUnusable,
    RetentionPolicy,
    list_trash,
    pin,
    pinned,
    prune,
    restore_from_trash,
    unpin,
)
from agentforge_sessions.prune.audit_log import AUDIT_NAME
from agentforge_sessions.prune.removal.pins import PINS
from agentforge_sessions.prune.removal.private_directory import (
    COMING,
    GOING,
    PRIVATE,
    TRASH,
    hidden_name,
    session_of,
)
from agentforge_sessions.sandbox import SandboxTarget
from tests.support.filesystem import Call
from tests.support.prune_sites import Site, locked, outside_of, tree_of

OLD = RetentionPolicy(max_age_hours=24)
OTHER = 12_345
"""A user id that nobody here has."""


def run(site: Site, *, dry_run: bool = False, **disposal: Any) -> PruneResult:
    return prune(
        SandboxTarget(site.root),
        OLD,
        dry_run=dry_run,
        disposal=Disposal(**disposal),
        outside=site.outside(),
    )


def link_outside(path: Path) -> None:
    top = next(parent for parent in path.parents if (parent / "beside").is_dir())
    path.symlink_to(top / "beside")


def link_to_the_root(path: Path) -> None:
    path.symlink_to(next(parent for parent in path.parents if parent.name == "root"))


def dangling(path: Path) -> None:
    path.symlink_to("nowhere")


def plain_file(path: Path) -> None:
    path.write_text("somebody's")


def unix_socket(path: Path) -> None:
    here = os.open(path.parent, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(f"/proc/self/fd/{here}/{path.name}")
    os.close(here)


PLANTS = [link_outside, link_to_the_root, dangling, plain_file, os.mkfifo, unix_socket]
Plant = Callable[[Path], None]


# ---------------------------------------------------------------- made


def test_it_is_made_for_this_user_alone(site: Site) -> None:
    site.add(age_hours=30)
    site.add(age_hours=30)
    run(site, grace=timedelta(hours=1))
    for path in (site.private, *site.private.iterdir()):
        assert path.stat().st_mode & 0o077 == 0, path


def test_it_is_not_made_where_nothing_goes(site: Site) -> None:
    site.add(age_hours=1)
    before = tree_of(site.top)
    run(site)
    assert tree_of(site.top) == before


def test_its_own_name_is_none_of_a_session() -> None:
    assert not SandboxTarget().owns(".prune")
    assert session_of(hidden_name("a~b", "c")) == "a~b"


# ---------------------------------------------------------------- planted


@pytest.mark.parametrize("plant", PLANTS)
def test_what_has_its_name_is_not_used(site: Site, plant: Plant) -> None:
    site.add(age_hours=30)
    plant(site.private)
    before = tree_of(site.top)

    with pytest.raises(PruneRootUnusable) as caught:
        run(site)

    assert caught.value.path == site.root
    assert "nothing was removed" in str(caught.value)
    assert tree_of(site.top) == before


@pytest.mark.parametrize("place", [GOING, TRASH, COMING, PINS])
@pytest.mark.parametrize("plant", PLANTS)
def test_what_has_the_name_of_a_directory_in_it_is_not_used(
    site: Site, plant: Plant, place: str
) -> None:
    site.add(age_hours=30)
    site.private.mkdir(mode=0o700)
    plant(site.private / place)
    before = tree_of(site.top)

    for grace in (None, timedelta(hours=1)):
        with pytest.raises(PruneRootUnusable):
            run(site, grace=grace)

    after = outside_of(tree_of(site.top), [f"root/.prune/{AUDIT_NAME}"])
    assert after == before


def test_what_is_planted_is_found_before_anything_is_finished(site: Site) -> None:
    """The error says that nothing was removed: so nothing must have been."""
    site.add(age_hours=30)
    (site.private / GOING / "x~1" / "deep").mkdir(parents=True)
    (site.private / TRASH).write_text("planted")
    before = tree_of(site.private / GOING)

    with pytest.raises(PruneRootUnusable):
        run(site)

    assert tree_of(site.private / GOING) == before


@pytest.mark.parametrize("plant", PLANTS)
def test_pins_and_trash_are_not_read_through_what_is_planted(site: Site, plant: Plant) -> None:
    session_id = site.add(age_hours=30)
    target = SandboxTarget(site.root)
    plant(site.private)
    before = tree_of(site.top)
    outside = site.outside()
    acts: list[Callable[[], object]] = [
        lambda: pin(target, session_id, outside=outside),
        lambda: unpin(target, session_id, outside=outside),
        lambda: pinned(site.root, outside=outside),
        lambda: restore_from_trash(target, session_id, outside=outside),
        lambda: list_trash(site.root, outside=outside),
    ]
    for act in acts:
        with pytest.raises(PruneRootUnusable):
            act()
    assert tree_of(site.top) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a directory away takes root")
def test_one_that_belongs_to_another_user_is_not_used(site: Site) -> None:
    site.add(age_hours=30)
    site.private.mkdir(mode=0o777)
    os.chown(site.private, OTHER, OTHER)
    before = tree_of(site.top)

    with pytest.raises(PruneRootUnusable, match="belongs to another user"):
        run(site)

    assert tree_of(site.top) == before
    with locked(site.private):  # nobody holds on to it
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a directory away takes root")
@pytest.mark.parametrize("place", [GOING, TRASH, COMING])
def test_one_in_it_that_belongs_to_another_user_is_not_used(site: Site, place: str) -> None:
    """Whoever owns it can put in it what we would delete."""
    site.add(age_hours=30)
    (site.private / place / "theirs~1").mkdir(parents=True)
    os.chown(site.private / place, OTHER, OTHER)
    before = tree_of(site.top)

    with pytest.raises(PruneRootUnusable, match="belongs to another user"):
        run(site, grace=timedelta(hours=1) if place == TRASH else None)

    assert outside_of(tree_of(site.top), [f"root/.prune/{AUDIT_NAME}"]) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a directory away takes root")
def test_root_prunes_for_the_owner_of_the_root(site: Site) -> None:
    theirs = site.add(age_hours=30)
    site.private.mkdir(mode=0o700)
    for path in (site.root, site.private, *(site.root / theirs).rglob("*"), site.root / theirs):
        os.chown(path, OTHER, OTHER)
    ours = site.add(age_hours=30)
    third = site.add(age_hours=30)
    for path in (*(site.root / third).rglob("*"), site.root / third):
        os.chown(path, OTHER + 1, OTHER + 1)

    result = run(site)

    assert sorted(result.deleted_sessions) == [theirs, ours]
    assert result.skipped_sessions == [third]


def owners_below(path: Path) -> dict[str, tuple[int, int]]:
    return {
        os.path.relpath(one, path): (one.lstat().st_uid, one.lstat().st_gid)
        for one in (path, *path.rglob("*"))
    }


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a directory away takes root")
def test_what_root_makes_in_the_root_of_another_user_is_that_users(site: Site) -> None:
    """Else one prune as root would shut the service's own user out for good."""
    theirs = [site.add(age_hours=30), site.add(age_hours=31)]
    for path in (site.root, *site.root.rglob("*")):
        os.chown(path, OTHER, OTHER + 1)

    with locked(site.root / theirs[0]):  # it stays for the trash
        run(site)
    run(site, grace=timedelta(hours=1))
    pin(SandboxTarget(site.root), theirs[0], outside=site.outside())

    made = owners_below(site.private)
    assert {"audit.jsonl", "going", "trash", "pins"} < set(made)
    del made[f"pins/{theirs[0]}"]  # only its name counts
    assert set(made.values()) == {(OTHER, OTHER + 1)}


@pytest.mark.skipif(os.geteuid() != 0, reason="giving a directory away takes root")
def test_no_directory_of_roots_is_given_away_by_its_being_put_there(site: Site) -> None:
    site.add(age_hours=30)
    os.chown(site.root, OTHER, OTHER)
    secret = site.top / "secret"
    secret.mkdir(mode=0o700)
    (secret / "file").touch()

    def swap(call: Call) -> None:
        opened = call.operation == "open" and call.path.endswith(PRIVATE)
        if opened and secret.exists() and site.private.exists():
            site.private.rmdir()
            secret.rename(site.private)

    site.fs.before = swap
    run(site)

    assert not secret.exists()
    assert owners_below(site.private)["."] == (0, 0)


# ---------------------------------------------------------------- alone


def test_another_prune_is_waited_for_and_then_told(site: Site) -> None:
    old = site.add(age_hours=30)
    site.private.mkdir(mode=0o700)
    times = iter(range(1_000))
    slept: list[float] = []
    outside = evolve(site.outside(), monotonic=lambda: float(next(times)), sleep=slept.append)
    with locked(site.private):
        result = prune(
            SandboxTarget(site.root), OLD, disposal=Disposal(lock_timeout_s=5), outside=outside
        )
        with pytest.raises(PruneBusy) as caught:
            pin(SandboxTarget(site.root), old, outside=outside, lock_timeout_s=5)
    assert (caught.value.path, caught.value.timeout_s) == (site.root, 5)
    assert 1 <= len(slept) <= 12
    assert result.busy
    assert result.due == 1
    assert (result.deleted_sessions, result.errors) == ([], {})
    assert str(result) == (
        "Deleted 0 sessions (0 B), skipped 0, 1 more due, another prune is at work there"
    )
    assert site.sessions() == [old]
    assert run(site).deleted_sessions == [old]


def test_a_dry_run_waits_for_nobody(site: Site) -> None:
    old = site.add(age_hours=30)
    site.private.mkdir(mode=0o700)
    with locked(site.private):
        assert run(site, dry_run=True, lock_timeout_s=0).deleted_sessions == [old]


def test_a_prune_that_is_refused_lets_go_of_everything(site: Site) -> None:
    """Whatever call fails on the way to the lock, the next prune is not kept out."""
    old = site.add(age_hours=30)
    site.private.mkdir(mode=0o700)
    run(site, dry_run=True)
    first = len(site.fs.trace)
    site.fs.begin()
    for number in range(first, first + 14):
        site.fs.begin(lambda at, _, number=number: errno.EIO if at == number else None)
        with suppress(PruneRootUnusable):
            run(site)
        assert site.fs.open_descriptors == {}, site.fs.failed
        if old not in site.sessions():
            site.add(age_hours=30, session_id=old)
    site.fs.begin()
    assert run(site, lock_timeout_s=0).deleted_sessions == [old]


def test_a_root_that_is_swapped_while_it_is_opened_is_not_the_one_that_is_pruned(
    site: Site,
) -> None:
    """What was inspected is what is pruned, wherever its path leads by then."""
    old = site.add(age_hours=30)
    moved = site.top / "moved"
    swapped = False

    def swap(call: Call) -> None:
        nonlocal swapped
        if call.operation == "mkdir" and not swapped:
            swapped = True
            site.root.rename(moved)
            site.root.mkdir()
            (moved / old / ".metadata.json").stat()
            os.mkdir(site.root / old)
            (site.root / old / "new").write_text("kept")

    site.fs.before = swap
    result = run(site)

    assert swapped
    assert result.deleted_sessions == [old]
    assert (site.root / old / "new").read_text() == "kept"
    assert not (moved / old).exists()
