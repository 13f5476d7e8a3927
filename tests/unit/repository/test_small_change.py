"""What little changed is stored without git, and is what git would have stored."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from agentforge_sessions.base.errors import AgentForgeError
from agentforge_sessions.base.files import WriteError
from agentforge_sessions.base.program_run import Ended, ProgramRun, run_program
from agentforge_sessions.harness.session_layout import SNAPSHOTS
from agentforge_sessions.repository import UserRepository
from agentforge_sessions.repository.git.git_command import Git
from agentforge_sessions.repository.git.git_objects import (
    BLOB,
    TREE,
    TreeEntry,
    object_id,
    parse_tree,
    tree_content,
)
from agentforge_sessions.repository.snapshots.manifest import WorkspaceManifest
from agentforge_sessions.repository.snapshots.snapshot_repository import SnapshotRepository
from agentforge_sessions.repository.snapshots.snapshot_restore import restore_to
from agentforge_sessions.repository.snapshots.snapshots import Snapshots
from agentforge_sessions.repository.snapshots.workspace_index import WorkspaceState
from agentforge_sessions.repository.snapshots.workspace_memory import FILE
from tests.support.filesystem import FaultyFileSystem, every_call_from, nth_call
from tests.support.repositories import (
    commit_all,
    new_checkout,
    plain_git,
    user_environment,
    write_files,
)

NAMES = (
    *("a", "a.b", "a-b", "a0", "A", "b/x", "b.x", "b-x", "-leading", "new\nline\t\x1b", "é"),
    *("n" * 255, "back\\slash", " ", ":(top)x", "c/d/e/f", "c.d", "*"),
)


class Counting:
    """Runs git, and keeps what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str | bytes] = []

    def __call__(self, run: ProgramRun) -> Ended:
        self.asked.append(run.words[1])
        return run_program(run)


def tree_of_taken(snapshots: Snapshots) -> str:
    taken = snapshots.take("x")
    assert taken is not None
    return taken.tree


def listed(snapshots: Snapshots, tree: str) -> list[str]:
    output = plain_git(snapshots.repository.directory, "ls-tree", "-r", "-z", tree).stdout
    return sorted(os.fsdecode(line).replace("\t", " ", 1) for line in output.split(b"\0")[:-1])


def on_a_checkout(tmp_path: Path, work: Path, base: str, *, runner: Counting) -> Snapshots:
    user = UserRepository.at(work)
    workspace = tmp_path / "session" / "workspace"
    workspace.mkdir(parents=True)
    git = Git(runner=runner)
    repository = SnapshotRepository(workspace.with_name(SNAPSHOTS), workspace, git=git)
    repository.make(objects=user.objects, object_format=user.object_format)
    snapshots = Snapshots(repository)
    snapshots.begin(base)
    return snapshots


def test_trees_and_ids_are_those_of_git(tmp_path: Path) -> None:
    work = new_checkout(tmp_path / "work")
    write_files(work, {name: f"{name}\n" for name in NAMES})
    (work / os.fsdecode(b"\xff")).symlink_to("nowhere")
    (work / "run").write_text("x")
    (work / "run").chmod(0o755)
    commit_all(work, "x")
    for name in ("HEAD^{tree}", "HEAD:c", "HEAD:b"):
        oid = plain_git(work, "rev-parse", name).stdout.decode().strip()
        content = plain_git(work, "cat-file", "tree", name).stdout
        entries = parse_tree(content, 20)
        shuffled = dict(sorted(entries.items(), key=lambda item: item[1].oid))
        assert tree_content(shuffled) == content
        assert object_id(TREE, content) == oid
        for cut in (content[:-1], content[:5], content[:-21]):
            with pytest.raises(ValueError):
                parse_tree(cut, 20)
    assert parse_tree(b"100664 x\0" + bytes(20), 20) == {b"x": TreeEntry(b"100644", "00" * 20)}
    assert parse_tree(b"100775 x\0" + bytes(20), 20)[b"x"].mode == b"100755"
    assert object_id(BLOB, b"", "sha256").startswith("473a0f4c3be8")


