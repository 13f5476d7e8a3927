from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest

from agentforge_sessions.base.files import LockTimeout
from agentforge_sessions.base.files.trees import FileChange
from agentforge_sessions.harness.session_layout import SNAPSHOTS
from agentforge_sessions.repository import GitUnavailable, UserRepository
from agentforge_sessions.repository.errors import SnapshotRefused
from agentforge_sessions.repository.git.git_command import Git
from agentforge_sessions.repository.snapshots.snapshot_repository import (
    NoSnapshots,
    SnapshotRepository,
)
from agentforge_sessions.repository.snapshots.snapshot_restore import RestoreFailed
from agentforge_sessions.repository.snapshots.snapshots import SnapshotMissing, Snapshots
from agentforge_sessions.repository.snapshots.workspace_scan import ScanLimits
from tests.support.promptness import wait_until
from tests.support.repositories import commit_all, new_checkout, plain_git, write_files
from tests.support.trees import tree_of


def taken(snapshots: Snapshots, label: str = "x") -> str:
    snapshot = snapshots.take(label)
    assert snapshot is not None
    return snapshot.id


def every_kind_of_file(folder: Path) -> None:
    """Fill a folder with all that a snapshot has to keep byte for byte."""
    write_files(
        folder,
        {
            "plain.txt": "one\ntwo\n",
            "crlf.txt": b"one\r\ntwo\r\nmixed\n",
            "ident.txt": "$Id$\n",
            "binary": bytes(range(256)),
            "empty": b"",
            ".gitattributes": "* text=auto eol=crlf ident\n*.txt working-tree-encoding=UTF-16\n",
            ".gitignore": "*\n",
            "ignored/build.o": "x",
            "a/A": "upper",
            "a/a": "lower",
            "-leading": "x",
            "--stdin": "x",
            ":(top)x": "x",
            "*": "x",
            " ": "blank",
            "new\nline\t\x1b[31m": "x",
            "e\u0301": "NFD",
            "\u00e9": "NFC",
            "git~1": "x",
            ".git ": "x",
            "n" * 255: "long",
            "pointer": "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
            "back\\slash": "x",
        },
    )
    (folder / os.fsdecode(b"no-utf8-\xff")).write_bytes(b"x")
    deep = folder
    for _ in range(12):
        deep /= "d" * 250
    deep.mkdir(parents=True)
    (deep / "f").write_text("deep")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    for name, mode in {"run.sh": 0o755, "plain.txt": 0o600, "empty": 0o444}.items():
        (folder / name).chmod(mode)
    for name in ("nothing", "some/nested/nothing"):
        (folder / name).mkdir(parents=True)
    (folder / "nothing").chmod(0o700)
    (folder / "dangling").symlink_to("/nowhere/at/all")
    (folder / "outward").symlink_to("/etc")
    (folder / "inward").symlink_to("a")
    (folder / "self").symlink_to("self")


def test_a_snapshot_brings_back_every_byte_mode_link_and_empty_folder(
    snapshots: Snapshots, workspace: Path
) -> None:
    every_kind_of_file(workspace)
    before = tree_of(workspace)
    snapshot = taken(snapshots)
    write_files(workspace, {"plain.txt": "changed", "more/new.txt": "new"})
    (workspace / "binary").unlink()
    shutil.rmtree(workspace / "nothing")
    snapshots.restore(snapshot)
    assert tree_of(workspace) == before


def test_a_snapshot_becomes_a_new_folder(snapshots: Snapshots, workspace: Path) -> None:
    every_kind_of_file(workspace)
    snapshot = taken(snapshots)
    target = workspace.parent / "exported"
    snapshots.export(snapshot, target)
    assert tree_of(target) == tree_of(workspace)
    assert [one.name for one in workspace.parent.iterdir() if one.name.startswith(".")] == []
    with pytest.raises(RestoreFailed, match="already"):
        snapshots.export(snapshot, target)


def test_an_unchanged_workspace_is_no_new_snapshot(snapshots: Snapshots, workspace: Path) -> None:
    write_files(workspace, {"a": "1"})
    first = taken(snapshots)
    assert taken(snapshots) == first
    (workspace / "a").chmod(0o600)
    second = taken(snapshots)
    assert second != first
    (workspace / "empty").mkdir()
    assert taken(snapshots) != second
    assert len(snapshots.list()) == 3


