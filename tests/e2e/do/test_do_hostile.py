"""What a hostile agent or repository can make `agentforge do` apply, take or believe."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.do.conftest import FILES, GOOD, Desk, desk_of, repository
from tests.support.agent_commands import put_command
from tests.support.own_project import require_jail

CHECKED = ("--check", "sh check.sh")
PLAIN = "/usr/bin:/bin"


@pytest.mark.parametrize(
    ("check", "turn", "named"),
    [
        ("sh check.sh", f"echo true > check.sh; {GOOD}", "check.sh"),
        ("sh -c '. ./check.sh'", f"echo true > check.sh; {GOOD}", "check.sh"),
        ("sh check.sh", f"echo script-shell=true > .npmrc; {GOOD}", ".npmrc"),
        ("sh check.sh", f"echo 'import os' > src/conftest.py; {GOOD}", "src/conftest.py"),
    ],
)
def test_a_check_that_the_agent_changed_is_named_and_nothing_is_applied_unasked(
    desk: Desk, check: str, turn: str, named: str
) -> None:
    before = desk.state()
    done = desk.do("x", "--agent", desk.agent(turn), "--check", check, "--yes")
    assert f"The agent changed what the check runs: {named}." in done.out
    assert "Not applied" in done.out
    assert desk.state() == before
    assert desk.document("--continue", "--yes")["check_changed"] == [named]
    assert desk.state() == before


def test_a_result_that_leaves_the_check_alone_is_applied_unasked(desk: Desk) -> None:
    done = desk.document("x", "--agent", desk.agent(GOOD), *CHECKED, "--yes")
    assert done["check_changed"] == []
    assert done["applied"] is not None


@pytest.mark.parametrize("folder", [".", "{checkout}/bin"])
def test_no_agent_is_taken_from_the_repository(tmp_path: Path, folder: str) -> None:
    require_jail()
    desk = desk_of(repository(tmp_path / "project", FILES))
    desk.environment["ANTHROPIC_API_KEY"] = "a-key"
    put_command(tmp_path / "own", "claude", "exit 9")
    desk.environment["PATH"] = f"{tmp_path / 'own'}:{PLAIN}"
    desk.do("x", *CHECKED, code=1)
    asked = desk.actions
    trap = f"touch {tmp_path / 'trap'}"
    for place in ("", "bin"):
        put_command(desk.checkout / place, "claude", trap)
    desk.environment["PATH"] = f"{folder.format(checkout=desk.checkout)}:{PLAIN}"
    session_id = desk.session.session_id
    for words in (
        ("do", "x", *CHECKED),
        ("do", "x", "--agent", "claude:sonnet", *CHECKED),
        ("do", "--continue"),
        ("do", "--continue", "--agent", "claude:sonnet"),
        ("resume", session_id),
        ("session", "retry", session_id, "--agent", "claude"),
        ("run", "spec", "x", "--about", "x", "--agent", "claude"),
        ("run", "spec", "x", "--about", "x", "--agent", "claude", "--agent-mode", "edit"),
    ):
        said = " ".join(desk.refused(*words).split())
        assert "which is in this repository" in said, words
    assert desk.actions == asked, "no session was begun or changed"
    assert not (tmp_path / "trap").exists()
