"""The tree of commands: how many there are where, and what a word that names none is told."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from agentforge_sessions.entrypoints.cli.tree import TREE
from tests.unit.cli.conftest import CommandLine

FORMER = {
    **{word: f"run {word}" for word in ("tdflow", "spec")},
    **{
        word: f"{group} {word}"
        for group in ("session", "questions", "fleet")
        for word in TREE[group]
        if word != "waiting" and word not in TREE[""]
    },
    "cleanup": "prune --kind agent",
    "drive": "run WORKFLOW.yaml",
    "uninstall": "install --remove PROGRAM",
}
"""The words that were commands at the top once, and what replaces each."""
PACKAGE = Path(__file__).parents[3] / "tools"
BESIDE = {"Groups", "Programs"}
ROWS, COLUMNS = 40, 100


def test_at_most_sixteen_commands_are_at_the_top() -> None:
    panels = [one.panel for one in TREE[""].values()]
    assert list(dict.fromkeys(panels)) == [
        *("Begin", "Work", "Look", "Bring home", "Keep tidy"),
        *("Groups", "Programs"),
    ]
    assert sum(one not in BESIDE for one in panels) <= 16


@pytest.mark.parametrize("group", [*TREE, "fleet submit"])
def test_the_help_of_a_group_fits_a_terminal(group: str) -> None:
    """The terminal has 40 lines of 100 characters; the prompt needs the last."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    program = [sys.executable, "-m", "agentforge_sessions.entrypoints.cli", *group.split()]
    without = {
        name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}
    }
    with subprocess.Popen(
        [*program, "--help"], stdin=its, stdout=its, stderr=its, env=without
    ) as started:
        os.close(its)
        text = _all(ours)
    assert started.returncode == 0
    lines = text.replace("\r\n", "\n").rstrip("\n").split("\n")
    assert len(lines) < ROWS, text
    assert max(map(len, lines)) <= COLUMNS, text


def _all(terminal: int) -> str:
    found = b""
    with os.fdopen(terminal, "rb", buffering=0) as opened:
        try:
            while data := opened.read(65_536):
                found += data
        except OSError:  # how a terminal ends
            pass
    return found.decode()


def test_the_list_of_commands_fits_eighty_columns(agentforge: CommandLine) -> None:
    for group in TREE:
        shown = agentforge(*group.split(), "--help").out.splitlines()
        assert [line for line in shown if len(line) > 80] == []


@pytest.mark.parametrize(("word", "command"), FORMER.items())
def test_a_former_word_names_the_command_that_replaces_it(
    agentforge: CommandLine, word: str, command: str
) -> None:
    ended = agentforge(word, "4785")
    assert (ended.code, ended.out) == (2, "")
    assert f"there is no command '{word}'; it is `agentforge {command}`" in ended.err


@pytest.mark.parametrize(
    ("words", "nearest"),
    [
        ("rewnd", "session rewind"),
        ("shw", "show"),
        ("session lgo", "session log"),
        ("run tdflwo", "run tdflow"),
        ("questions hstory", "questions history"),
        ("fleet store stauts", "fleet store status"),
        ("fleet submit tdflwo", "run tdflow"),
        ("unpn", "prune unpin"),
    ],
)
def test_a_mistyped_word_names_the_nearest_command(
    agentforge: CommandLine, words: str, nearest: str
) -> None:
    ended = agentforge(*words.split())
    assert (ended.code, ended.out) == (2, "")
    assert f"there is no command '{words}'; the nearest is `agentforge {nearest}`" in ended.err


def test_a_command_of_another_group_is_named(agentforge: CommandLine) -> None:
    assert "it is `agentforge show`" in agentforge("session", "show").err
    assert "it is `agentforge session log`" in agentforge("fleet", "log").err


def test_help_is_an_option(agentforge: CommandLine) -> None:
    assert "it is `agentforge --help`" in agentforge("help").err


def test_a_word_that_is_near_to_none_names_none(agentforge: CommandLine) -> None:
    ended = agentforge("xyzzy")
    assert ended.err == "error: there is no command 'xyzzy'. Try 'agentforge --help'.\n"


def test_no_text_of_the_package_names_a_former_command() -> None:
    words = "|".join(sorted(FORMER))
    former = re.compile(rf"agentforge(?: --\w+ \S+)* (?:{words})\b|[`'](?:{words})(?: ID| --)")
    found = {
        (path.relative_to(PACKAGE).as_posix(), match[0])
        for path in PACKAGE.rglob("*")
        if path.suffix in {".py", ".js", ".md", ".yaml", ".html", ".toml"}
        for match in former.finditer(" ".join(path.read_text("utf-8").split()))
    }
    assert found == set()