def test_an_empty_workspace_is_a_snapshot_and_a_missing_one_is_none(
    snapshots: Snapshots, workspace: Path
) -> None:
    empty = taken(snapshots)
    write_files(workspace, {"a": "1"})
    taken(snapshots)
    snapshots.restore(empty)
    assert tree_of(workspace) == {}
    workspace.rmdir()
    assert snapshots.take("x") is None


def test_git_folders_of_any_spelling_are_left_out_and_named(
    snapshots: Snapshots, workspace: Path
) -> None:
    """A folder that git refuses stops no snapshot, and a nested repository keeps its files."""
    nested = new_checkout(workspace / "nested", {"kept.txt": "kept"})
    write_files(nested, {"untracked.txt": "kept, too"})
    new_checkout(workspace / "without-commit")
    write_files(workspace, {".GIT/config": "x", "a/.Git": "a file", "b/.gIt/c": "x", "c": "1"})
    (workspace / ".gitmodules").symlink_to("c")
    snapshot = taken(snapshots)
    manifest = snapshots.get(snapshot).manifest
    assert manifest.left_out == (
        *(b".GIT", b".gitmodules", b"a/.Git", b"b/.gIt"),
        *(b"nested/.git", b"without-commit/.git"),
    )
    snapshots.export(snapshot, workspace.parent / "out")
    assert set(tree_of(workspace.parent / "out")) == {
        *(b"a", b"b", b"c", b"nested", b"nested/kept.txt", b"nested/untracked.txt"),
        b"without-commit",
    }


@pytest.mark.parametrize("name", ["pipe", ".gitattributes", ".gitignore", "d/pipe"])
def test_a_pipe_is_refused_before_git_could_hang_on_it(
    snapshots: Snapshots, workspace: Path, name: str
) -> None:
    (workspace / "d").mkdir()
    os.mkfifo(workspace / name)
    with pytest.raises(SnapshotRefused, match="a named pipe") as caught:
        snapshots.take("x")
    assert len(caught.value.faults) == 1
    assert snapshots.list() == []


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        (ScanLimits(max_entries=5), "more than 5 files"),
        (ScanLimits(max_bytes=99), "more than 99 bytes"),
        (ScanLimits(max_file_bytes=50), "has 60 bytes"),
        (ScanLimits(max_attributes_bytes=3), "gitattributes: it has 4 bytes"),
        (ScanLimits(max_depth=1), "deeper than 1"),
        (ScanLimits(max_path_bytes=6), "more than 6 bytes"),
    ],
)
def test_a_workspace_beyond_its_limits_is_refused(
    snapshots: Snapshots, workspace: Path, limits: ScanLimits, message: str
) -> None:
    write_files(
        workspace, {"a/b/c": "x" * 60, "a/b/dd": "x" * 60, ".gitattributes": "* -x", "e": ""}
    )
    limited = Snapshots(snapshots.repository, limits=limits)
    with pytest.raises(SnapshotRefused, match=message):
        limited.take("x")
    assert limited.list() == []


def test_many_faults_are_named_together(snapshots: Snapshots, workspace: Path) -> None:
    for number in range(30):
        os.mkfifo(workspace / f"p{number}")
    with pytest.raises(SnapshotRefused) as caught:
        snapshots.take("x")
    assert len(caught.value.faults) == 20


def test_a_workspace_that_is_a_link_is_refused(snapshots: Snapshots, workspace: Path) -> None:
    workspace.rmdir()
    workspace.symlink_to("/etc")
    with pytest.raises(Exception, match="a link or a file"):
        snapshots.take("x")
    with pytest.raises(Exception, match="a link or a file"):
        snapshots.tree_now()


def test_snapshots_are_listed_with_their_names_oldest_first(
    snapshots: Snapshots, workspace: Path
) -> None:
    ids = []
    for number in range(3):
        write_files(workspace, {"a": str(number)})
        ids.append(taken(snapshots, f"phase {number}\n\x1b"))
    found = snapshots.list()
    assert [one.id for one in found] == ids
    assert [one.label for one in found] == ["phase 0 \x1b", "phase 1 \x1b", "phase 2 \x1b"]
    assert [one.taken_at.second for one in found] == [0, 1, 2]


