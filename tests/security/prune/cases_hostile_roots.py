"""A prune of a hostile root removes what it should, and touches nothing else."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import timedelta
from errno import EACCES, EIO
from pathlib import Path

import pytest

from agentforge_sessions.prune import (
    PruneEnvironment,
    PruneError,
    PruneResult,
    PruneRootMissing,
    PruneRootUnusable,
    read_audit,
)
from agentforge_sessions.sandbox import prune_sessions
from tests.support import hostile_roots
from tests.support.filesystem import FaultyFileSystem
from tests.support.hostile_roots import GOES, REFUSED, RESISTS, STAYS, HostileRoot, snapshot
from tests.support.soak import SOAKING

pytestmark = pytest.mark.timeout(600 if SOAKING else 120)

MODES = {"removed": None, "trashed": timedelta(days=1)}


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[HostileRoot]:
    with ExitStack() as stack:
        yield HostileRoot(tmp_path, stack)


class Watched:
    """Prunes a hostile root and compares all that must not have changed, whole."""

    def __init__(self, hostile: HostileRoot) -> None:
        self.hostile = hostile
        self.outside = snapshot(hostile.outside)
        self.young = snapshot(hostile.root / hostile.young)
        self.whole = self.visible()
        self.planted = {name: self.whole[name] for name in hostile.planted}

    def visible(self) -> dict[str, dict[str, tuple[object, ...]]]:
        root = self.hostile.root
        return {name: snapshot(root / name) for name in os.listdir(root) if name != ".prune"}

    def prune(self, **options: object) -> PruneResult:
        result = prune_sessions(24, self.hostile.root, **options)  # type: ignore[arg-type]
        assert snapshot(self.hostile.outside) == self.outside
        assert snapshot(self.hostile.root / self.hostile.young) == self.young
        return result

    def dry_run(self) -> PruneResult:
        before = snapshot(self.hostile.root)
        result = self.prune(dry_run=True)
        assert snapshot(self.hostile.root) == before
        return result

    def refuses(self, **options: object) -> None:
        with pytest.raises(PruneError) as caught:
            prune_sessions(24, self.hostile.root, **options)  # type: ignore[arg-type]
        assert str(self.hostile.root) in str(caught.value)
        assert snapshot(self.hostile.outside) == self.outside
        assert self.visible() == self.whole


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", STAYS)
def test_what_is_no_old_session_stays_as_it_was(hostile: HostileRoot, case: str, mode: str) -> None:
    STAYS[case](hostile)
    watched = Watched(hostile)
    shown = watched.dry_run()
    for again in (False, True):
        result = watched.prune(trash_for=MODES[mode])
        assert result.deleted_sessions == ([] if again else [hostile.old])
        assert dict(result.errors) == {}
        visible = watched.visible()
        assert {name: visible[name] for name in hostile.planted} == watched.planted
        assert set(visible) == {hostile.young, *hostile.planted}
    assert shown.deleted_sessions == [hostile.old]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", GOES)
def test_an_old_session_goes_whatever_it_holds(hostile: HostileRoot, case: str, mode: str) -> None:
    GOES[case](hostile)
    watched = Watched(hostile)
    shown = watched.dry_run()
    result = watched.prune(trash_for=MODES[mode])
    assert sorted(result.deleted_sessions) == sorted([hostile.old, *hostile.planted])
    assert result.deleted_sessions == shown.deleted_sessions
    assert result.reclaimed_bytes == shown.reclaimed_bytes
    assert dict(result.errors) == {}
    assert set(watched.visible()) == {hostile.young}
    if mode == "removed":
        assert os.listdir(hostile.root / ".prune" / "going") == []
    again = watched.prune(trash_for=MODES[mode])
    assert again.deleted_sessions == []


@pytest.mark.parametrize("case", RESISTS)
def test_what_resists_is_reported_and_everything_else_goes(hostile: HostileRoot, case: str) -> None:
    RESISTS[case](hostile)
    watched = Watched(hostile)
    watched.dry_run()
    for again in (False, True):
        result = watched.prune()
        assert list(result.errors) == [hostile_roots.name_of(hostile_roots.FIFTY)]
        assert result.deleted_sessions == ([] if again else [hostile.old])
        visible = watched.visible()
        assert set(visible) <= {hostile.young, *hostile.planted}
        for name in visible:  # whole, or out of sight
            assert visible[name].keys() == watched.whole[name].keys()


@pytest.mark.parametrize("case", REFUSED)
def test_nothing_is_pruned_through_something_planted_in_the_private_directory(
    hostile: HostileRoot, case: str
) -> None:
    REFUSED[case](hostile)
    watched = Watched(hostile)
    trash = "trash" in case
    for _ in range(2):
        watched.refuses(trash_for=timedelta(days=1) if trash else None)
    try:
        watched.dry_run()
    except PruneError:
        assert watched.visible() == watched.whole


@pytest.mark.parametrize("kind", ["going", "coming", "trash"])
def test_what_is_planted_out_of_sight_leads_nowhere(hostile: HostileRoot, kind: str) -> None:
    hostile_roots.plant_on_its_way(hostile, kind)
    watched = Watched(hostile)
    watched.dry_run()
    result = watched.prune()
    assert result.deleted_sessions == [hostile.old]
    left = os.listdir(hostile.root / ".prune" / kind)
    if kind != "trash":
        assert left == []
    else:
        assert not [name for name in left if name.endswith(".sandbox.1.2.1")]
    assert set(watched.visible()) == {hostile.young}
    for line in read_audit(hostile.root / ".prune" / "audit.jsonl"):
        str(line["session_id"]).encode("utf-8")  # can be shown
    for shown in (*result.finished_sessions, *result.purged_sessions, *result.errors):
        shown.encode("utf-8")


def test_what_resists_out_of_sight_can_be_told_whatever_its_name(hostile: HostileRoot) -> None:
    place = hostile.private("going", "\udcff\n~1")
    (place / "file").write_text("x")
    hostile.freeze(place / "file")
    watched = Watched(hostile)
    result = watched.prune()
    assert result.deleted_sessions == [hostile.old]
    assert len(result.errors) == 1
    for shown, why in result.errors.items():
        (shown + why).encode("utf-8")


DEPTH = 5_000
ENTRIES = 100_000 if SOAKING else 1_000
SKIPPED = 20_000 if SOAKING else 600


def test_a_tree_deeper_than_any_path_goes(hostile: HostileRoot) -> None:
    hostile_roots.deep(DEPTH)(hostile.hostile(), hostile)
    outside = snapshot(hostile.outside)
    result = prune_sessions(24, hostile.root)
    assert len(result.deleted_sessions) == 2
    assert dict(result.errors) == {}
    assert os.listdir(hostile.root / ".prune" / "going") == []
    assert snapshot(hostile.outside) == outside


def test_a_directory_of_many_entries_goes(hostile: HostileRoot) -> None:
    hostile_roots.wide(ENTRIES)(hostile.hostile(), hostile)
    watched = Watched(hostile)
    assert len(watched.prune().deleted_sessions) == 2


def test_thousands_of_skipped_entries_are_each_named_once(hostile: HostileRoot) -> None:
    for number in range(1_000, 1_000 + SKIPPED):
        path = hostile.root / hostile_roots.name_of(number)
        if number % 3:
            path.mkdir()
        else:
            path.symlink_to(hostile.outside)
    watched = Watched(hostile)
    result = watched.prune()
    assert result.deleted_sessions == [hostile.old]
    assert len(result.skipped_sessions) == len(set(result.skipped_sessions)) == SKIPPED
    assert len(os.listdir(hostile.root)) == SKIPPED + 2


# -------------------------------------------------------------------------------------------- roots


def test_a_missing_root_is_said_to_be_missing(tmp_path: Path) -> None:
    for root in (tmp_path / "no", tmp_path / "no" / "way", Path("")):
        if root == Path(""):
            continue
        with pytest.raises(PruneRootMissing) as caught:
            prune_sessions(24, root)
        assert caught.value.path == root
    assert os.listdir(tmp_path) == []


def _link(target: str) -> object:
    return lambda path: path.symlink_to(target)


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda path: path.write_text("x"), id="a file"),
        pytest.param(hostile_roots.fifo, id="a FIFO"),
        pytest.param(hostile_roots.sock, id="a socket"),
        pytest.param(hostile_roots.device, id="a device"),
        pytest.param(_link("nothing"), id="a dangling link"),
        pytest.param(_link("root"), id="a link to itself"),
        pytest.param(_link("a file"), id="a link to a file"),
    ],
)
def test_a_root_that_is_no_directory_is_refused(tmp_path: Path, make: object) -> None:
    (tmp_path / "a file").write_text("x")
    make(tmp_path / "root")  # type: ignore[operator]
    before = snapshot(tmp_path)
    for dry_run in (True, False):
        with pytest.raises((PruneRootMissing, PruneRootUnusable)):
            prune_sessions(24, tmp_path / "root", dry_run=dry_run)
    assert snapshot(tmp_path) == before


@pytest.mark.parametrize("name", ["\0", "x" * 300, "x/" * 3_000, "\udcff", "surrogate \ud800"])
def test_a_root_with_an_impossible_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(PruneError):
        prune_sessions(24, tmp_path / name)


def test_a_root_may_be_a_link_to_a_directory(hostile: HostileRoot) -> None:
    watched = Watched(hostile)
    link = hostile.top / "link"
    link.symlink_to(hostile.root)
    assert prune_sessions(24, link).deleted_sessions == [hostile.old]
    assert set(watched.visible()) == {hostile.young}
    assert link.is_symlink()


@pytest.mark.parametrize("number", [EACCES, EIO])
@pytest.mark.parametrize("operation", ["open", "listdir"])
def test_a_root_that_cannot_be_read_is_refused(
    hostile: HostileRoot, operation: str, number: int
) -> None:
    watched = Watched(hostile)
    root = str(hostile.root)
    fs = FaultyFileSystem(
        plan=lambda _, call: number if (call.operation, call.path) == (operation, root) else None
    )
    with pytest.raises(PruneRootUnusable):
        prune_sessions(24, hostile.root, outside=PruneEnvironment(fs=fs))
    assert watched.visible() == watched.whole
    assert fs.open_descriptors == {}
