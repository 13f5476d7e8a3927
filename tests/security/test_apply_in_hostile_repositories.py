"""Bringing a result home runs nothing that the result or the repository names, and stays inside."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from agentforge_sessions.repository.apply.apply_errors import ApplyRefused, Obstacle
from tests.support.applying import Site, files_of, lay, new_site, seen, services_in
from tests.support.repositories import canary, commit_all, new_checkout, plain_git

BEGIN = {"a.txt": "1\n2\n3\n4\n5\n6\n7\n", "b.txt": "b\n"}
CHANGE = {"a.txt": "1\n2\n3\n4\n5\n6\nseven\n", "new.txt": "n\n"}
HOOKS = (
    *("pre-commit", "post-commit", "commit-msg", "prepare-commit-msg", "post-checkout"),
    *("post-merge", "reference-transaction", "post-index-change", "post-rewrite", "pre-auto-gc"),
)


def _armed(site: Site, folder: Path, attributes: str) -> Path:
    """Have the repository name a program for everything that git could run."""
    program, ran = canary(folder)
    hooks = site.top / ".git" / "hooks"
    hooks.mkdir(exist_ok=True)
    for name in HOOKS:
        (hooks / name).symlink_to(program)
    included = site.top / ".git" / "more"
    included.write_text(f"[core]\n\tfsmonitor = {program}\n\tpager = {program}\n")
    for key in (
        *("core.fsmonitor", "core.editor", "core.sshCommand", "core.alternateRefsCommand"),
        *("diff.external", "diff.evil.textconv", "diff.evil.command", "gpg.program"),
        *("merge.evil.driver", "credential.helper", "sequence.editor", "core.askPass"),
    ):
        plain_git(site.top, "config", key, str(program))
    plain_git(site.top, "config", "include.path", str(included))
    plain_git(site.top, "config", "commit.gpgSign", "true")
    plain_git(site.top, "config", "core.logAllRefUpdates", "true")
    (site.top / ".git" / "info" / "attributes").write_text(attributes)
    ran.unlink(missing_ok=True)
    return ran


def test_no_program_that_the_repository_names_runs(tmp_path: Path) -> None:
    site = new_site(tmp_path, BEGIN, CHANGE)
    lay(site.top, {"b.txt": "moved\n"})
    commit_all(site.top, "moved")
    ran = _armed(site, tmp_path, "* diff=evil merge=evil\n")

    site.plan()
    site.apply()
    site.apply(commit=True)

    assert not ran.exists()
    assert (site.top / "a.txt").read_text() == CHANGE["a.txt"]
    plain_git(site.top, "status", check=False)
    assert ran.exists(), "the trap does not spring"


@pytest.mark.parametrize("key", ["clean", "smudge", "process"])
def test_a_filter_of_the_repository_is_refused_and_does_not_run(tmp_path: Path, key: str) -> None:
    site = new_site(tmp_path, BEGIN, {**CHANGE, ".gitattributes": "* filter=evil\n"})
    program, ran = canary(tmp_path)
    plain_git(site.top, "config", f"filter.evil.{key}", str(program))
    before = seen(site.top)
    ran.unlink(missing_ok=True)
    with pytest.raises(ApplyRefused) as caught:
        site.apply()
    assert {one.obstacle for one in caught.value.blocked} == {Obstacle.FILTER}
    assert not ran.exists()
    ran.unlink(missing_ok=True)
    assert seen(site.top) == before


def test_a_merge_driver_is_refused_and_does_not_run(tmp_path: Path) -> None:
    site = new_site(tmp_path, BEGIN, CHANGE)
    lay(site.top, {"a.txt": "one\n2\n3\n4\n5\n6\n7\n", ".gitattributes": "*.txt merge=evil\n"})
    commit_all(site.top, "both changed it")
    program, ran = canary(tmp_path)
    plain_git(site.top, "config", "merge.evil.driver", f"{program} %A")
    before = seen(site.top)
    with pytest.raises(ApplyRefused) as caught:
        site.apply()
    assert [one.obstacle for one in caught.value.blocked] == [Obstacle.MERGE_DRIVER]
    assert not ran.exists()
    assert seen(site.top) == before


def _tree(own: Path, entries: list[tuple[str, str, bytes]]) -> str:
    """Make a tree that git itself would refuse to check out."""

    def git(*words: str, stdin: bytes) -> str:
        return plain_git(own, *words, stdin=stdin).stdout.decode().strip()

    lines = b""
    for mode, name, content in entries:
        if mode == "040000":
            oid, kind = content.decode(), "tree"
        else:
            oid, kind = git("hash-object", "-w", "--stdin", stdin=content), "blob"
        lines += f"{mode} {kind} {oid}\t".encode() + name.encode() + b"\0"
    return git("mktree", "-z", "--missing", stdin=lines)


@pytest.mark.parametrize("name", [".git", ".GIT", "git~1", "..", ".git ", ".g\u200cit", "a\\.git"])
def test_names_that_reach_into_the_repository_or_out_are_refused(tmp_path: Path, name: str) -> None:
    top = new_checkout(tmp_path / "checkout", dict(BEGIN))
    own = tmp_path / "own"
    plain_git(top, "clone", "-q", str(top), str(own))
    base = plain_git(own, "rev-parse", "HEAD").stdout.decode().strip()
    inner = _tree(own, [("100755", "config", b"[core]\n\tfsmonitor = evil\n")])
    evil = _tree(own, [("100644", "b.txt", b"b\n"), ("040000", name, inner.encode())])
    site = Site(top, own, base, evil, services_in(tmp_path))
    before = seen(top)
    inside = {path: path.read_bytes() for path in (top / ".git").rglob("*") if path.is_file()}
    outside = sorted(path.name for path in tmp_path.iterdir())
    for act in (site.apply, lambda: site.apply(branch="one")):
        with pytest.raises(Exception) as caught:
            act()
        assert type(caught.value).__name__ in {"ApplyRefused", "GitFailed", "ObjectsMissing"}
    assert seen(top) == before
    assert {path: path.read_bytes() for path in inside} == inside
    assert sorted(path.name for path in tmp_path.iterdir()) == outside


def test_a_link_and_a_file_beneath_it_never_meet(tmp_path: Path) -> None:
    """The result turns a folder into a link outside; what was in it goes, and nothing outside."""
    site = new_site(tmp_path, {"d/x": "x\n", "keep": "k\n"}, {"d/x": None})
    outside = tmp_path / "outside"
    lay(outside, {"x": "precious\n"})
    if (site.own / "d").exists():
        (site.own / "d").rmdir()
    lay(site.own, {"d": f"-> {outside}"})
    site.result = commit_all(site.own, "link")
    site.apply()
    assert (site.top / "d").is_symlink()
    assert (outside / "x").read_text() == "precious\n"


def test_a_fifo_among_the_checkouts_attributes_does_not_hang(tmp_path: Path) -> None:
    site = new_site(tmp_path, BEGIN, CHANGE)
    subprocess.run(["mkfifo", site.top / ".gitattributes"], check=True)
    site.apply()
    (site.top / ".gitattributes").unlink()
    assert files_of(site.top)["new.txt"] == b"n\n"
