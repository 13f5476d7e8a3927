"""The installed program at a pseudo-terminal."""

from __future__ import annotations

import os
import re
from pathlib import Path

from tests.e2e.cli.conftest import Installed

COLOURS = re.compile(r"\x1b\[[0-9;]*m")
REDRAWING = re.compile(r"\x1b\[(?:2K|1A|\?25[lh]|[0-9]*[ABG])")


def type_at(keyboard: int, keys: bytes) -> None:
    os.write(keyboard, keys)


def test_a_run_is_redrawn_in_colour(agentforge: Installed, workflows: Path) -> None:
    done = agentforge.at_terminal("run", "hello.yaml")
    assert done.code == 0
    assert "\x1b[?25l" in done.out, "the cursor is hidden while the table is redrawn"
    assert done.out.rindex("\x1b[?25h") > done.out.rindex("\x1b[?25l")
    assert "\x1b[1;36mrunning" in done.out
    assert re.search("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]", done.out), "a spinner turns while a phase runs"
    plain = COLOURS.sub("", done.out)
    assert re.search(r"greet +succeeded +1 +\d+\.\d\d s +100\r\n", plain)
    assert re.search(r"next +agentforge session artifacts session_\w+", plain)


def test_colour_can_be_refused(agentforge: Installed, workflows: Path) -> None:
    done = agentforge.at_terminal("run", "hello.yaml", environment={"NO_COLOR": "1"})
    assert done.code == 0
    assert not COLOURS.findall(done.out)
    assert "\x1b[2K" in done.out, "it is redrawn all the same"
    (session_id,) = agentforge.store.list_sessions()
    assert COLOURS.findall(agentforge.at_terminal("show", session_id).out)
    done = agentforge.at_terminal("--no-color", "show", session_id)
    assert done.code == 0
    assert not COLOURS.findall(done.out)


def test_a_terminal_that_can_not_redraw_gets_lines(agentforge: Installed, workflows: Path) -> None:
    done = agentforge.at_terminal("run", "hello.yaml", environment={"TERM": "dumb"})
    assert done.code == 0
    assert "\x1b" not in done.out
    assert "[2/2] count: succeeded" in done.out


def test_ctrl_c_at_the_keyboard_leaves_the_terminal_in_order(
    agentforge: Installed, workflows: Path
) -> None:
    done = agentforge.at_terminal(
        "run",
        "slow.yaml",
        when="wait, ",
        do=lambda keyboard: type_at(keyboard, b"\x03"),
    )
    assert done.code == 130
    (session_id,) = agentforge.store.list_sessions()
    assert done.out.rindex("\x1b[?25h") > done.out.rindex("\x1b[?25l"), "the cursor is shown again"
    plain = COLOURS.sub("", done.out)
    assert re.search(r"wait +stopped +1", plain)
    assert f"To go on: agentforge resume {session_id}" in plain.replace("\r\n", "")


def test_show_follow_redraws_until_the_session_has_ended(agentforge: Installed) -> None:
    manager = agentforge.begin(goal="Watch me")
    session = manager.current_session
    assert session is not None

    def finish(_: int) -> None:
        manager.add_history("noted", "while you watch")
        manager.complete()

    done = agentforge.at_terminal(
        "show", session.session_id, "--follow", when="Watch me", do=finish
    )
    assert done.code == 0
    plain = COLOURS.sub("", done.out)
    assert "while you watch" in plain
    last = plain[plain.rindex("session  ") :]
    assert "completed" in last
    assert "active" not in last
    assert done.out.rindex("\x1b[?25h") > done.out.rindex("\x1b[?25l")


def test_hostile_contents_do_nothing_to_a_terminal(agentforge: Installed) -> None:
    session_id = agentforge.new(goal="\x1b]0;pwned\x07\x1b[2J[red]x[/red]\u202e\x9b31m")
    for arguments in (["show", session_id], ["session", "brief", session_id], ["list"]):
        done = agentforge.at_terminal(*arguments)
        assert done.code == 0
        left = COLOURS.sub("", done.out).replace("\r\n", "\n")
        assert all(line.isprintable() for line in left.split("\n")), left


def test_a_question_is_asked_and_answered_at_the_terminal(agentforge: Installed) -> None:
    session_id = agentforge.new()
    for answer, code, state in ((b"n\n", 1, "active"), (b"y\n", 0, "aborted")):
        done = agentforge.at_terminal(
            "session",
            "abort",
            session_id,
            when="[y/N]",
            do=lambda keyboard, answer=answer: type_at(keyboard, answer),
        )
        assert done.code == code
        session = agentforge.store.load(session_id)
        assert session is not None
        assert session.state.value == state
