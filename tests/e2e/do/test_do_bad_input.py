"""What can't go on is said in a sentence, and nothing is begun."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.e2e.do.conftest import GOOD, Desk, desk_of, repository
from tests.support.agent_commands import put_command
from tests.support.mounts import mounted_tmpfs
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


def test_a_huge_task(desk: Desk, tmp_path: Path) -> None:
    huge = "x" * 100_000  # the system's own limit of an argument is 128 KiB
    document = desk.document(huge, "--agent", desk.agent(GOOD), *CHECKED)
    assert document["state"] == "completed"
    assert len(desk.session.title or "") == 100


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


def test_a_program_whose_login_is_refused_is_asked_once_and_the_task_goes_on_later(
    desk: Desk, tmp_path: Path
) -> None:
    said = '{"type":"result","subtype":"success","is_error":true,"result":"Invalid API key"}'
    put_command(tmp_path / "bin", "claude", f"echo >> calls; echo '{said}'; exit 1")
    desk.environment["PATH"] = f"{tmp_path / 'bin'}:{PLAIN}"
    desk.environment["ANTHROPIC_API_KEY"] = "wrong"
    before = desk.state()
    done = desk.do("x", *CHECKED, code=1)
    assert "it is not logged in" in done.out
    assert "set ANTHROPIC_API_KEY" in done.out
    assert "phase_failed" not in desk.actions
    assert desk.state() == before
    desk.do("--continue", "--agent", desk.agent(GOOD), "--yes")
    assert (desk.checkout / "work.txt").read_text() == "better\ndone\n"


def test_a_model_out_of_reach_fails_its_tries_and_says_why(desk: Desk) -> None:
    agent = desk.agent("echo 'could not resolve host api.example.org' >&2; exit 7")
    done = desk.do("x", "--agent", agent, *CHECKED, code=1)
    assert "could not resolve host" in done.out
    assert "agentforge do --continue session_" in done.out


def test_a_full_disk_loses_nothing_of_the_persons_and_the_task_goes_on_later(
    desk: Desk, tmp_path: Path
) -> None:
    before = desk.state()
    with mounted_tmpfs(tmp_path / "state", options="size=1M"):
        (tmp_path / "state" / "full").write_bytes(b"x" * (992 << 10))
        done = desk.do("x", "--agent", desk.agent(GOOD), *CHECKED, code=8)
        assert "No space left on device" in done.err
        assert desk.state() == before
        subprocess.run(["mount", "-o", "remount,size=64M", tmp_path / "state"], check=True)
        desk.do("x", "--agent", desk.agent(GOOD), *CHECKED, "--yes")
    assert (desk.checkout / "work.txt").read_text() == "better\ndone\n"


def test_a_command_that_is_not_there(desk: Desk) -> None:
    assert "no-such-agent" in refused(desk, "x", "--agent", "no-such-agent", *CHECKED)
    said = refused(desk, "x", "--agent", desk.agent(GOOD), "--check", "no-such-check", code=9)
    assert "no-such-check" in said


@pytest.mark.parametrize("branch", ["main", "a..b", "-x", "HEAD", ""])
def test_a_branch_that_can_not_be_made(desk: Desk, branch: str) -> None:
    plain_git(desk.checkout, "branch", "-M", "main")
    agent = ("--agent", desk.agent("exit 9"))
    assert "can't be made" in refused(desk, "x", *agent, *CHECKED, f"--branch={branch}", code=6)


def test_a_task_that_goes_on_has_its_branch_refused_before(desk: Desk) -> None:
    desk.do("x", "--agent", desk.agent("exit 9"), *CHECKED, code=1)
    before = desk.actions
    done = desk.do("--continue", "--branch", "a..b", code=6)
    assert "can't be made" in done.err
    assert desk.actions == before


def test_options_of_a_beginning_with_continue(desk: Desk) -> None:
    assert "leave out --plan" in refused(desk, "--continue", "--plan")
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
