"""A snapshot after others is what one from the beginning is, whatever changed in between."""

from __future__ import annotations

import os
import random
import shutil
from array import array
from pathlib import Path

import pytest

from agentforge_sessions.repository.errors import SnapshotRefused
from agentforge_sessions.repository.snapshots.folder_look import FolderLook
from agentforge_sessions.repository.snapshots.snapshots import Snapshots
from agentforge_sessions.repository.snapshots.workspace_memory import (
    FILE,
    WorkspaceMemory,
    read_memory,
    write_memory,
)
from tests.support.repositories import plain_git, write_files
from tests.support.trees import tree_of


def tree_after(snapshots: Snapshots) -> str:
    taken = snapshots.take("x")
    assert taken is not None
    assert snapshots.tree_now() == taken.tree
    return taken.tree


def tree_anew(workspace: Path, place: Path) -> str:
    """The tree of a workspace as git itself writes it."""
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    plain_git(place, "init", "-q")
    there = (f"--git-dir={place}/.git", f"--work-tree={workspace}")
    plain_git(workspace, *there, "add", "-A", "-f", ".")
    return plain_git(place, "write-tree").stdout.decode().strip()


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


def change_something(path: Path, chance: random.Random) -> None:
    if path.parent.is_symlink() or path.parent.is_file():
        remove(path.parent)
    if chance.randrange(3):
        make_something(path, chance)
    else:
        remove(path)


@pytest.mark.parametrize("seed", range(4))
def test_whatever_changes_between_two_snapshots_is_in_the_second(
    snapshots: Snapshots, workspace: Path, tmp_path: Path, seed: int
) -> None:
    chance = random.Random(seed)
    names = ["a", "b", "folder/c", "folder/d", "e"]
    for _ in range(6):
        for _ in range(chance.randrange(4)):
            change_something(workspace / chance.choice(names), chance)
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
            change_something(workspace / chance.choice(names), chance)
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


def test_a_memory_that_is_damaged_missing_or_old_misleads_nobody(
    snapshots: Snapshots, workspace: Path, tmp_path: Path
) -> None:
    write_files(workspace, {"a": "1", "b": "1"})
    place = snapshots.repository.directory / FILE
    first = tree_after(snapshots)
    old = place.read_bytes()
    write_files(workspace, {"a": "2"})
    second = tree_after(snapshots)
    assert second != first
    newer = place.read_bytes()
    others = newer.replace(second.encode(), first.encode())
    assert others != newer
    for wrong in (b"", b"x", b"{}\n", others, old, old[:-1], newer[:-1], newer[:40], newer + b"x"):
        place.write_bytes(wrong)
        assert tree_after(snapshots) == second
    place.unlink()
    assert tree_after(snapshots) == second
    shutil.rmtree(tmp_path / "session" / "workspace")
    workspace.mkdir()
    assert tree_after(snapshots) == tree_anew(workspace, tmp_path / "anew")


SECOND = 1_000_000_000
NOW = 1_700_000_000 * SECOND + 7


def looking(path: bytes, times: dict[bytes, int], changed_ns: int) -> FolderLook:
    """Return a look at a folder whose files changed at these times."""
    split = [divmod(moment, SECOND) for moment in times.values()]
    columns = [
        [3] * len(split),
        [5] * len(split),
        *([one[at] for one in split] for at in (0, 1)),
        [0o100644 << 32] * len(split),
    ]
    numbers = array("Q", [number for column in columns for number in column])
    mark = (1, 2, 3, *divmod(changed_ns, SECOND))
    return FolderLook(path, 0o40755, mark, b"\0".join(times), numbers, 7, (b"below", b"more"))


def test_a_memory_is_of_what_was_looked_at_long_enough_after_its_change(tmp_path: Path) -> None:
    times = {
        b"old": NOW - SECOND,
        b"just now": NOW - 1_000_000,
        b"in the future": NOW + SECOND,
        b"old, of whole seconds": NOW - 7 - 60 * SECOND,
        b"of whole seconds": NOW - 7 - SECOND,
    }
    looks = {
        b"": looking(b"", times, NOW - SECOND),
        b"new": looking(b"new", {}, NOW - 5),
        b"old": looking(b"old", {b"x\n\xff": NOW - SECOND}, NOW - 7 - 60 * SECOND),
    }
    path = tmp_path / "memory"
    memory = WorkspaceMemory("t", b"manifest", looks)
    measures = (6, 1, 1, 1, 1, 1)
    write_memory(path, memory, measures=measures, looked_at_ns=NOW)
    found = read_memory(path, measures)
    assert found is not None
    assert (found.tree, found.manifest, list(found.looks)) == ("t", b"manifest", list(looks))
    then = found.looks[b""].by_name()
    kept = {name for name, look in looks[b""].by_name().items() if then[name] == look}
    assert kept == {b"old", b"old, of whole seconds"}
    marks = [found.looks[one].mark == looks[one].mark for one in looks]
    assert marks == [True, False, True]
    assert found.looks[b"old"].holds_the_same(looks[b"old"])
    assert found.looks[b"old"].below == (b"below", b"more")
    assert read_memory(path, (6, 1, 1, 1, 1, 0)) is None
    write_memory(tmp_path / "no" / "folder", memory, measures=measures, looked_at_ns=NOW)


@pytest.mark.parametrize("at", [0, 9, 60, 200, -1])
def test_a_memory_of_which_a_byte_is_another_is_not_believed(tmp_path: Path, at: int) -> None:
    path = tmp_path / "memory"
    looks = {b"": looking(b"", {b"a": NOW - SECOND}, NOW - SECOND)}
    write_memory(path, WorkspaceMemory("t", b"m", looks), measures=(1,) * 6, looked_at_ns=NOW)
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)
    assert read_memory(path, (1,) * 6) is None


def test_after_all_snapshots_are_removed_the_next_one_is_whole(
    snapshots: Snapshots, workspace: Path
) -> None:
    write_files(workspace, {"a": "1", "b": "1"})
    taken = snapshots.take("x")
    assert taken is not None
    assert snapshots.remove([taken.id]) == [taken.id]
    assert not (snapshots.repository.directory / FILE).exists()
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
    loose = snapshots.repository.directory / "objects" / taken.id[:2] / taken.id[2:]
    assert loose.exists()
    assert snapshots.pack(many=-1)
    assert not loose.exists()
    assert snapshots.take("y") == taken
    loose.parent.mkdir(exist_ok=True)
    loose.write_bytes(b"damaged")
    again = snapshots.take("y")
    assert again is not None
    assert again.state == taken.state


def test_what_is_refused_is_refused_again(snapshots: Snapshots, workspace: Path) -> None:
    write_files(workspace, {"a": "1"})
    tree_after(snapshots)
    os.mkfifo(workspace / "pipe")
    for _ in range(2):
        with pytest.raises(SnapshotRefused):
            snapshots.take("x")
    (workspace / "pipe").unlink()
    tree_after(snapshots)
