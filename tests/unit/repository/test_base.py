from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from agentforge_sessions.harness.session_layout import SNAPSHOTS
from agentforge_sessions.repository import GitFailed, NotARepository, UserRepository
from agentforge_sessions.repository.base import (
    KEPT_REFS,
    Base,
    BaseUnavailable,
    check_out,
    drop_ref,
    keep_ref,
)
from agentforge_sessions.repository.snapshots.snapshot_repository import SnapshotRepository
from agentforge_sessions.repository.snapshots.snapshots import Snapshot, Snapshots
from tests.support.repositories import commit_all, new_checkout, plain_git, write_files
from tests.support.trees import tree_of


@pytest.fixture
def work(tmp_path: Path) -> Path:
    return new_checkout(tmp_path / "work", {"a.txt": "one\n", "sub/b.txt": "two\n"})


@pytest.fixture
def snapshots(tmp_path: Path) -> Snapshots:
    (tmp_path / "session").mkdir()
    workspace = tmp_path / "session" / "workspace"
    return Snapshots(SnapshotRepository(workspace.with_name(SNAPSHOTS), workspace))


def begun(
    snapshots: Snapshots, work: Path, revision: str = "HEAD", *, uncommitted: bool = False
) -> Snapshot:
    user = UserRepository.at(work)
    base = Base.of(user, revision, with_uncommitted=uncommitted)
    return check_out(snapshots, Base.decode(base.encode()), user, "session_1")


def contents(folder: Path) -> dict[str, str]:
    return {
        str(one.relative_to(folder)): one.read_text()
        for one in sorted(folder.rglob("*"))
        if one.is_file() and ".git" not in one.parts
    }


def test_the_workspace_is_a_plain_checkout_of_the_base(work: Path, snapshots: Snapshots) -> None:
    (work / "run").write_text("#!/bin/sh\n")
    (work / "run").chmod(0o755)
    (work / "link").symlink_to("a.txt")
    head = commit_all(work, "more")
    before = tree_of(work, but=(".git",))
    write_files(work, {"a.txt": "uncommitted", "untracked": "x"})
    first = begun(snapshots, work)
    workspace = snapshots.repository.workspace
    assert tree_of(workspace) == before
    assert first.parents == (head,)
    assert snapshots.changes(head, first.id).files == ()


def test_the_persons_repository_changes_by_one_ref_only(work: Path, snapshots: Snapshots) -> None:
    before = tree_of(work)
    begun(snapshots, work)
    new = {path for path, what in tree_of(work).items() if before.get(path) != what}
    ref = f".git/{KEPT_REFS}session_1".encode()
    assert {one for one in new if not ref.startswith(one + b"/")} == {ref}
    drop_ref(UserRepository.at(work), "session_1")
    drop_ref(UserRepository.at(work), "session_1")
    left = {path for path in tree_of(work) if path not in before}
    assert all(ref.startswith(one + b"/") for one in left)


def test_the_base_survives_the_persons_gc_as_long_as_the_ref_is_there(
    work: Path, snapshots: Snapshots
) -> None:
    plain_git(work, "checkout", "-q", "--detach")
    write_files(work, {"a.txt": "lost work\n"})
    lost = commit_all(work, "not on a branch")
    first = begun(snapshots, work)
    plain_git(work, "checkout", "-q", "main")
    plain_git(work, "reflog", "expire", "--expire=now", "--all")
    plain_git(work, "gc", "-q", "--prune=now")
    snapshots.export(first.id, snapshots.repository.directory.parent / "out")
    drop_ref(UserRepository.at(work), "session_1")
    plain_git(work, "gc", "-q", "--prune=now")
    assert plain_git(work, "cat-file", "-e", lost, check=False).returncode != 0


@pytest.mark.parametrize("revision", ["HEAD~1", "v1", "other"])
def test_any_commit_can_be_the_base(work: Path, snapshots: Snapshots, revision: str) -> None:
    plain_git(work, "tag", "v1")
    plain_git(work, "branch", "other")
    write_files(work, {"a.txt": "newer\n"})
    commit_all(work, "newer")
    begun(snapshots, work, revision)
    assert contents(snapshots.repository.workspace)["a.txt"] == "one\n"