@pytest.mark.parametrize("label", ["a label", "", "é\n\x1b"])
def test_a_snapshot_is_the_commit_that_git_makes(
    snapshots: Snapshots, workspace: Path, label: str
) -> None:
    write_files(workspace, {"a": "1", "b/c": "2"})
    directory = snapshots.repository.directory
    base = plain_git(directory, "commit-tree", "-m", "base", snapshots.empty_tree())
    snapshots.begin(base.stdout.decode().strip())
    taken = snapshots.take(label)
    assert taken is not None
    assert snapshots.get(taken.id) == taken
    message = plain_git(directory, "cat-file", "commit", taken.id).stdout.partition(b"\n\n")[2]
    moment = f"{int(taken.taken_at.timestamp())} +0000"
    who = {"NAME": "agentforge", "EMAIL": "agentforge@localhost", "DATE": moment}
    environment = {
        f"GIT_{whose}_{what}": value
        for whose in ("AUTHOR", "COMMITTER")
        for what, value in who.items()
    }
    made = subprocess.run(
        ["git", "commit-tree", "-p", taken.parents[0], taken.tree],
        env={**user_environment(directory), "GIT_DIR": str(directory), **environment},
        input=message,
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert made.stdout.decode().strip() == taken.id
    refs = plain_git(
        directory, "for-each-ref", "--format=%(refname) %(objectname)", "refs/snapshots/"
    )
    latest = plain_git(directory, "rev-parse", "refs/latest").stdout.decode().strip()
    assert refs.stdout.decode() == f"refs/snapshots/{taken.id} {taken.id}\n"
    assert latest == taken.id
    assert not plain_git(directory, "fsck", "--strict", "--no-dangling").stdout


def test_no_git_runs_for_a_small_workspace(tmp_path: Path) -> None:
    runner = Counting()
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    git = Git(runner=runner)
    repository = SnapshotRepository(tmp_path / SNAPSHOTS, workspace, git=git)
    repository.make()
    snapshots = Snapshots(repository)
    write_files(workspace, {f"{number % 7}/{number}": f"{number}" for number in range(100)})
    trees = {tree_of_taken(snapshots)}
    for number in range(3):
        write_files(workspace, {"3/3": f"now {number}", f"new/{number}": "x"})
        (workspace / "1" / f"{8 + 7 * number}").unlink()
        trees |= {snapshots.tree_now(), tree_of_taken(snapshots), tree_of_taken(snapshots)}
    assert len(trees) == 4
    assert len(snapshots.list()) == 4
    assert runner.asked == ["version"]
    assert not plain_git(repository.directory, "fsck", "--strict", "--no-dangling").stdout


def test_what_git_has_packed_is_gone_on_from(snapshots: Snapshots, workspace: Path) -> None:
    write_files(workspace, {name: name for name in NAMES})
    tree_of_taken(snapshots)
    assert snapshots.pack(many=-1)
    write_files(workspace, {"c/d/e/f": "changed", "c/d/new/x": "new", "b\nb/y": "z"})
    (workspace / "b" / "x").unlink()
    tree = tree_of_taken(snapshots)
    found = {line.split(" ", 3)[3] for line in listed(snapshots, tree)}
    assert found == ({*NAMES} - {"b/x"}) | {"c/d/new/x", "b\nb/y"}
    assert not plain_git(snapshots.repository.directory, "fsck", "--strict").stdout


def test_submodules_stay_as_long_as_their_folders(tmp_path: Path) -> None:
    work = new_checkout(tmp_path / "work", {"a": "1", "kept/b": "1"})
    inner = new_checkout(tmp_path / "inner", {"x": "1"})
    commit = plain_git(inner, "rev-parse", "HEAD").stdout.decode().strip()
    for name in ("kept/one", "kept/two", "kept/three", "alone/four"):
        (work / name).mkdir(parents=True)
        words = ("--add", "--cacheinfo", f"160000,{commit},{name}")
        plain_git(work, "update-index", *words)
    plain_git(work, "commit", "-qm", "with submodules")
    base = plain_git(work, "rev-parse", "HEAD").stdout.decode().strip()
    runner = Counting()
    snapshots = on_a_checkout(tmp_path, work, base, runner=runner)
    workspace = snapshots.repository.workspace
    with snapshots.repository.locked() as locked:
        tree = locked.git("rev-parse", f"{base}^{{tree}}").line
    workspace.rmdir()
    with snapshots.repository.locked() as locked:
        restore_to(locked, WorkspaceState(tree, WorkspaceManifest()), workspace)
    assert tree_of_taken(snapshots) == tree
    first = snapshots.list()[-1]
    assert first.manifest.empty == (b"alone/four", b"kept/one", b"kept/three", b"kept/two")
    runner.asked.clear()
    write_files(workspace, {"kept/b": "2", "kept/two/now": "files"})
    (workspace / "kept" / "three").rmdir()
    (workspace / "kept" / "one").chmod(0o700)
    after = listed(snapshots, tree_of_taken(snapshots))
    assert [line.split(" ", 3)[3] for line in after if line.startswith("160000")] == [
        *("alone/four", "kept/one"),
    ]
    assert runner.asked == ["cat-file"]
    shutil.rmtree(workspace / "alone")
    after = listed(snapshots, tree_of_taken(snapshots))
    assert {line.split(" ", 3)[3] for line in after} == {"a", "kept/b", "kept/one", "kept/two/now"}
    assert runner.asked == ["cat-file", "cat-file"]


def test_ids_of_sha256_are_served_too(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    plain_git(work, "init", "-q", "--object-format=sha256")
    write_files(work, {"a": "1", "b/c": "1"})
    base = commit_all(work, "x")
    runner = Counting()
    snapshots = on_a_checkout(tmp_path, work, base, runner=runner)
    workspace = snapshots.repository.workspace
    write_files(workspace, {"a": "1", "b/c": "1"})
    tree_of_taken(snapshots)
    runner.asked.clear()
    for text in "23":
        write_files(workspace, {"b/c": text})
        tree = tree_of_taken(snapshots)
    assert runner.asked == ["cat-file"]
    assert len(tree) == 64
    assert not plain_git(snapshots.repository.directory, "fsck", "--strict").stdout


def test_what_changes_between_the_look_and_the_reading_is_not_mixed_up(
    snapshots: Snapshots, workspace: Path
) -> None:
    """A file that is longer by now is left to git, which takes it as it is."""
    write_files(workspace, {"a": "1", "b": "1"})
    tree_of_taken(snapshots)
    write_files(workspace, {"a": "22"})

    fs = FaultyFileSystem()
    fs.before = lambda call: (
        (workspace / "a").write_text("grown")
        if call.operation == "open" and call.path.endswith("/workspace/a")
        else None
    )
    growing = snapshots.at(replace(snapshots.repository, fs=fs))
    tree = tree_of_taken(growing)
    text = plain_git(snapshots.repository.directory, "cat-file", "blob", f"{tree}:a").stdout
    assert text == b"grown"


def test_every_refused_call_is_an_error_or_a_whole_snapshot(
    snapshots: Snapshots, workspace: Path
) -> None:
    write_files(workspace, {"a": "0", "d/b": "0"})
    tree_of_taken(snapshots)
    call, refused = 0, 0
    while True:
        write_files(workspace, {"d/b": f"{call}"})
        fs = FaultyFileSystem(plan=nth_call(call, 28))
        try:
            taken = snapshots.at(replace(snapshots.repository, fs=fs)).take("x")
        except (AgentForgeError, OSError):
            refused += 1
            taken = None
        if not fs.failed:
            break
        if taken is not None:
            name = f"{taken.tree}:d/b"
            text = plain_git(snapshots.repository.directory, "cat-file", "blob", name).stdout
            assert text == f"{call}".encode()
        call += 5
    assert refused > 5
    assert not plain_git(snapshots.repository.directory, "fsck", "--strict", "--no-dangling").stdout
    assert tree_of_taken(snapshots)


def test_a_full_disk_leaves_the_earlier_snapshots(snapshots: Snapshots, workspace: Path) -> None:
    write_files(workspace, {"a": "0"})
    first = tree_of_taken(snapshots)
    write_files(workspace, {"a": "1"})
    fs = FaultyFileSystem(plan=every_call_from(0, 28, ("writev",)))
    with pytest.raises(WriteError) as caught:
        snapshots.at(replace(snapshots.repository, fs=fs)).take("x")
    assert caught.value.errno == 28
    assert [one.tree for one in snapshots.list()] == [first]
    assert not list((snapshots.repository.directory / "objects").rglob("tmp_obj_*"))
    assert tree_of_taken(snapshots) != first


def test_objects_are_on_the_disk_before_a_ref_names_them(
    snapshots: Snapshots, workspace: Path
) -> None:
    write_files(workspace, {"a": "0"})
    fs = FaultyFileSystem()
    directory = snapshots.repository.directory
    snapshots.at(replace(snapshots.repository, fs=fs)).take("x")
    steps = [step.replace("base", ".") for step in fs.steps(directory)]

    def at(start: str) -> Sequence[int]:
        return [number for number, step in enumerate(steps) if step.startswith(start)]

    renamed = at("rename objects/")
    assert len(renamed) == 3  # the file, its tree, the commit
    assert len(at("fsync objects/")) >= 2 * len(renamed)  # each file, and the folder of each
    assert at("fsync objects")[-1] < at("rename refs/")[0]
    assert renamed[-1] < at("fsync objects")[-1]
    assert len(at("fsync refs/latest.lock")) == 1
    assert [steps[one] for one in at("rename refs/")][-1] == "rename refs/latest"
    assert at("fsync refs/snapshots")[-1] > at("rename refs/")[-1]
    assert at("fsync refs")[-1] > at("rename refs/")[-1]


def test_what_a_killed_taker_left_is_synced_before_it_is_relied_on(
    snapshots: Snapshots, workspace: Path
) -> None:
    write_files(workspace, {"a": "0"})
    taken = snapshots.take("x")
    assert taken is not None
    (snapshots.repository.directory / FILE).unlink()  # it is written last
    fs = FaultyFileSystem()
    assert snapshots.at(replace(snapshots.repository, fs=fs)).take("y") == taken
    synced = {call.path for call in fs.trace if call.operation == "fsync"}
    directory = snapshots.repository.directory
    blob = object_id(BLOB, b"0")[:2]
    assert synced >= {
        *(str(directory / "objects" / name) for name in (blob, taken.tree[:2])),
        *(str(directory / name) for name in ("objects", "refs", "refs/snapshots")),
    }
