"""What can't go on is said in a sentence, and nothing is begun."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.e2e.do.conftest import GOOD, Desk, desk_of, repository
from tests.support.agent_commands import put_command
from tests.support.own_project import require_jail
from tests.support.repositories import new_checkout, plain_git, write_files

CHECKED = ("--check", "sh check.sh")
PLAIN = "/usr/bin:/bin"


def refused(desk: Desk, *arguments: object, code: int = 2) -> str:
    """Run what is refused; return the sentence."""
    before = desk.state() if (desk.checkout / ".git").exists() else None
    done = desk.do(*arguments, code=code)
    assert before is None or desk.state() == before
    assert desk.store.list_sessions() == [] if before is not None else True
    assert done.out == ""
    return done.err.splitlines()[-1]


@pytest.mark.parametrize("task", [[], [""], ["   "]])
def test_no_task(desk: Desk, task: list[str]) -> None:
    assert "say what you want" in refused(desk, *task, "--agent", "sh x", *CHECKED)


def test_a_huge_task(desk: Desk) -> None:
    said = refused(desk, "x" * 120_000 + " y" * 4, "--agent", "sh x", "--check", "")
    assert "empty" in said or "no command" in said or "is empty" in said


def test_no_repository(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    said = refused(desk_of(tmp_path / "project"), "x", "--agent", "sh x", code=6)
    assert "is no checkout of a git repository" in said
    assert "git init" in said


def test_a_repository_without_a_commit(tmp_path: Path) -> None:
    desk = desk_of(new_checkout(tmp_path / "project"))
    said = refused(desk, "x", "--agent", "sh x", "--check", "none", code=3)
    assert "It has no commit yet; make one first" in said


def test_no_check_is_known(desk: Desk) -> None:
    said = refused(desk, "x", "--agent", "sh x")
    assert "--check 'npm test'" in said
    assert "--check none" in said


def test_tests_first_without_a_check(desk: Desk) -> None:
    said = refused(desk, "x", "--agent", "sh x", "--check", "none", "--tests-first")
    assert said.startswith("error: Invalid value for --tests-first")


def test_no_agent(desk: Desk, tmp_path: Path) -> None:
    desk.environment["PATH"] = PLAIN
    said = refused(desk, "x", *CHECKED)
    assert "none of claude, codex, gemini, opencode" in said
    assert "--agent" in said


def test_two_agents_and_nobody_to_ask(desk: Desk, tmp_path: Path) -> None:
    for name in ("codex", "claude"):
        put_command(tmp_path / "bin", name, "exit 9")
    desk.environment["PATH"] = f"{tmp_path / 'bin'}:{PLAIN}"
    assert "--agent claude" in refused(desk, "x", *CHECKED)


def test_the_persons_configuration_decides_between_two(desk: Desk, tmp_path: Path) -> None:
    for name in ("codex", "claude"):
        put_command(tmp_path / "bin", name, "exit 9")
    desk.environment["PATH"] = f"{tmp_path / 'bin'}:{PLAIN}"
    own = Path(desk.environment["XDG_CONFIG_HOME"]) / "agentforge"
    own.mkdir(parents=True)
    (own / "config.toml").write_text('[run]\nagent = "codex"\n')
    assert "codex is not logged in" in refused(desk, "x", *CHECKED)


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("claude", "ANTHROPIC_API_KEY"),
        ("codex", "OPENAI_API_KEY"),
        ("gemini", "GEMINI_API_KEY"),
    ],
)
def test_an_agent_that_is_not_logged_in(desk: Desk, tmp_path: Path, name: str, hint: str) -> None:
    put_command(tmp_path / "bin", name, "exit 9")
    desk.environment["PATH"] = f"{tmp_path / 'bin'}:{PLAIN}"
    said = refused(desk, "x", *CHECKED)
    assert f"{name} is not logged in where it works" in said
    assert hint in said


def test_a_command_that_is_not_there(desk: Desk) -> None:
    assert "no-such-agent" in refused(desk, "x", "--agent", "no-such-agent", *CHECKED)
    said = refused(desk, "x", "--agent", desk.agent(GOOD), "--check", "no-such-check", code=9)
    assert "no-such-check" in said


def test_options_of_a_beginning_with_continue(desk: Desk) -> None:
    assert "leave those out" in refused(desk, "--continue", "--plan")
    assert "no task of this repository" in refused(desk, "--continue")


def test_a_shallow_clone_with_a_submodule_and_lfs_works(tmp_path: Path) -> None:
    require_jail()
    lfs = {".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n", "a.bin": "pointer\n"}
    origin = repository(tmp_path / "origin", {"check.sh": "true\n", "work.txt": "x\n", **lfs})
    write_files(origin, {".gitmodules": '[submodule "s"]\n\tpath = s\n\turl = ./s\n'})
    inside = new_checkout(origin / "s", {"inner.txt": "x\n"})
    plain_git(origin, "add", ".gitmodules", "s", home=tmp_path)
    plain_git(origin, "commit", "-qm", "module", home=tmp_path)
    shutil.rmtree(inside)
    plain_git(tmp_path, "clone", "-q", "--depth", "1", f"file://{origin}", "project")
    desk = desk_of(tmp_path / "project")
    before = desk.state()
    done = desk.do("x", "--agent", desk.agent(GOOD), *CHECKED)
    assert "The folders of submodules are empty" in done.err
    assert "Files of Git LFS are pointers" in done.err
    assert desk.state() == before
    assert "Applied 1 path" in desk.do("--continue", "--yes").out


def test_a_hostile_configuration_of_the_clone_does_nothing(desk: Desk, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    write_files(
        desk.checkout,
        {
            ".agentforge/config.toml": (
                f'[run]\nagent = "touch {trap}"\nagent_mode = "edit"\n'
                f'[gate]\ncommand = "touch {trap}"\nreport = "exit-code"\n'
                f'[jail]\nread = ["/root"]\nnetwork = true\n'
            )
        },
    )
    plain_git(desk.checkout, "add", "-A")
    plain_git(desk.checkout, "commit", "-qm", "trap")
    desk.environment["PATH"] = PLAIN
    assert "no agent program is on PATH" in desk.do("x", *CHECKED, code=2).err
    done = desk.do("x", "--agent", desk.agent(GOOD), code=2)
    assert "no command is known that tests this project" in done.err
    assert not trap.exists()
    assert not os.path.lexists(desk.checkout / ".agentforge" / "sessions")
