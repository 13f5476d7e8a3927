from __future__ import annotations

import re
from pathlib import Path

import pytest
import typer

from agentforge_sessions.entrypoints.cli.main import app
from agentforge_sessions.entrypoints.cli.output.errors import ExitCode
from agentforge_sessions.entrypoints.cli.tree import TREE

DOCUMENT = Path(__file__).parents[3] / "docs" / "cli.md"


@pytest.fixture(scope="module")
def text() -> str:
    return DOCUMENT.read_text(encoding="utf-8")


def test_the_documented_exit_codes_are_those_of_the_program(text: str) -> None:
    section = text.split("## Exit codes", 1)[1].split("\n## ", 1)[0]
    documented = dict(re.findall(r"^\| (\d+) \| (.*) \|$", section, re.MULTILINE))
    assert documented == {str(int(code)): code.meaning for code in ExitCode}


def test_every_command_and_every_option_is_documented(text: str) -> None:
    for group, commands in TREE.items():
        found = typer.main.get_command(app)
        for word in group.split():
            found = found.commands[word]
        for name in commands:
            words = rf"(?:{group} )?{re.escape(name)}\b"
            assert re.search(f"(`|# |agentforge ){words}", text), words
        for command in (found, *found.commands.values()):
            for parameter in command.params:
                for option in [] if getattr(parameter, "hidden", False) else parameter.opts:
                    if option.startswith("--") and option != "--help":
                        assert option in text, (group, command.name, option)


@pytest.mark.parametrize("document", ["docs/first-day.md", "docs/operations.md", "docs/pruning.md"])
def test_every_prune_of_the_guides_is_understood(document: str) -> None:
    """Also those of timers: an option that moved would stop the removal every night."""
    content = (DOCUMENT.parents[1] / document).read_text(encoding="utf-8")
    lines = re.findall(r"agentforge prune\b([^`\n>#]*)", content)
    assert lines
    group = typer.main.get_command(app).commands["prune"]
    for line in lines:
        with group.make_context("prune", line.split()) as context:
            assert set(context._protected_args) <= set(group.commands), line


def test_every_module_of_tests_that_the_guides_name_is_there() -> None:
    root = DOCUMENT.parents[1]
    there = [path.as_posix() for path in (root / "tests").rglob("test_*.py")]
    named = {
        (guide.name, name.removeprefix("tests/"))
        for guide in (*root.glob("*.md"), *(root / "docs").rglob("*.md"))
        for name in re.findall(r"`([a-z_0-9/]*\btest_[a-z_0-9]+\.py)\b", guide.read_text("utf-8"))
    }
    assert len(named) > 40
    assert {
        (guide, name)
        for guide, name in named
        if not any(path.endswith(f"/{name}") for path in there)
    } == set()


def test_every_variable_of_the_program_is_documented(text: str) -> None:
    source = "".join(
        path.read_text(encoding="utf-8")
        for path in (DOCUMENT.parents[1] / "tools" / "entrypoints" / "cli").rglob("*.py")
    )
    for variable in {*re.findall(r'"(AGENTFORGE_[A-Z]+)"', source), "NO_COLOR"}:
        assert f"| `{variable}` |" in text


def test_every_address_that_a_reader_copies_asks_for_the_servers_certificate() -> None:
    """An address in an output has no options; only those that are given to something count."""
    root = DOCUMENT.parents[1]
    given = [
        (guide.name, line)
        for guide in (*root.glob("*.md"), *(root / "docs").rglob("*.md"))
        for line in guide.read_text("utf-8").splitlines()
        if re.search(r"postgres(?:ql)?://\w+(?::\w+)?@[\w.-]+", line)
        and not re.match(r"(store  +|\d+ sessions? copied|postgresql://\S+ is ready)", line)
    ]
    assert len(given) >= 10
    assert [one for one in given if "sslmode=verify-full" not in one[1]] == []
