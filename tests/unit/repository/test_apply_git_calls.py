"""How many times an apply starts git, which is most of its cost, and that no answer is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from agentforge_sessions.base.program_run import Ended, ProgramRun, run_program
from agentforge_sessions.repository import Git, UserRepository
from agentforge_sessions.repository.apply.checkout_state import read_head
from agentforge_sessions.repository.apply.result_merge import ObjectsMissing
from tests.support.applying import lay, new_site
from tests.support.repositories import commit_all, new_checkout, plain_git

BEGIN = {"a.txt": "1\n2\n3\n4\n5\n6\n", "src/b.py": "b = 1\n", "src/c.py": "c = 1\n"}
CHANGE = {"a.txt": "1\n2\n3\n4\n5\nsix\n", "src/c.py": None, "new/d.py": "d\n"}


class Counted:
    """Runs programs and keeps what was run, the question for git's version aside."""

    def __init__(self) -> None:
        self.commands: list[str] = []

    def __call__(self, run: ProgramRun) -> Ended:
        words = [str(one) for one in run.words[1:]]
        if words != ["version"]:
            self.commands.append(" ".join(words))
        return run_program(run)

    def taken(self) -> list[str]:
        taken, self.commands = self.commands, []
        return taken


@pytest.fixture
def counted() -> Counted:
    return Counted()


def test_a_plan_and_an_apply_start_git_a_few_times(tmp_path: Path, counted: Counted) -> None:
    site = new_site(tmp_path, BEGIN, CHANGE, git=Git(runner=counted))
    assert len(site.plan().paths) == 3
    assert len(planned := counted.taken()) <= 18, planned
    assert len(site.apply().paths) == 3
    assert len(applied := counted.taken()) <= 20, applied


def test_a_merge_with_rules_to_ignore_by_starts_git_a_few_times_more(
    tmp_path: Path, counted: Counted
) -> None:
    begin = {**BEGIN, ".gitignore": "*.log\n"}
    site = new_site(tmp_path, begin, CHANGE, git=Git(runner=counted))
    lay(site.top, {"a.txt": "one\n2\n3\n4\n5\n6\n"})
    commit_all(site.top, "the checkout goes on")
    applied = site.apply(commit=True)
    assert applied.commit is not None
    assert (site.top / "a.txt").read_text() == "one\n2\n3\n4\n5\nsix\n"
    assert len(taken := counted.taken()) <= 31, taken


def test_head_is_read_in_one_call_where_there_is_a_commit(tmp_path: Path, counted: Counted) -> None:
    top = new_checkout(tmp_path / "work", {"a.txt": "one\n"})
    user = UserRepository.at(top, Git(runner=counted))
    commit = user.resolve("HEAD")
    counted.taken()
    assert read_head(user) == (commit, "refs/heads/main")
    assert len(counted.taken()) == 1
    plain_git(top, "checkout", "-q", "--detach")
    assert read_head(user) == (commit, None)


@pytest.mark.parametrize("namesake", ["refs/heads/HEAD", "refs/tags/HEAD", "refs/remotes/HEAD"])
def test_head_is_told_from_others_of_its_name(tmp_path: Path, namesake: str) -> None:
    top = new_checkout(tmp_path / "work", {"a.txt": "one\n"})
    first = plain_git(top, "rev-parse", "HEAD").stdout.decode().strip()
    lay(top, {"a.txt": "two\n"})
    second = commit_all(top, "second")
    plain_git(top, "update-ref", namesake, first)
    user = UserRepository.at(top)
    assert read_head(user) == (second, "refs/heads/main")
    plain_git(top, "checkout", "-q", "--detach")
    assert read_head(user) == (second, None)


def test_a_branch_without_a_commit_is_told_all_the_same(tmp_path: Path) -> None:
    top = new_checkout(tmp_path / "work")
    lay(top, {"HEAD": "a file of that name\n", "HEAD^{commit}": "and another\n"})
    assert read_head(UserRepository.at(top)) == (None, "refs/heads/main")


def test_a_result_that_is_missing_is_named_whatever_its_text_is(tmp_path: Path) -> None:
    site = new_site(tmp_path, BEGIN, CHANGE)
    for result in ("0123456789" * 4, "0" * 40 + "\n" + "1" * 40, "a\0b", "", "none"):
        site.result = result
        with pytest.raises(ObjectsMissing) as caught:
            site.plan()
        assert caught.value.revision == result


def test_a_file_that_both_changed_alike_needs_no_merge_program(tmp_path: Path) -> None:
    site = new_site(tmp_path, BEGIN, CHANGE)
    plain_git(site.top, "config", "merge.own.driver", "false")
    lay(site.top, {**CHANGE, ".git/info/attributes": "* merge=own\n"})
    commit_all(site.top, "the same by hand")
    assert site.apply().nothing_to_do
