"""A result is applied to a checkout as a whole, or not at all."""

from __future__ import annotations

import errno
import os
import time
from pathlib import Path

import pytest
from attrs import evolve

from agentforge_sessions.repository.apply.apply_errors import (
    ApplyConflict,
    ApplyFailed,
    ApplyRefused,
    BranchRefused,
    CheckoutBusy,
    CommitRefused,
    NoIdentity,
    Obstacle,
)
from tests.support.applying import Step, arrange, files_of, lay, new_site, seen, session_of
from tests.support.filesystem import Call, FaultyFileSystem, Plan
from tests.support.promptness import wait_until
from tests.support.repositories import commit_all, new_checkout, plain_git

BEGIN = {
    "a.txt": "1\n2\n3\n4\n5\n6\n",
    "src/b.py": "b = 1\n",
    "src/c.py": "c = 1\n",
    "run.sh": "x\n",
}
CHANGE = {"a.txt": "1\n2\n3\n4\n5\nsix\n", "src/c.py": None, "new/d.py": "d\n"}


def test_files_are_written_staged_and_nothing_else_changes(tmp_path: Path) -> None:
    site = new_site(tmp_path, BEGIN, CHANGE)

    applied = site.apply()

    assert [(one.path, one.change) for one in applied.paths] == [
        ("a.txt", "modified"),
        ("new/d.py", "added"),
        ("src/c.py", "deleted"),
    ]
    assert files_of(site.top) == {
        "a.txt": b"1\n2\n3\n4\n5\nsix\n",
        "src/b.py": b"b = 1\n",
        "run.sh": b"x\n",
        "new/d.py": b"d\n",
    }
    assert site.status() == ["M  a.txt", "A  new/d.py", "D  src/c.py"]
    assert seen(site.top)["(lock)"] == (False, False)
    assert not list((tmp_path / "scratch").iterdir())
    assert site.git("fsck", "--strict", "--no-dangling") == ""


def test_a_dry_run_changes_nothing(tmp_path: Path) -> None:
    site = new_site(tmp_path, BEGIN, CHANGE)
    before = seen(site.top)

    planned = site.plan()

    assert planned.dry_run
    assert [one.path for one in planned.paths] == ["a.txt", "new/d.py", "src/c.py"]
    assert seen(site.top) == before
    assert site.git("count-objects", "-v") == site.git("count-objects", "-v")
    assert not list((site.top / ".git" / "objects" / "pack").iterdir())


def test_modes_links_and_emptied_folders_are_as_git_checks_them_out(tmp_path: Path) -> None:
    site = new_site(tmp_path, BEGIN, {"link": "-> src/b.py", "out": "-> ../../elsewhere"})
    (site.own / "run.sh").chmod(0o755)
    lay(site.own, {"src/b.py": None, "src/c.py": None})
    site.result = commit_all(site.own, "modes")

    site.apply()

    assert (site.top / "run.sh").stat().st_mode & 0o111 == 0o111
    assert os.readlink(site.top / "link") == "src/b.py"
    assert os.readlink(site.top / "out") == "../../elsewhere"
    assert not (site.top / "src").exists()
    assert site.git("diff", "--stat") == ""


def test_a_file_that_only_its_owner_may_read_stays_so(tmp_path: Path) -> None:
    site = new_site(tmp_path, BEGIN, CHANGE)
    (site.top / "a.txt").chmod(0o600)
    site.apply()
    assert (site.top / "a.txt").stat().st_mode & 0o777 == 0o600


def test_a_file_becomes_a_folder_and_a_folder_a_file(tmp_path: Path) -> None:
    begin = {"thing": "file\n", "box/x": "x\n", "box/deep/y": "y\n"}
    site = new_site(tmp_path, begin, {"thing": None, "box/x": None, "box/deep/y": None})
    (site.own / "box" / "deep").rmdir()
    (site.own / "box").rmdir()
    lay(site.own, {"thing/part": "p\n", "box": "now a file\n"})
    site.result = commit_all(site.own, "turned")

    site.apply()

    assert files_of(site.top) == {"thing/part": b"p\n", "box": b"now a file\n"}
    assert site.git("diff", "--stat") == ""
    assert site.apply().nothing_to_do


