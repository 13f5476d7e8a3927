"""`agentforge do` at a terminal: the screen, and what it asks."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from agentforge_sessions import prune
from tests.e2e.do.conftest import FILES, GOOD, Desk, desk_of, repository
from tests.support.agent_commands import put_command
from tests.support.own_project import require_jail

CHECKED = ("--check", "sh check.sh")
APPLY = "[n]o, [d]iff, [k]eep for later:"
COLOURS = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


def keys(text: str) -> Callable[[int], None]:
    def type_them(keyboard: int) -> None:
        os.write(keyboard, text.encode())

    return type_them


@pytest.mark.parametrize(
    ("typed", "applied", "said"),
    [
        ("y\n", True, "Applied 1 path"),
        ("n\n", False, "agentforge apply session_"),
        ("maybe\nd\ny\n", True, "+better"),
    ],
)
def test_the_result_is_shown_and_the_person_decides(
    desk: Desk, typed: str, applied: bool, said: str
) -> None:
    before = desk.state()
    done = desk.at_terminal("x", "--agent", desk.agent(GOOD), *CHECKED, when=APPLY, do=keys(typed))
    plain = COLOURS.sub("", done.out)
    assert done.code == 0, plain
    assert said in plain
    assert "work.txt | 2 +-" in plain
    assert (desk.state() == before) is not applied
    assert (desk.checkout / "work.txt").read_text() == (
        "better\ndone\n" if applied else FILES["work.txt"]
    )


@pytest.mark.parametrize(("typed", "pinned"), [("n\n", False), ("k\n", True)])
def test_what_was_not_applied_is_asked_for_again_and_pinned_if_kept(
    desk: Desk, typed: str, pinned: bool
) -> None:
    desk.at_terminal("x", "--agent", desk.agent(GOOD), *CHECKED, when=APPLY, do=keys(typed))
    assert (desk.session.session_id in prune.pinned(desk.store.base_path)) is pinned
    done = desk.at_terminal("--continue", when=APPLY, do=keys("y\n"))
    assert done.code == 0
    assert (desk.checkout / "work.txt").read_text() == "better\ndone\n"


def test_ctrl_c_at_the_question_keeps_the_result(desk: Desk) -> None:
    before = desk.state()
    done = desk.at_terminal("x", "--agent", desk.agent(GOOD), *CHECKED, when=APPLY, do=keys("\x03"))
    assert done.code == 130
    assert "agentforge do --continue session_" in COLOURS.sub("", done.out).replace("\r\n", "")
    assert desk.state() == before


@pytest.mark.parametrize(("typed", "code"), [("n\n", 1), ("y\n", 0)])
def test_a_check_that_fails_already_is_told_and_the_person_decides(
    tmp_path: Path, typed: str, code: int
) -> None:
    require_jail()
    desk = desk_of(repository(tmp_path / "project", {**FILES, "work.txt": "broken\n"}))
    done = desk.at_terminal(
        *("x", "--agent", desk.agent(GOOD), *CHECKED, "--branch", "mended"),
        when="Go on? [y]es, [n]o:",
        do=keys(typed),
    )
    assert done.code == code, done.out
    assert desk.session.state.value == ("completed" if code == 0 else "aborted")


def test_the_screen_shows_what_the_agent_is_at_the_tries_and_the_tokens(desk: Desk) -> None:
    done = desk.at_terminal(
        *("make it better", "--agent", desk.agent("echo worse > work.txt", GOOD), *CHECKED),
        when=APPLY,
        do=keys("n\n"),
    )
    plain = COLOURS.sub("", done.out)
    assert "make it better" in plain
    assert "  said 1" in plain, "what the agent printed last"
    assert "attempt 1  failed" in plain
    assert re.search(r"[\d,]+ of 500,000 tokens  [\d.]+ s in all", plain)


def test_of_two_agents_the_person_takes_one(desk: Desk, tmp_path: Path) -> None:
    for name in ("codex", "claude"):
        put_command(tmp_path / "bin", name, "exit 9")
    desk.environment["PATH"] = f"{tmp_path / 'bin'}:/usr/bin:/bin"
    desk.environment["OPENAI_API_KEY"] = "no-key"
    done = desk.at_terminal(
        "x", "--check", "none", when="Which agent? 1) claude, 2) codex:", do=keys("2\n")
    )
    assert "Agent: codex" in done.out
