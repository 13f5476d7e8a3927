"""Git runs no program that a work tree, a repository or a person's configuration names.

Each trap is sprung by plain git first, so that a trap that can't spring is noticed.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from agentforge_sessions.repository import Git, OwnRepository, UserRepository
from tests.support.repositories import canary, commit_all, new_checkout, plain_git, write_files

LISTED = b"a.txt\0sub/b.txt\0.gitattributes\0"


class Trap:
    """A checkout, and a canary for whatever names it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.program, self.ran = canary(folder)
        self.work = new_checkout(folder / "work", {"a.txt": "one\n", "sub/b.txt": "two\n"})
        self.add_all()

    def add_all(self) -> None:
        (self.work / ".gitattributes").write_text("")
        commit_all(self.work, "attributes")
        (self.work / "a.txt").write_text("changed\n")

    def configure(self, key: str, value: str | None = None) -> None:
        plain_git(self.work, "config", key, str(self.program) if value is None else value)

    def configure_user(self, key: str) -> None:
        plain_git(self.work, "config", "--global", key, str(self.program))

    def attributes(self, text: str) -> None:
        (self.work / ".gitattributes").write_text(text)

    def hook(self, name: str, folder: Path | None = None) -> None:
        hooks = self.work / ".git" / "hooks" if folder is None else folder
        hooks.mkdir(exist_ok=True, parents=True)
        (hooks / name).symlink_to(self.program)

    def sprung(self) -> bool:
        sprung = self.ran.exists()
        self.ran.unlink(missing_ok=True)
        return sprung


def fsmonitor(trap: Trap) -> None:
    trap.configure("core.fsmonitor")


def hooks(trap: Trap) -> None:
    for name in ("pre-commit", "post-commit", "post-checkout", "reference-transaction"):
        trap.hook(name)


def hooks_path(trap: Trap) -> None:
    trap.hook("reference-transaction", trap.work / "my-hooks")
    trap.configure("core.hooksPath", str(trap.work / "my-hooks"))


def filter_of_the_repository(trap: Trap) -> None:
    trap.attributes("* filter=evil\n")
    trap.configure("filter.evil.clean")
    trap.configure("filter.evil.smudge")


def filter_process_with_an_odd_name(trap: Trap) -> None:
    trap.attributes("* filter=e=v.il\n")
    trap.configure("filter.e=v.il.process")
    trap.configure("filter.e=v.il.required", "true")


def filter_of_the_user(trap: Trap) -> None:
    trap.attributes("* filter=lfs\n")
    trap.configure_user("filter.lfs.clean")
    trap.configure_user("filter.lfs.smudge")


def textconv(trap: Trap) -> None:
    trap.attributes("* diff=evil\n")
    trap.configure("diff.evil.textconv")


def textconv_of_the_user(trap: Trap) -> None:
    trap.attributes("* diff=evil\n")
    trap.configure_user("diff.evil.textconv")


def external_diff(trap: Trap) -> None:
    trap.configure("diff.external")


def external_diff_by_attribute(trap: Trap) -> None:
    trap.attributes("* diff=evil\n")
    trap.configure("diff.evil.command")


def included_configuration(trap: Trap) -> None:
    (trap.work / "more.cfg").write_text(f"[core]\n\tfsmonitor = {trap.program}\n")
    trap.configure("include.path", str(trap.work / "more.cfg"))


def git_file(trap: Trap) -> None:
    trap.configure("core.fsmonitor")
    (trap.work / ".git").rename(trap.folder / "elsewhere")
    (trap.work / ".git").write_text(f"gitdir: {trap.folder / 'elsewhere'}\n")


def git_link(trap: Trap) -> None:
    trap.configure("core.fsmonitor")
    (trap.work / ".git").rename(trap.folder / "elsewhere")
    (trap.work / ".git").symlink_to(trap.folder / "elsewhere")


def nested_repository(trap: Trap) -> None:
    nested = new_checkout(trap.work / "sub" / "nested", {"c.txt": "c\n"})
    plain_git(nested, "config", "core.fsmonitor", str(trap.program), home=trap.folder)
    plain_git(trap.work, "add", "sub/nested", check=False)
    (nested / "c.txt").write_text("changed\n")


def signing_program(trap: Trap) -> None:
    trap.configure("commit.gpgSign", "true")
    trap.configure("gpg.program")


TRAPS: list[Callable[[Trap], None]] = [
    fsmonitor,
    hooks,
    hooks_path,
    filter_of_the_repository,
    filter_process_with_an_odd_name,
    filter_of_the_user,
    textconv,
    textconv_of_the_user,
    external_diff,
    external_diff_by_attribute,
    included_configuration,
    git_file,
    git_link,
    nested_repository,
    signing_program,
]


@pytest.fixture
def trap(tmp_path: Path) -> Trap:
    return Trap(tmp_path)


@pytest.fixture(params=TRAPS, ids=lambda one: one.__name__)
def set_trap(trap: Trap, request: pytest.FixtureRequest) -> Trap:
    request.param(trap)
    for command in (["status"], ["diff"], ["add", "-A"], ["commit", "-qm", "x"]):
        plain_git(trap.work, *command, check=False)
    assert trap.sprung(), "the trap does not spring for plain git"
    (trap.work / "a.txt").write_text("changed again\n")
    return trap


