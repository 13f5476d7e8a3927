"""What a conflict becomes: markers as git writes them, on request, or a branch of its own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agentforge_sessions.base.files import OsFileSystem
from agentforge_sessions.base.files.filesystem import DIRECTORY_FLAGS, opened
from agentforge_sessions.repository.apply.apply_errors import (
    ApplyConflict,
    ApplyRefused,
    Obstacle,
    OperationUnderWay,
)
from agentforge_sessions.repository.apply.checkout_files import contents_below
from tests.support.applying import Site, Step, arrange, files_of, lay, new_site, seen
from tests.support.repositories import commit_all, plain_git

BEGIN = {
    "a.txt": "1\n2\n3\n",
    "binary": b"\0base",
    "mine-deleted": "d\n",
    "theirs-deleted": "d\n",
    "quiet": "q\n",
}
CHANGE = {
    "a.txt": "1\ntheirs\n3\n",
    "binary": b"\0theirs",
    "mine-deleted": "changed\n",
    "theirs-deleted": None,
    "quiet": "changed\n",
    "added": "theirs\n",
}
MEANWHILE = {
    "a.txt": "1\nmine\n3\n",
    "binary": b"\0mine",
    "mine-deleted": None,
    "theirs-deleted": "changed by me\n",
    "added": "mine\n",
}
CONFLICTS = ("a.txt", "added", "binary", "mine-deleted", "theirs-deleted")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    made = new_site(tmp_path, BEGIN, CHANGE)
    lay(made.top, MEANWHILE)
    commit_all(made.top, "meanwhile")
    return made


def test_conflicts_are_left_as_git_merge_leaves_them(site: Site) -> None:
    applied = site.apply(merge=True)

    assert sorted(applied.conflicts) == list(CONFLICTS)
    assert [(one.path, one.change) for one in applied.paths] == [("quiet", "modified")]
    assert not applied.nothing_to_do
    assert files_of(site.top) == {
        "a.txt": b"1\n<<<<<<< yours\nmine\n=======\ntheirs\n>>>>>>> it\n3\n",
        "added": b"<<<<<<< yours\nmine\n=======\ntheirs\n>>>>>>> it\n",
        "binary": b"\0mine",
        "mine-deleted": b"changed\n",
        "theirs-deleted": b"changed by me\n",
        "quiet": b"changed\n",
    }
    assert sorted(site.status()) == [
        "AA added",
        "DU mine-deleted",
        "M  quiet",
        "UD theirs-deleted",
        "UU a.txt",
        "UU binary",
    ]
    assert "both modified:   a.txt" in site.git("status")
    assert site.git("show", ":3:binary") == "\0theirs"
    assert seen(site.top)["(lock)"] == (False, False)
    assert site.git("fsck", "--strict", "--no-dangling") == ""
    site.git("add", "-A")
    site.git("-c", "user.name=A", "-c", "user.email=a@b", "commit", "-qm", "resolved")
    assert site.status() == []


def test_without_the_word_nothing_is_written_and_both_ways_out_are_named(site: Site) -> None:
    before = seen(site.top)
    for options in ({}, {"commit": True}, {"commit": True, "merge": True}):
        with pytest.raises(ApplyConflict, match=r"--merge writes both.*--branch NAME"):
            site.apply(**options)
    planned = site.plan(merge=True)
    assert planned.dry_run
    assert sorted(planned.conflicts) == list(CONFLICTS)
    assert seen(site.top) == before


@pytest.mark.parametrize(
    ("steps", "obstacle"),
    [
        ([{"a.txt": "edited\n"}], Obstacle.MODIFIED),
        ([{"binary": "edited\n"}], Obstacle.MODIFIED),
        ([{"binary": None}], Obstacle.DELETED),
        ([{"binary": "x"}, ("add", "binary"), {"binary": b"\0mine"}], Obstacle.STAGED),
        ([{"theirs-deleted": "x"}, ("add", "-A")], Obstacle.STAGED),
        ([{"mine-deleted": "precious\n"}], Obstacle.UNTRACKED),
        ([{"quiet": "edited\n"}], Obstacle.MODIFIED),
    ],
)
def test_work_that_is_not_committed_is_never_merged_over(
    site: Site, steps: list[Step], obstacle: Obstacle
) -> None:
    arrange(site.top, *steps)
    before = seen(site.top)
    with pytest.raises(ApplyRefused) as caught:
        site.apply(merge=True)
    assert [one.obstacle for one in caught.value.blocked] == [obstacle]
    assert seen(site.top) == before


def test_the_person_chooses_the_style_of_conflicts(site: Site) -> None:
    site.git("config", "merge.conflictStyle", "diff3")
    site.apply(merge=True)
    lines = (site.top / "a.txt").read_text().splitlines()
    assert lines[3].startswith("||||||| ")
    assert lines[4] == "2"


def test_other_work_stays_beside_a_conflict(site: Site) -> None:
    lay(site.top, {"staged": "s\n"})
    site.git("add", "staged")
    lay(site.top, {"staged": "and edited\n", "untracked": "u\n"})
    site.apply(merge=True)
    assert {"AM staged", "?? untracked"} <= set(site.status())


def test_a_branch_takes_what_conflicts_whatever_the_checkout_is_at(site: Site) -> None:
    lay(site.top, {"a.txt": "dirty\n", "added": "dirty\n"})
    site.git("add", "added")
    before = seen(site.top)

    site.apply(branch="agents/one")

    after = seen(site.top)
    assert {name for name in after if after[name] != before.get(name)} == {"(refs)"}
    assert site.git("rev-parse", "agents/one^").strip() == site.base
    tree = plain_git(site.own, "rev-parse", f"{site.result}^{{tree}}").stdout.decode()
    assert site.git("rev-parse", "agents/one^{tree}") == tree
    site.git("reset", "-q", "--hard")
    site.apply(merge=True)
    with pytest.raises(OperationUnderWay):
        site.apply()
    before = seen(site.top)
    planned = site.plan(branch="agents/two")
    assert planned.branch == "agents/two"
    assert seen(site.top) == before
    site.apply(branch="agents/two", files=["a.txt"])
    assert site.git("diff", "--name-only", "agents/two^", "agents/two") == "a.txt\n"


def test_a_branch_of_a_base_with_uncommitted_work_has_the_sessions_changes(site: Site) -> None:
    plain_git(site.own, "reset", "-q", "--hard", site.base)
    lay(site.own, {"a.txt": "uncommitted\n", "quiet": "uncommitted\n"})
    base = commit_all(site.own, "the uncommitted work")
    lay(site.own, {"a.txt": "uncommitted and more\n"})
    begun, site.base, site.result = site.base, base, commit_all(site.own, "result")

    site.apply(branch="one")

    assert site.git("rev-parse", "one^").strip() == begun
    assert site.git("diff", "--name-only", "one^", "one").split() == ["a.txt"]
    assert site.git("show", "one:a.txt") == "uncommitted and more\n"


def test_a_branch_of_a_base_that_the_repository_lacks_begins_at_head(site: Site) -> None:
    site.base = (
        plain_git(site.own, "hash-object", "-t", "tree", "/dev/null").stdout.decode().strip()
    )

    site.apply(branch="one")

    assert site.git("rev-parse", "one^") == site.git("rev-parse", "HEAD")
    assert site.git("show", "one:a.txt") == "1\ntheirs\n3\n"
    assert site.git("show", "one:theirs-deleted") == "changed by me\n"


def test_a_look_below_a_folder_ends_at_its_limit(tmp_path: Path) -> None:
    lay(tmp_path, {f"top/{folder}/{number}": "x" for folder in "ab" for number in range(20)})
    fs = OsFileSystem()
    with opened(fs, os.fspath(tmp_path), DIRECTORY_FLAGS) as fd:
        for limit in (1, 5, 21, 30):
            files, folders = contents_below(fs, fd, b"top", limit)
            assert len(files) + len(folders) == limit
        assert len(contents_below(fs, fd, b"top", 1000)[0]) == 40