def test_uncommitted_work_is_taken_where_it_is_wanted(work: Path, snapshots: Snapshots) -> None:
    write_files(work, {".gitignore": "*.log\n", "c.txt": "three\n"})
    commit_all(work, "more")
    write_files(
        work,
        {
            "a.txt": "unstaged\n",
            "staged.txt": "staged\n",
            "untracked/x": "untracked",
            "noise.log": "ignored",
            ".agentforge/sessions/x/session.yaml": "ours",
        },
    )
    plain_git(work, "add", "staged.txt")
    (work / "c.txt").unlink()
    shutil.rmtree(work / "sub")
    (work / "sub").write_text("a file now")
    (work / "link").symlink_to("/nowhere")
    (work / "tool").write_text("x")
    (work / "tool").chmod(0o755)
    before = tree_of(work)
    first = begun(snapshots, work, uncommitted=True)
    workspace = snapshots.repository.workspace
    assert contents(workspace) == {
        ".gitignore": "*.log\n",
        "a.txt": "unstaged\n",
        "staged.txt": "staged\n",
        "sub": "a file now",
        "tool": "x",
        "untracked/x": "untracked",
    }
    assert (workspace / "link").is_symlink()
    assert os.access(workspace / "tool", os.X_OK)
    assert {key for key in tree_of(work) if key not in before} <= {
        b".git/refs/agentforge",
        b".git/refs/agentforge/sessions",
        b".git/refs/agentforge/sessions/session_1",
    }
    write_files(workspace, {"a.txt": "by the session\n"})
    second = snapshots.take("x")
    assert second is not None
    assert second.parents == (first.id,)


def test_line_ends_and_filters_of_the_repository_do_not_touch_the_workspace(
    work: Path, snapshots: Snapshots
) -> None:
    write_files(work, {".gitattributes": "*.txt eol=crlf ident filter=lfs\n", "p.bin": b"\r\n\0"})
    plain_git(work, "config", "filter.lfs.smudge", "false")
    plain_git(work, "config", "filter.lfs.required", "true")
    plain_git(work, "-c", "filter.lfs.required=false", "add", "-A")
    plain_git(work, "-c", "filter.lfs.required=false", "commit", "-qm", "x")
    begun(snapshots, work)
    assert (snapshots.repository.workspace / "a.txt").read_bytes() == b"one\n"
    assert (snapshots.repository.workspace / "p.bin").read_bytes() == b"\r\n\0"


def test_a_base_knows_the_branch_of_its_checkout(work: Path, tmp_path: Path) -> None:
    plain_git(work, "worktree", "add", "-q", "-b", "other", str(tmp_path / "linked"))
    assert Base.of(UserRepository.at(work)).branch == "main"
    assert Base.of(UserRepository.at(tmp_path / "linked")).branch == "other"
    plain_git(work, "checkout", "-q", "--detach")
    assert Base.of(UserRepository.at(work)).branch is None


def test_missing_objects_are_an_error_that_says_so(work: Path, snapshots: Snapshots) -> None:
    blob = plain_git(work, "rev-parse", "HEAD:a.txt").stdout.decode().strip()
    (work / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(BaseUnavailable, match="partial clone"):
        begun(snapshots, work)
    assert not snapshots.repository.workspace.exists()


def test_the_same_call_goes_on_where_a_killed_one_stopped(work: Path, snapshots: Snapshots) -> None:
    user = UserRepository.at(work)
    base = Base.of(user)
    keep_ref(user, "session_1", base.commit)
    snapshots.repository.make(objects=user.objects)
    first = check_out(snapshots, base, user, "session_1")
    write_files(snapshots.repository.workspace, {"a.txt": "changed"})
    assert check_out(snapshots, base, user, "session_1") == first
    assert (snapshots.repository.workspace / "a.txt").read_text() == "changed"


def test_the_lock_that_a_killed_git_left_on_our_ref_is_removed(work: Path) -> None:
    user = UserRepository.at(work)
    refs = work / ".git" / KEPT_REFS
    refs.mkdir(parents=True)
    (refs / "session_1.lock").touch()
    keep_ref(user, "session_1", user.resolve("HEAD"))
    assert [one.name for one in refs.iterdir()] == ["session_1"]

    (refs / "session_1.lock").touch()  # it may be of a git of the person's, which packs refs
    keep_ref(user, "session_1", user.resolve("HEAD"))
    commit_all(work, "another")
    with pytest.raises(GitFailed, match="File exists"):
        keep_ref(user, "session_1", user.resolve("HEAD"))
    assert (refs / "session_1.lock").exists()


def test_another_repository_at_the_same_path_is_not_taken_for_it(work: Path) -> None:
    base = Base.of(UserRepository.at(work))
    (work / ".git").rename(work / "elsewhere")
    (work / ".git").write_text("gitdir: elsewhere\n")
    with pytest.raises(NotARepository, match="now"):
        base.user_repository()


def test_a_name_that_is_no_ref_is_refused(work: Path) -> None:
    user = UserRepository.at(work)
    with pytest.raises(GitFailed):
        keep_ref(user, "a..b", user.resolve("HEAD"))


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{}", b'{"schema_version":2}', b'{"schema_version":1}']
)
def test_what_is_no_base_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError):
        Base.decode(data)