def test_names_of_any_bytes_are_applied(tmp_path: Path) -> None:
    names = ["new\nline", "tab\tand space", "-dash", ":(top)x", "*.py", 'q"uote', "\\back", "ü/é"]
    site = new_site(tmp_path, {"keep": "k\n"}, {name: f"{name}\n" for name in names})
    raw = os.fsencode(site.own) + b"/not-utf-8-\xff"
    with open(raw, "wb") as file:
        file.write(b"raw\n")
    site.result = commit_all(site.own, "names")

    site.apply()

    assert files_of(site.top) == {
        "keep": b"k\n",
        "not-utf-8-\udcff": b"raw\n",
        **{name: f"{name}\n".encode() for name in names},
    }
    assert site.git("diff", "--stat") == ""


# ------------------------------------------------------------------------ what is there already


def test_a_second_apply_says_that_all_is_there(tmp_path: Path) -> None:
    site = new_site(tmp_path, BEGIN, CHANGE)
    site.apply()
    before = seen(site.top)

    again = site.apply()

    assert again.nothing_to_do
    assert again.already == ("a.txt", "new/d.py", "src/c.py")
    assert seen(site.top) == before


def test_an_applied_result_is_committed_by_a_second_apply(tmp_path: Path) -> None:
    site = new_site(tmp_path, BEGIN, CHANGE)
    site.apply()

    applied = site.apply(commit=True, message="Take it")

    assert applied.commit == site.git("rev-parse", "HEAD").strip()
    assert site.status() == []


# -------------------------------------------------------------------------------- the checkout


@pytest.mark.parametrize("moved", [True, False])
def test_other_work_stays_and_other_hunks_are_merged(tmp_path: Path, moved: bool) -> None:
    """HEAD moved in another hunk; one file staged, one unstaged, one untracked, one stashed."""
    site = new_site(tmp_path, {**BEGIN, "e": "e\n"}, CHANGE)
    if moved:
        lay(site.top, {"a.txt": "one\n2\n3\n4\n5\n6\n"})
        commit_all(site.top, "moved")
    lay(site.top, {"e": "stashed\n"})
    site.git("stash")
    lay(site.top, {"src/b.py": "staged\n", "run.sh": "unstaged\n", "untracked": "u\n"})
    site.git("add", "src/b.py")

    site.apply()

    first = "one" if moved else "1"
    assert (site.top / "a.txt").read_text() == f"{first}\n2\n3\n4\n5\nsix\n"
    assert site.status() == [
        "M  a.txt",
        "A  new/d.py",
        " M run.sh",
        "M  src/b.py",
        "D  src/c.py",
        "?? untracked",
    ]
    assert site.git("show", ":src/b.py") == "staged\n"
    assert site.git("stash", "show", "-p").count("+stashed") == 1


def test_a_conflict_touches_nothing_and_names_the_paths(tmp_path: Path) -> None:
    site = new_site(tmp_path, BEGIN, CHANGE)
    lay(site.top, {"a.txt": "1\n2\n3\n4\n5\nSIX\n"})
    commit_all(site.top, "the same line")
    before = seen(site.top)

    with pytest.raises(ApplyConflict) as caught:
        site.apply()

    assert caught.value.conflicts == ("a.txt",)
    assert seen(site.top) == before


DIRTY: dict[str, tuple[Obstacle, list[Step]]] = {
    "modified": (Obstacle.MODIFIED, [{"a.txt": "mine\n"}]),
    "staged": (Obstacle.STAGED, [{"a.txt": "mine\n2\n3\n4\n5\n6\n"}, ("add", "a.txt")]),
    "staged and put back": (
        Obstacle.STAGED,
        [{"a.txt": "mine\n"}, ("add", "a.txt"), {"a.txt": BEGIN["a.txt"]}],
    ),
    "deleted": (Obstacle.DELETED, [{"a.txt": None}]),
    "deleted file edited": (Obstacle.MODIFIED, [{"src/c.py": "precious\n"}]),
    "untracked": (Obstacle.UNTRACKED, [{"new/d.py": "precious\n"}]),
    "untracked link": (Obstacle.UNTRACKED, [{"new/d.py": "-> /nowhere"}]),
    "assume unchanged": (
        Obstacle.MODIFIED,
        [("update-index", "--assume-unchanged", "a.txt"), {"a.txt": "mine\n"}],
    ),
    "skip worktree": (
        Obstacle.SPARSE,
        [("update-index", "--skip-worktree", "a.txt"), {"a.txt": "mine\n"}],
    ),
    "executable bit": (Obstacle.MODIFIED, [lambda top: (top / "a.txt").chmod(0o755)]),
    "intent to add": (
        Obstacle.STAGED,
        [{"new/d.py": "precious\n"}, ("add", "-N", "new/d.py")],
    ),
    "folder in the way": (Obstacle.FOLDER_IN_THE_WAY, [{"new/d.py/inner": "precious\n"}]),
    "file in the way": (Obstacle.FILE_IN_THE_WAY, [{"new": "precious\n"}]),
    "link on the way": (Obstacle.THROUGH_LINK, [{"new": "-> ../outside"}]),
    "fifo": (
        Obstacle.SPECIAL_FILE,
        [{"new/x": ""}, lambda top: os.mkfifo(top / "new" / "d.py")],
    ),
    "case clash": (Obstacle.CASE_CLASH, [{"NEW/other": "precious\n"}]),
    "other repository": (
        Obstacle.OTHER_REPOSITORY,
        [lambda top: new_checkout(top / "new", {"their": "file\n"})],
    ),
    "folder for a file": (Obstacle.DELETED, [{"a.txt": None}, {"a.txt/inner": "precious\n"}]),
}
"""What the person has that would be lost, and how it is named."""