def test_two_snapshots_are_compared(snapshots: Snapshots, workspace: Path) -> None:
    write_files(workspace, {"a.txt": "1\n2\n", "gone": "x\n", "b\nb": b"\0", "same": "x"})
    first = taken(snapshots)
    write_files(workspace, {"a.txt": "1\n3\n4\n", "new/x": "n\n", "b\nb": b"\0\1"})
    (workspace / "gone").unlink()
    (workspace / "same").chmod(0o755)
    second = taken(snapshots)
    found = snapshots.changes(first, second, patch=True)
    assert found.files == (
        FileChange("a.txt", "modified", "100644", "100644", 2, 1),
        FileChange("b\nb", "modified", "100644", "100644", None, None),
        FileChange("gone", "deleted", "100644", "000000", 0, 1),
        FileChange("new/x", "added", "000000", "100644", 1, 0),
        FileChange("same", "modified", "100644", "100755", 0, 0),
    )
    assert (found.insertions, found.deletions) == (3, 2)
    assert b"-2\n+3\n+4\n" in found.patch
    assert snapshots.changes(first, second, paths=["new"]).files == found.files[3:4]
    assert snapshots.changes(first, first).files == ()


def test_the_workspace_as_it_is_now_is_compared_without_a_snapshot(
    snapshots: Snapshots, workspace: Path
) -> None:
    write_files(workspace, {"a": "1\n"})
    first = taken(snapshots)
    write_files(workspace, {"b": "2\n"})
    now = snapshots.tree_now()
    assert [one.path for one in snapshots.changes(first, now).files] == ["b"]
    assert [one.path for one in snapshots.changes(snapshots.empty_tree(), now).files] == [
        "a",
        "b",
    ]
    assert len(snapshots.list()) == 1
    assert taken(snapshots) != first


def test_a_change_within_the_second_of_the_last_look_is_seen_in_a_later_one(
    snapshots: Snapshots, workspace: Path
) -> None:
    """Git compares sizes and whole seconds, and trusts its index for what is older than that."""
    file = workspace / "same-size"
    for number in range(100):
        file.write_text(f"{number:04d}")
        second = int(file.stat().st_ctime)
        snapshot = snapshots.take("x")
        assert snapshot is not None
        file.write_text("late")
        if int(file.stat().st_ctime) == second:
            break
    else:
        pytest.fail("a snapshot takes longer than a second here")
    wait_until(lambda: time.time() > second + 1)

    assert snapshots.tree_now() != snapshot.tree


def test_an_unknown_snapshot_is_refused_and_nothing_changes(
    snapshots: Snapshots, workspace: Path
) -> None:
    write_files(workspace, {"a": "1"})
    known = taken(snapshots)
    for snapshot in ("0" * 40, "HEAD", "--all", "refs/latest", "", "a" * 41):
        with pytest.raises(SnapshotMissing):
            snapshots.get(snapshot)
        with pytest.raises(SnapshotMissing):
            snapshots.restore(snapshot)
        with pytest.raises(SnapshotMissing):
            snapshots.export(snapshot, workspace.parent / "out")
        with pytest.raises(SnapshotMissing):
            snapshots.changes(known, snapshot)
    assert (workspace / "a").read_text() == "1"


def test_removed_snapshots_are_gone_with_what_only_they_held(
    snapshots: Snapshots, workspace: Path
) -> None:
    ids = []
    for number in range(3):
        write_files(workspace, {"a": f"content {number}"})
        ids.append(taken(snapshots))
    assert snapshots.remove([ids[0], "0" * 40]) == [ids[0]]
    assert [one.id for one in snapshots.list()] == ids[1:]
    with pytest.raises(SnapshotMissing):
        snapshots.get(ids[0])
    assert snapshots.keep_only([]) == [ids[1]]  # the newest is what the next is compared with
    snapshots.restore(ids[2])
    assert (workspace / "a").read_text() == "content 2"


