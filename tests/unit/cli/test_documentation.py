from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from agentforge_sessions.entrypoints.cli.main import app
from agentforge_sessions.entrypoints.cli.output.errors import ExitCode

DOCUMENT = Path(__file__).parents[3] / "docs" / "cli.md"


@pytest.fixture(scope="module")
def text() -> str:
    return DOCUMENT.read_text(encoding="utf-8")


def test_the_documented_exit_codes_are_those_of_the_program(text: str) -> None:
    section = text.split("## Exit codes", 1)[1].split("\n## ", 1)[0]
    documented = dict(re.findall(r"^\| (\d+) \| (.*) \|$", section, re.MULTILINE))
    assert documented == {str(int(code)): code.meaning for code in ExitCode}


def commands_below(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    yield " ".join(words), command
    for name, inner in getattr(command, "commands", {}).items():
        is_default = name == getattr(command, "default", None)
        yield from commands_below(inner, words if is_default else (*words, name))


def test_every_command_and_every_option_is_documented(text: str) -> None:
    for words, command in commands_below(typer.main.get_command(app)):
        assert re.search(rf"(`|# |agentforge ){re.escape(words)}\b", text), words
        for parameter in command.params:
            if getattr(parameter, "hidden", False):
                continue
            for option in parameter.opts:
                if option.startswith("--") and option != "--help":
                    assert re.search(rf"{option}(?![\w-])", text), (words, option)


def test_every_variable_of_the_program_is_documented(text: str) -> None:
    source = "".join(
        path.read_text(encoding="utf-8")
        for path in (DOCUMENT.parents[1] / "tools" / "entrypoints" / "cli").rglob("*.py")
    )
    for variable in {*re.findall(r'"(AGENTFORGE_[A-Z]+)"', source), "NO_COLOR"}:
        assert f"| `{variable}` |" in text