@pytest.mark.parametrize("kind", DIRTY)
def test_what_would_be_lost_is_refused_and_every_byte_stays(tmp_path: Path, kind: str) -> None:
    site = new_site(tmp_path, BEGIN, CHANGE)
    lay(tmp_path, {"outside/d.py": "outside\n"})
    obstacle, steps = DIRTY[kind]
    arrange(site.top, *steps)
    before = seen(site.top)

    with pytest.raises(ApplyRefused) as caught:
        site.apply()

    assert {one.obstacle for one in caught.value.blocked} == {obstacle}
    assert all(one.path in str(caught.value) for one in caught.value.blocked)
    assert seen(site.top) == before
    assert (tmp_path / "outside" / "d.py").read_text() == "outside\n"


def test_an_ignored_file_in_the_way_is_told_as_one(tmp_path: Path) -> None:
    """A new file that the result's own rules do not ignore, and the checkout's do."""
    begin = {**BEGIN, ".gitignore": "*.log\n"}
    site = new_site(tmp_path, begin, {".gitignore": "", "x.log": "theirs\n"})
    lay(site.top, {"x.log": "precious\n"})
    before = seen(site.top)

    with pytest.raises(ApplyRefused) as caught:
        site.apply()

    assert [(one.path, one.obstacle) for one in caught.value.blocked] == [
        ("x.log", Obstacle.IGNORED)
    ]
    assert seen(site.top) == before


def test_every_path_in_the_way_is_listed(tmp_path: Path) -> None:
    site = new_site(tmp_path, BEGIN, CHANGE)
    lay(site.top, {"a.txt": "mine\n", "new/d.py": "mine\n", "src/c.py": "mine\n"})

    with pytest.raises(ApplyRefused) as caught:
        site.apply()

    assert [one.path for one in caught.value.blocked] == ["a.txt", "new/d.py", "src/c.py"]


def test_changes_that_the_session_began_with_are_no_obstacle(tmp_path: Path) -> None:
    """The base has a file as it stands here, uncommitted: the result is written over it."""
    site = new_site(tmp_path, BEGIN, {})
    mine = {"a.txt": "mine\n2\n3\n4\n5\n6\n", "untracked": "u\n"}
    lay(site.top, mine)
    lay(site.own, mine)
    site.base = commit_all(site.own, "with uncommitted")
    lay(site.own, {"a.txt": "mine\n2\n3\n4\n5\nsix\n", "untracked": "u2\n"})
    site.result = commit_all(site.own, "result")
    index = site.git("ls-files", "-s")

    with pytest.raises(ApplyRefused) as caught:
        site.apply(commit=True)
    site.apply()

    assert {one.obstacle for one in caught.value.blocked} == {Obstacle.UNCOMMITTED_BASE}
    assert (site.top / "a.txt").read_text() == "mine\n2\n3\n4\n5\nsix\n"
    assert (site.top / "untracked").read_text() == "u2\n"
    assert site.git("ls-files", "-s") == index
    assert site.apply().nothing_to_do


def _failing_after_the_index() -> Plan:
    """Fail the first sync after the new index is in place."""
    state = ["before"]

    def plan(_: int, call: Call) -> int | None:
        if call.operation == "rename" and call.path.endswith("/index") and state == ["before"]:
            state[0] = "after"
        elif call.operation == "fsync" and state == ["after"]:
            state[0] = "failed"
            return errno.EIO
        return None

    return plan