@pytest.fixture
def hostile_home(set_trap: Trap, monkeypatch: pytest.MonkeyPatch) -> Trap:
    monkeypatch.setenv("HOME", str(set_trap.folder))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", str(set_trap.program))
    monkeypatch.setenv("GIT_DIR", str(set_trap.work / ".git"))
    monkeypatch.setenv("GIT_SSH_COMMAND", str(set_trap.program))
    monkeypatch.setenv("GIT_PAGER", str(set_trap.program))
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", f"'core.fsmonitor={set_trap.program}'")
    return set_trap


def test_none_runs_over_a_work_tree_or_in_a_persons_repository(hostile_home: Trap) -> None:
    trap = hostile_home
    own_dir = trap.folder / "own.git"
    OwnRepository(own_dir).run("init", "--bare", "--quiet", "--template=")
    own = OwnRepository(own_dir, trap.work, own_dir / "index")
    own.run("update-index", "-z", "--add", "--remove", "--replace", "--stdin", stdin=LISTED)
    tree = own.run("write-tree").line
    commit = own.run("commit-tree", tree, "-m", "x").line
    own.run("update-ref", "refs/heads/x", commit)
    (trap.work / "a.txt").write_text("and again\n")
    own.run("diff", "--patch", commit)
    own.run("diff-tree", "-p", "-r", "--root", commit)
    own.run("checkout-index", "-f", "-a")
    assert not trap.sprung(), "over a work tree"

    user = UserRepository.at(trap.work)
    head = user.resolve("HEAD")
    user.run("diff-index", head)
    user.run("diff-index", "-p", "--stat", head)
    user.run("diff-tree", "-p", "-r", "--root", head)
    user.run("cat-file", "-p", head)
    user.run("ls-files", "-z", "-o", "-m")
    user.run("symbolic-ref", "--quiet", "HEAD")
    user.run("rev-parse", "HEAD^{commit}", "HEAD^{tree}", ":a.txt", ":/attributes")
    user.run("check-ref-format", "refs/heads/x")
    user.run("show-ref", "--verify", "--quiet", "refs/heads/main")
    user.change("update-ref", "refs/agentforge/x", head)
    user.change("update-ref", "-d", "refs/agentforge/x")
    assert not trap.sprung(), "in a repository"


def test_no_merge_driver_runs_as_nothing_is_merged_in_a_persons_repository(trap: Trap) -> None:
    trap.attributes("a.txt merge=evil\n")
    commit_all(trap.work, "base")
    trap.configure("merge.evil.driver", f"{trap.program} %A %O %B")
    plain_git(trap.work, "checkout", "-qb", "one")
    write_files(trap.work, {"a.txt": "1\n"})
    commit_all(trap.work, "one")
    plain_git(trap.work, "checkout", "-q", "main")
    write_files(trap.work, {"a.txt": "2\n"})
    commit_all(trap.work, "two")
    plain_git(trap.work, "merge-tree", "--write-tree", "main", "one", check=False)
    assert trap.sprung()

    with pytest.raises(ValueError, match="only read"):
        UserRepository.at(trap.work).run("merge-tree", "--write-tree", "main", "one")
    assert not trap.sprung()


@pytest.mark.parametrize("option", ["--textconv", "--filters", "--ext-diff", "--textc"])
def test_an_option_that_runs_a_program_is_refused(trap: Trap, option: str) -> None:
    user = UserRepository.at(trap.work)
    with pytest.raises(ValueError, match="runs a program"):
        user.run("cat-file", option, "HEAD:a.txt")


def test_a_command_that_does_more_than_read_is_refused(trap: Trap) -> None:
    user = UserRepository.at(trap.work)
    with pytest.raises(ValueError, match="only read"):
        user.run("checkout", "HEAD")
    with pytest.raises(ValueError, match="changes"):
        user.change("checkout", "HEAD")


def test_no_transport_runs_for_an_object_that_a_partial_clone_lacks(tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    work = new_checkout(tmp_path / "work", {"a.txt": "one\n"})
    for key, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.url": f"ext::touch {ran}",
        "remote.origin.promisor": "true",
        "protocol.ext.allow": "always",
    }.items():
        plain_git(work, "config", key, value)
    missing = "1" * 40
    plain_git(work, "cat-file", "-p", missing, check=False)
    assert ran.exists()
    ran.unlink()
    UserRepository.at(work).run("cat-file", "-p", missing, accept=(128,))
    assert not ran.exists()


def test_a_configuration_that_moves_the_checkout_is_refused(tmp_path: Path) -> None:
    from agentforge_sessions.repository import NotARepository

    work = new_checkout(tmp_path / "work", {"a.txt": "one\n"})
    (tmp_path / "other").mkdir()
    plain_git(work, "config", "core.worktree", str(tmp_path / "other"))
    with pytest.raises(NotARepository, match="another checkout"):
        UserRepository.at(work)


def test_git_is_not_looked_for_in_relative_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, ran = canary(tmp_path)
    (tmp_path / "git").symlink_to(program)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f".{os.pathsep}{os.environ['PATH']}")
    assert os.path.isabs(Git().program)
    assert not ran.exists()