def test_a_snapshot_is_copied_to_another_workspace(
    snapshots: Snapshots, workspace: Path, tmp_path: Path
) -> None:
    every_kind_of_file(workspace)
    taken(snapshots)
    write_files(workspace, {"more": "1"})
    snapshot = taken(snapshots)
    other = tmp_path / "other" / "workspace"
    other.parent.mkdir()
    repository = SnapshotRepository(other.with_name(SNAPSHOTS), other)
    repository.make()
    copies = snapshots.at(repository)
    snapshots.copy_to(copies, snapshot)
    shutil.rmtree(snapshots.repository.directory)
    copies.export(snapshot, other)
    assert tree_of(other) == tree_of(workspace)
    assert [one.id for one in copies.list()] == [snapshot]


def test_snapshots_whose_refs_somebody_packed_are_still_listed(
    snapshots: Snapshots, workspace: Path
) -> None:
    write_files(workspace, {"a": "1"})
    first = taken(snapshots)
    plain_git(snapshots.repository.directory, "pack-refs", "--all")
    assert not list((snapshots.repository.directory / "refs" / "snapshots").glob("?" * 40))
    write_files(workspace, {"a": "2"})
    second = taken(snapshots)
    assert [one.id for one in snapshots.list()] == [first, second]


# ---- The repository itself


def test_without_a_repository_there_are_no_snapshots(tmp_path: Path) -> None:
    snapshots = Snapshots(SnapshotRepository(tmp_path / SNAPSHOTS, tmp_path / "workspace"))
    assert snapshots.list() == []
    with pytest.raises(NoSnapshots):
        snapshots.take("x")


def test_without_git_nothing_is_made(tmp_path: Path) -> None:
    repository = SnapshotRepository(tmp_path / "s", tmp_path / "w", git=Git(find=lambda: None))
    with pytest.raises(GitUnavailable):
        repository.make()
    assert list(tmp_path.iterdir()) == []


def test_the_repository_is_made_once_and_is_sound(snapshots: Snapshots, workspace: Path) -> None:
    write_files(workspace, {"a": "1"})
    taken(snapshots)
    assert snapshots.repository.make() is False
    directory = snapshots.repository.directory
    assert not plain_git(directory, "fsck", "--strict").stdout
    assert directory.stat().st_mode & 0o777 == 0o700


def test_locks_that_a_killed_git_left_are_removed(snapshots: Snapshots, workspace: Path) -> None:
    write_files(workspace, {"a": "1"})
    taken(snapshots)
    directory = snapshots.repository.directory
    for name in ("index.lock", "packed-refs.lock", "refs/latest.lock", "refs/snapshots/x.lock"):
        (directory / name).touch()
    write_files(workspace, {"a": "2"})
    taken(snapshots)
    assert not list(directory.rglob("*.lock"))


def test_another_worker_in_it_is_waited_for_and_named(
    snapshots: Snapshots, workspace: Path
) -> None:
    impatient = SnapshotRepository(snapshots.repository.directory, workspace, lock_timeout_s=0.0)
    with snapshots.repository.locked(), pytest.raises(LockTimeout):
        Snapshots(impatient).take("x")


# ---- On a person's repository


def test_what_a_person_has_is_not_stored_again(tmp_path: Path) -> None:
    work = new_checkout(tmp_path / "work", {"a": "x" * 1000, "b": "y" * 1000})
    base = commit_all(work, "second")
    user = UserRepository.at(work)
    workspace = tmp_path / "session" / "workspace"
    workspace.parent.mkdir()
    repository = SnapshotRepository(workspace.with_name(SNAPSHOTS), workspace)
    repository.make(objects=user.objects, object_format=user.object_format)
    snapshots = Snapshots(repository)
    snapshots.begin(base)
    workspace.mkdir()
    write_files(workspace, {"a": "x" * 1000, "b": "changed"})
    snapshot = snapshots.take("x")
    assert snapshot is not None
    assert snapshot.parents == (base,)
    ours = list((repository.directory / "objects").glob("??/*"))
    packs = list((repository.directory / "objects" / "pack").glob("*.pack"))
    assert len(ours) + len(packs) <= 3  # b, the tree, the commit
    assert [one.path for one in snapshots.changes(base, snapshot.id).files] == ["b"]
