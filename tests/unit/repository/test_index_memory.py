"""A snapshot after others is what one from the beginning is, whatever changed in between."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest

from agentforge_sessions.harness.session_layout import SNAPSHOTS
from agentforge_sessions.repository.index_memory import FILE, read_memory, write_memory
from agentforge_sessions.repository.snapshot_repository import SnapshotRepository
from agentforge_sessions.repository.snapshots import Snapshots
from agentforge_sessions.repository.workspace_scan import SnapshotRefused
from tests.support.repositories import write_files
from tests.support.trees import tree_of


def tree_after(snapshots: Snapshots) -> str:
    taken = snapshots.take("x")
    assert taken is not None
    assert snapshots.tree_now() == taken.tree
    return taken.tree


def tree_anew(workspace: Path, place: Path) -> str:
    """The tree of a workspace as a repository without any memory takes it."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    repository = SnapshotRepository(place / SNAPSHOTS, workspace)
    repository.make()
    return tree_after(Snapshots(repository))


def remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def make_something(path: Path, chance: random.Random) -> None:
    """Put a file, an executable, a link or a folder with a file where something else may be."""
    remove(path)
    path.parent.mkdir(exist_ok=True)
    text = chance.choice(["a", "b", "longer"])
    match chance.randrange(4):
        case 0:
            path.symlink_to(text)
        case 1:
            write_files(path, {chance.choice("xy"): text})
        case kind:
            path.write_text(text)
            path.chmod(0o755 if kind == 2 else chance.choice([0o644, 0o600]))