@pytest.mark.parametrize("aborted", [False, True], ids=["applied", "aborted"])
def test_an_edit_within_the_second_of_its_staging_stays_visible(
    tmp_path: Path, aborted: bool
) -> None:
    """Git compares sizes and whole seconds, and looks closer at what is as young as the index."""
    site = new_site(tmp_path, BEGIN, CHANGE)
    for number in range(100):
        lay(site.top, {"run.sh": f"{number:04d}"})
        second = int((site.top / "run.sh").stat().st_ctime)
        site.git("add", "run.sh")
        (site.top / "run.sh").write_text("late")
        if int((site.top / "run.sh").stat().st_ctime) == second:
            break
    else:
        pytest.fail("git add takes longer than a second here")
    wait_until(lambda: time.time() > second + 1)

    if aborted:
        fs = FaultyFileSystem(plan=_failing_after_the_index())
        with pytest.raises(ApplyFailed):
            evolve(site, services=evolve(site.services, fs=fs)).apply()
    else:
        site.apply()

    assert "MM run.sh" in site.status()


def test_an_index_that_another_program_holds_is_left_to_it(tmp_path: Path) -> None:
    site = new_site(tmp_path, BEGIN, CHANGE)
    (site.top / ".git" / "index.lock").write_bytes(b"theirs")
    before = seen(site.top)

    with pytest.raises(CheckoutBusy) as caught:
        site.apply()

    assert caught.value.retryable
    assert seen(site.top) == before


# ------------------------------------------------------------------------ what is taken, and how


def test_files_that_the_repository_ignores_stay_out(tmp_path: Path) -> None:
    begin = {**BEGIN, ".gitignore": "build/\n*.log\n", "kept.log": "tracked all the same\n"}
    change = {"build/out": "o\n", "x.log": "x\n", "kept.log": "changed\n", "mine.tmp": "t\n"}
    site = new_site(tmp_path, begin, change)
    lay(site.top, {".git/info/exclude": "*.tmp\n"})

    applied = site.apply()

    assert [one.path for one in applied.paths] == ["kept.log"]
    assert applied.ignored == ("build/out", "mine.tmp", "x.log")
    assert not (site.top / "build").exists()


def test_rules_of_the_person_apply_too(tmp_path: Path) -> None:
    site = new_site(tmp_path, BEGIN, {"x.swp": "x\n", "y.bak": "y\n", "z": "z\n"})
    lay(tmp_path, {"home/.config/git/ignore": "*.swp\n"})
    assert site.apply().ignored == ("x.swp",)
    lay(
        tmp_path, {"home/.gitconfig": "[core]\n\texcludesFile = ~/rules\n", "home/rules": "*.bak\n"}
    )
    assert site.plan().ignored == ("y.bak",)


@pytest.mark.parametrize(
    ("globs", "taken"),
    [
        (["src"], ["src/c.py"]),
        (["*.py"], ["new/d.py", "src/c.py"]),
        (["/a.txt", "new/*"], ["a.txt", "new/d.py"]),
        (["**/c.py"], ["src/c.py"]),
        (["nothing"], []),
    ],
)
def test_globs_choose_what_is_applied(tmp_path: Path, globs: list[str], taken: list[str]) -> None:
    site = new_site(tmp_path, BEGIN, CHANGE)
    applied = site.apply(files=globs)
    assert [one.path for one in applied.paths] == taken
    assert sorted([*taken, *applied.left_out]) == ["a.txt", "new/d.py", "src/c.py"]
    rest = site.apply()
    assert sorted([*taken, *(one.path for one in rest.paths)]) == ["a.txt", "new/d.py", "src/c.py"]


def test_a_commit_holds_the_result_alone(tmp_path: Path) -> None:
    site = new_site(tmp_path, BEGIN, CHANGE)
    lay(site.top, {"src/b.py": "staged\n"})
    site.git("add", "src/b.py")

    applied = site.apply(commit=True, message="Take it\n\nAll of it")

    assert site.git("log", "-1", "--format=%B%an <%ae>") == (
        "Take it\n\nAll of it\nAda <ada@example.org>\n"
    )
    assert applied.commit == site.git("rev-parse", "main").strip()
    assert site.git("show", "--name-only", "--format=", "HEAD").split() == [
        *("a.txt", "new/d.py", "src/c.py")
    ]
    assert site.status() == ["M  src/b.py"]
    assert "agentforge: apply it" in site.git("reflog", "-1")


