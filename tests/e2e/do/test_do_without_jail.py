"""`agentforge do` where no jail can be made, and a result that conflicts with later work."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.e2e.do.conftest import GOOD, PROGRAM, Desk, desk_of, repository
from tests.support.applying import lay
from tests.support.repositories import commit_all, plain_git

CHECKED = ("--check", "sh check.sh")


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A repository on a machine without bubblewrap."""
    made = desk_of(repository(tmp_path / "project"))
    made.environment["AGENTFORGE_BWRAP"] = "nowhere"
    return made


def run(desk: Desk, *words: str) -> tuple[int, str]:
    done = subprocess.run(
        [PROGRAM, *words],
        cwd=desk.checkout,
        env=desk.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    return done.returncode, " ".join((done.stdout + done.stderr).split())


def test_without_a_jail_it_says_what_that_means_and_works_by_the_persons_word_alone(
    desk: Desk,
) -> None:
    before = desk.state()
    code, said = run(desk, "do", "x", "--agent", desk.agent(GOOD), *CHECKED)
    assert code != 0
    assert "no jail can be made here" in said
    assert "--no-jail: its commands can then read, change and send all that you can" in said
    assert desk.state() == before

    done = desk.do("x", "--agent", desk.agent(GOOD), *CHECKED, "--no-jail")
    assert done.err.count("not sealed:") == 1
    assert "The check passed" in done.out
    assert desk.state() == before
    assert [
        one.details for one in desk.session.history if "not sealed: the agent" in f"{one.details}"
    ]


def test_a_result_that_conflicts_leads_on_by_markers_or_by_a_branch(desk: Desk) -> None:
    desk.do("x", "--agent", desk.agent(GOOD), *CHECKED, "--no-jail")
    one = desk.session.session_id
    lay(desk.checkout, {"work.txt": "mine\ndone\n"})
    commit_all(desk.checkout, "meanwhile")

    code, said = run(desk, "apply", one)
    assert code == 6
    assert "--merge writes both sides" in said
    assert "--branch NAME commits the result" in said
    assert run(desk, "apply", one, "--branch", "better")[0] == 0
    assert plain_git(desk.checkout, "show", "better:work.txt").stdout == b"better\ndone\n"
    code, said = run(desk, "apply", one, "--merge")
    assert (code, "C work.txt" in said) == (1, True)
    assert (desk.checkout / "work.txt").read_text() == (
        f"<<<<<<< yours\nmine\n=======\nbetter\n>>>>>>> {one}\ndone\n"
    )
    assert b"both modified:   work.txt" in plain_git(desk.checkout, "status").stdout