@pytest.mark.parametrize("seed", range(4))
def test_whatever_changes_between_two_snapshots_is_in_the_second(
    snapshots: Snapshots, workspace: Path, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    names = ["a", "b", "folder/c", "folder/d", "e"]
    for _ in range(6):
        for _ in range(chance.randrange(4)):
            path = workspace / chance.choice(names)
            if path.parent.is_symlink() or path.parent.is_file():
                remove(path.parent)
            if chance.randrange(3):
                make_something(path, chance)
            else:
                remove(path)
        assert tree_after(snapshots) == tree_anew(workspace, tmp_path / "anew")


@pytest.mark.parametrize("seed", range(4))
def test_a_workspace_of_which_little_changed_is_brought_back_whole(
    snapshots: Snapshots, workspace: Path, seed: int
) -> None:
    chance = random.Random(seed)
    write_files(workspace, {f"kept/{number}": "x" for number in range(40)})
    (workspace / "nothing").mkdir()
    names = ["a", "b", "folder/c", "folder/d", "nothing", "kept/1", "kept/1/deep"]
    known = []
    for _ in range(5):
        for _ in range(chance.randrange(1, 4)):
            path = workspace / chance.choice(names)
            if path.parent.is_symlink() or path.parent.is_file():
                remove(path.parent)
            if chance.randrange(3):
                make_something(path, chance)
            else:
                remove(path)
        taken = snapshots.take("x")
        assert taken is not None
        known.append((taken.id, tree_of(workspace)))
    untouched = (workspace / "kept" / "7").stat().st_ctime_ns
    for snapshot, tree in [chance.choice(known) for _ in range(6)]:
        (workspace / "new" / "empty").mkdir(parents=True, exist_ok=True)
        write_files(workspace, {"new/file": "n", "kept/2": "changed"})
        snapshots.restore(snapshot)
        assert tree_of(workspace) == tree
    assert (workspace / "kept" / "7").stat().st_ctime_ns == untouched


def test_a_file_that_changes_at_once_after_a_snapshot_is_in_the_next(
    snapshots: Snapshots, workspace: Path
) -> None:
    trees = set()
    for number in range(10):
        write_files(workspace, {"a": f"{number}"})
        os.utime(workspace / "a", (1, 1))
        trees.add(tree_after(snapshots))
    assert len(trees) == 10


def test_many_files_that_change_at_once_are_all_in_the_next_snapshot(
    snapshots: Snapshots, workspace: Path, tmp_path: Path
) -> None:
    for text in "123":
        write_files(workspace, {f"{number}": text for number in range(150)} | {"-x": text})
        for path in workspace.iterdir():
            os.utime(path, (1, 1))
        assert tree_after(snapshots) == tree_anew(workspace, tmp_path / "anew")


def test_a_file_that_changes_at_once_after_it_was_restored_is_in_the_next_snapshot(
    snapshots: Snapshots, workspace: Path
) -> None:
    write_files(workspace, {"a": "1"})
    os.utime(workspace / "a", (1, 1))
    first = snapshots.take("x")
    assert first is not None
    snapshots.restore(first.id)
    before = (workspace / "a").stat().st_mtime_ns
    write_files(workspace, {"a": "2"})
    os.utime(workspace / "a", ns=(before, before))
    assert tree_after(snapshots) != first.tree


def test_what_is_damaged_missing_or_of_another_index_is_not_believed(
    snapshots: Snapshots, workspace: Path, tmp_path: Path
) -> None:
    write_files(workspace, {"a": "1", "b": "1"})
    place = snapshots.repository.directory / FILE
    first = tree_after(snapshots)
    sound = place.read_bytes()
    write_files(workspace, {"a": "2"})
    second = tree_after(snapshots)
    assert second != first
    newer = place.read_bytes()
    miscounted = newer.replace(b" 2 ", b" 3 ")
    for wrong in (b"", b"x", sound, sound[:-1], newer[:-1], newer[:40], miscounted):
        place.write_bytes(wrong)
        assert tree_after(snapshots) == second
    place.unlink()
    assert tree_after(snapshots) == second
    (snapshots.repository.directory / "index").unlink()
    assert tree_after(snapshots) == second
    shutil.rmtree(tmp_path / "session" / "workspace")
    workspace.mkdir()
    assert tree_after(snapshots) == tree_anew(workspace, tmp_path / "anew")


def test_a_memory_is_of_what_was_looked_at_long_enough_after_its_change(tmp_path: Path) -> None:
    second = 1_000_000_000
    now = 1_700_000_000 * second + 7
    looks = {
        b"old": (1, 2, now - second),
        b"just now": (1, 2, now - 1_000_000),
        b"in the future": (1, 2, now + second),
        b"old, of whole seconds": (1, 2, now - 7 - 60 * second),
        b"of whole seconds": (1, 2, now - 7 - second),
    }
    path = tmp_path / "memory"
    mark = b"\1" * 20
    write_memory(path, checksum=mark, tree="t", looks=looks, looked_at_ns=now)
    found = read_memory(path, mark)
    assert found is not None
    assert found.tree == "t"
    kept = {name for name, look in looks.items() if found.looks[name] == look}
    assert kept == {b"old", b"old, of whole seconds"}
    assert read_memory(path, b"\2" * 20) is None
    assert read_memory(path, b"") is None
    write_memory(path, checksum=mark, tree="t", looks={}, looked_at_ns=now)
    empty = read_memory(path, mark)
    assert empty is not None
    assert empty.looks == {}
    write_memory(tmp_path / "no" / "folder", checksum=mark, tree="", looks={}, looked_at_ns=now)
    write_memory(path, checksum=mark, tree="t", looks={b"x": (-1, 0, 0)}, looked_at_ns=now)
    assert not empty.is_all({b"x": (-1, 0, 0)})
    still = read_memory(path, mark)
    assert still is not None
    assert still.is_all({})


def test_after_all_snapshots_are_removed_the_next_one_is_whole(
    snapshots: Snapshots, workspace: Path
) -> None:
    write_files(workspace, {"a": "1", "b": "1"})
    taken = snapshots.take("x")
    assert taken is not None
    assert snapshots.remove([taken.id]) == [taken.id]
    again = snapshots.take("y")
    assert again is not None
    snapshots.restore(again.id)
    assert (workspace / "a").read_text() == "1"


def test_an_unchanged_workspace_is_no_new_snapshot_however_the_last_one_is_kept(
    snapshots: Snapshots, workspace: Path
) -> None:
    write_files(workspace, {"a": "1"})
    taken = snapshots.take("x")
    assert taken is not None
    assert snapshots.take("y") == taken
    objects = snapshots.repository.directory / "objects"
    loose = objects / taken.id[:2] / taken.id[2:]
    assert snapshots.repository.loose_commit(taken.id) is not None
    assert snapshots.pack(many=-1)
    assert not loose.exists()
    assert snapshots.repository.loose_commit(taken.id) is None
    assert snapshots.take("y") == taken
    loose.parent.mkdir(exist_ok=True)
    loose.write_bytes(b"damaged")
    assert snapshots.repository.loose_commit(taken.id) is None


def test_what_is_refused_is_refused_again(snapshots: Snapshots, workspace: Path) -> None:
    write_files(workspace, {"a": "1"})
    tree_after(snapshots)
    os.mkfifo(workspace / "pipe")
    for _ in range(2):
        with pytest.raises(SnapshotRefused):
            snapshots.take("x")
    (workspace / "pipe").unlink()
    tree_after(snapshots)