def test_a_commit_without_a_name_is_refused(tmp_path: Path) -> None:
    site = new_site(tmp_path, BEGIN, CHANGE)
    nameless = {
        name: value
        for name, value in site.services.environment.items()
        if not name.startswith(("GIT_AUTHOR", "GIT_COMMITTER"))
    }
    site.services = evolve(site.services, environment=nameless)
    before = seen(site.top)
    with pytest.raises(NoIdentity):
        site.apply(commit=True)
    assert seen(site.top) == before
    lay(tmp_path, {"home/.gitconfig": "[user]\n\tname = Eve\n\temail = eve@example.org\n"})
    site.apply(commit=True)
    assert site.git("log", "-1", "--format=%an %cn") == "Eve Eve\n"


def test_a_branch_gets_the_commit_and_the_checkout_stays(tmp_path: Path) -> None:
    site = new_site(tmp_path, BEGIN, CHANGE)
    lay(site.top, {"a.txt": "mine\n", "new/d.py": "mine\n"})
    before = seen(site.top)

    applied = site.apply(branch="agents/one")

    after = seen(site.top)
    assert {name for name in after if after[name] != before.get(name)} == {"(refs)"}
    assert applied.commit == site.git("rev-parse", "agents/one").strip()
    assert site.git("show", "agents/one:a.txt") == "1\n2\n3\n4\n5\nsix\n"
    assert site.git("rev-parse", "agents/one^") == site.git("rev-parse", "HEAD")
    with pytest.raises(BranchRefused):
        site.apply(branch="agents/one")


def test_names_that_are_no_branch_are_refused(tmp_path: Path) -> None:
    site = new_site(tmp_path, BEGIN, CHANGE)
    before = seen(site.top)
    for name in ("", "-x", "a..b", "x.lock", "HEAD", "a b", "a\nb", "@{-1}"):
        with pytest.raises(BranchRefused):
            site.apply(branch=name)
    assert seen(site.top) == before


def _hook(top: Path, name: str, body: str) -> None:
    path = top / ".git" / "hooks" / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def test_hooks_run_only_if_asked(tmp_path: Path) -> None:
    site = new_site(tmp_path, BEGIN, CHANGE)
    ran = tmp_path / "ran"
    for name in (
        *("pre-commit", "commit-msg", "post-commit", "post-checkout", "reference-transaction"),
        *("post-index-change", "prepare-commit-msg", "pre-applypatch", "post-merge"),
    ):
        _hook(site.top, name, f'echo "$0" >> {ran}')
    site.apply(commit=True)
    assert not ran.exists()
    lay(site.own, {"a.txt": "more\n"})
    site.base, site.result = site.result, commit_all(site.own, "more")
    site.apply(branch="one")
    assert not ran.exists()

    applied = site.apply(commit=True, hooks=True)

    assert {"pre-commit", "post-commit"} <= {Path(one).name for one in ran.read_text().split()}
    assert applied.commit == site.git("rev-parse", "HEAD").strip()
    assert site.status() == []


def test_a_hook_that_refuses_leaves_the_result_applied(tmp_path: Path) -> None:
    site = new_site(tmp_path, BEGIN, CHANGE)
    _hook(site.top, "pre-commit", "echo not like this >&2; exit 1")
    with pytest.raises(CommitRefused, match="not like this"):
        site.apply(commit=True, hooks=True)
    assert site.git("rev-list", "--count", "HEAD") == "1\n"
    assert site.status() == ["M  a.txt", "A  new/d.py", "D  src/c.py"]


def test_a_result_of_another_branch_brings_only_its_own_change(tmp_path: Path) -> None:
    """The base is no ancestor of HEAD: what the base's branch did meanwhile is not brought."""
    top = new_checkout(tmp_path / "checkout", {**BEGIN})
    plain_git(top, "switch", "-q", "-c", "side")
    lay(top, {"side.txt": "only on side\n"})
    commit_all(top, "side")
    site = session_of(tmp_path, top, CHANGE)
    plain_git(top, "switch", "-q", "main")

    site.apply()

    assert not (top / "side.txt").exists()
    assert (top / "a.txt").read_text().endswith("six\n")
