"""Checkouts of every kind: a result is applied rightly, or refused, and nothing is lost."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from attrs import evolve

from agentforge_sessions.repository.apply.apply import abort_apply, continue_apply
from agentforge_sessions.repository.apply.apply_errors import (
    ApplyRefused,
    CheckoutUnsupported,
    NoUnfinishedApply,
    Obstacle,
)
from tests.support.applying import Site, lay, new_site, seen, services_in, session_of
from tests.support.repositories import commit_all, new_checkout, plain_git, user_environment

BEGIN = {"a.txt": "1\n2\n3\n", "b.txt": "b\n"}
CHANGE = {"a.txt": "1\n2\nthree\n", "new.txt": "n\n"}


def test_a_repository_without_a_commit_gets_files_and_a_first_commit(tmp_path: Path) -> None:
    top = new_checkout(tmp_path / "checkout")
    lay(top, {"mine": "untracked\n"})
    own = new_checkout(tmp_path / "own")
    base = commit_all(own, "nothing")
    lay(own, {"new.txt": "n\n"})
    result = commit_all(own, "result")
    site = Site(top, own, base, result, services_in(tmp_path))

    site.apply()
    assert site.status() == ["A  new.txt", "?? mine"]
    applied = site.apply(commit=True)

    assert applied.commit == site.git("rev-parse", "main").strip()
    assert site.git("rev-list", "--count", "main") == "1\n"
    assert site.status() == ["?? mine"]


def test_a_linked_work_tree_has_an_apply_of_its_own(tmp_path: Path) -> None:
    site = new_site(tmp_path, BEGIN, CHANGE)
    linked = tmp_path / "linked"
    site.git("worktree", "add", "-q", "-b", "other", str(linked))
    before = seen(site.top)
    there = evolve(site, top=linked)

    there.apply(commit=True)

    assert there.git("rev-parse", "other") != there.git("rev-parse", "main")
    after = seen(site.top)
    assert {name for name in after if after[name] != before.get(name)} == {"(refs)"}
    with pytest.raises(NoUnfinishedApply):
        continue_apply(linked, services=site.services)


def test_a_submodule_is_neither_lost_nor_changed(tmp_path: Path) -> None:
    part = new_checkout(tmp_path / "part", {"p": "p\n"})
    top = new_checkout(tmp_path / "checkout", dict(BEGIN))
    plain_git(top, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(part), "sub")
    commit_all(top, "submodule")
    own = tmp_path / "own"
    plain_git(top, "clone", "-q", str(top), str(own))
    base = plain_git(own, "rev-parse", "HEAD").stdout.decode().strip()
    lay(own, CHANGE)
    plain_git(own, "rm", "-q", "--cached", "sub")  # as a workspace has it
    plain_git(own, "add", "-A")
    plain_git(own, "commit", "-qm", "result")
    result = plain_git(own, "rev-parse", "HEAD").stdout.decode().strip()
    site = Site(top, own, base, result, services_in(tmp_path))
    lay(top, {"sub/p": "edited inside\n"})

    site.apply(commit=True)

    assert (top / "sub" / "p").read_text() == "edited inside\n"
    assert site.git("ls-tree", "HEAD", "sub").startswith("160000 commit")
    (own / "sub").rmdir()
    lay(own, {"sub": "a file now\n"})
    site.base, site.result = site.result, commit_all(own, "in its place")
    before = seen(top)
    with pytest.raises((ApplyRefused, Exception)) as caught:
        site.apply()
    assert type(caught.value).__name__ in {"ApplyRefused", "ApplyConflict"}
    assert seen(top) == before


@pytest.mark.parametrize("how", ["attributes", "autocrlf", "info", "person's file"])
def test_line_ends_are_as_git_checks_them_out(tmp_path: Path, how: str) -> None:
    top = new_checkout(tmp_path / "checkout", dict(BEGIN))
    rules = "*.txt text eol=crlf\n"
    if how == "attributes":
        lay(top, {".gitattributes": rules})
    elif how == "autocrlf":
        lay(tmp_path, {"home/.gitconfig": "[core]\n\tautocrlf = true\n"})
    elif how == "info":
        lay(top, {".git/info/attributes": rules})
    else:
        lay(tmp_path, {"home/.config/git/attributes": rules})
    commit_all(top, "rules")
    for name in BEGIN:
        (top / name).unlink()
    home = tmp_path / "home"
    home.mkdir(exist_ok=True)
    plain_git(top, "checkout", "-f", "HEAD", "--", ".", home=home)
    assert (top / "a.txt").read_bytes() == b"1\r\n2\r\n3\r\n"
    site = session_of(tmp_path, top, CHANGE)
    (site.own / "a.txt").write_bytes(b"1\n2\nthree\n")
    site.result = commit_all(site.own, "plain line ends")

    site.apply()

    assert (top / "a.txt").read_bytes() == b"1\r\n2\r\nthree\r\n"
    assert (top / "new.txt").read_bytes() == b"n\r\n"
    status = plain_git(top, "status", "--porcelain", home=home).stdout
    assert status == b"M  a.txt\nA  new.txt\n"


def test_a_path_of_a_filter_program_is_refused_unless_it_may_run(tmp_path: Path) -> None:
    begin = {**BEGIN, ".gitattributes": "*.bin filter=rot\n", "x.bin": "abc\n"}
    site = new_site(tmp_path, begin, {"x.bin": "nop\n", **CHANGE})
    config = '[filter "rot"]\n\tclean = tr a-m n-z\n\tsmudge = tr n-z a-m\n\trequired = true\n'
    lay(tmp_path, {"home/.gitconfig": config})
    before = seen(site.top)
    with pytest.raises(ApplyRefused) as caught:
        site.apply()
    assert [(one.path, one.obstacle, one.detail) for one in caught.value.blocked] == [
        ("x.bin", Obstacle.FILTER, "rot")
    ]
    assert seen(site.top) == before
    site.apply(files=["*.txt"])


def test_filters_run_if_asked(tmp_path: Path) -> None:
    """The object holds what the filter cleaned, the checkout what it made of that."""
    home = tmp_path / "home"
    home.mkdir()
    config = '[filter "up"]\n\tclean = tr A-Z a-z\n\tsmudge = tr a-z A-Z\n\trequired = true\n'
    lay(home, {".gitconfig": config})
    top = new_checkout(tmp_path / "checkout", {".gitattributes": "*.up filter=up\n"})
    lay(top, {"x.up": "ABC\n"})
    plain_git(top, "add", "-A", home=home)
    plain_git(top, "commit", "-qm", "up", home=home)
    site = session_of(tmp_path, top, {"x.up": "def\n"})

    site.apply(run_filters=True, commit=True)

    assert (top / "x.up").read_text() == "DEF\n"
    assert site.git("show", "HEAD:x.up") == "def\n"
    assert plain_git(top, "status", "--porcelain", home=home).stdout == b""


def test_what_a_sparse_checkout_leaves_out_is_refused(tmp_path: Path) -> None:
    begin = {"in/x": "x\n", "out/y": "y\n"}
    site = new_site(tmp_path, begin, {"in/x": "x2\n", "out/y": "y2\n"})
    site.git("sparse-checkout", "set", "--cone", "--sparse-index", "in")
    before = seen(site.top)
    with pytest.raises(ApplyRefused) as caught:
        site.apply()
    assert [(one.path, one.obstacle) for one in caught.value.blocked] == [
        ("out/y", Obstacle.SPARSE)
    ]
    assert seen(site.top) == before

    site.apply(files=["in"])

    assert site.status() == ["M  in/x"]
    assert not (site.top / "out").exists()


@pytest.mark.parametrize("kind", ["--cone", "--no-cone"])
def test_a_new_file_outside_a_sparse_checkout_is_refused(tmp_path: Path, kind: str) -> None:
    begin = {"in/x": "x\n", "out/y": "y\n", "top": "t\n"}
    new = {"in/new": "n\n", "in/deep/new": "n\n", "out/new": "n\n", "other/new": "n\n"}
    site = new_site(tmp_path, begin, {**begin, **new})
    site.git("sparse-checkout", "set", kind, "in")
    before = seen(site.top)
    with pytest.raises(ApplyRefused) as caught:
        site.apply()
    assert [(one.path, one.obstacle) for one in caught.value.blocked] == [
        ("other/new", Obstacle.SPARSE),
        ("out/new", Obstacle.SPARSE),
    ]
    assert seen(site.top) == before

    site.apply(files=["in"])

    assert site.status() == ["A  in/deep/new", "A  in/new"]
    site.git("sparse-checkout", "disable")
    site.apply()
    assert site.status() == [f"A  {path}" for path in sorted(new)]


def test_a_repository_that_names_another_folder_as_its_checkout_is_refused(tmp_path: Path) -> None:
    site = new_site(tmp_path, BEGIN, CHANGE)
    for elsewhere in (str(tmp_path), "/"):
        site.git("config", "core.worktree", elsewhere)
        with pytest.raises((CheckoutUnsupported, Exception)) as caught:
            site.apply()
        assert type(caught.value).__name__ in {"CheckoutUnsupported", "NotARepository"}
        assert not (tmp_path / "new.txt").exists()


def test_nothing_to_continue_or_abort_is_said(tmp_path: Path) -> None:
    site = new_site(tmp_path, BEGIN, CHANGE)
    for act in (continue_apply, abort_apply):
        with pytest.raises(NoUnfinishedApply):
            act(site.top, services=site.services)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_what_root_writes_belongs_to_the_checkouts_owner(tmp_path: Path) -> None:
    site = new_site(tmp_path, BEGIN, {**CHANGE, "folder/x": "x\n"})
    subprocess.run(["chown", "-R", "12345:12345", site.top], check=True)
    site.apply(commit=True)
    written = [site.top / "a.txt", site.top / "folder", site.top / "folder" / "x"]
    written += [site.top / ".git" / "index", *(site.top / ".git/objects/pack").iterdir()]
    assert {path.stat().st_uid for path in written} == {12345}


def test_the_environment_of_the_caller_names_no_other_repository(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = new_site(tmp_path, BEGIN, CHANGE)
    other = new_checkout(tmp_path / "other", {"o": "o\n"})
    before = seen(other)
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other / ".git" / "index"))
    monkeypatch.setenv("GIT_WORK_TREE", str(other))
    site.apply(commit=True)
    monkeypatch.undo()
    assert seen(other) == before
    assert user_environment(tmp_path)["HOME"] == str(tmp_path)
