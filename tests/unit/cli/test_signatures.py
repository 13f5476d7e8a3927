"""Groups of options: declared once, and expanded into the options of each command."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import pytest
import typer
from attrs import frozen

from agentforge_sessions.entrypoints.cli.context import Cli
from agentforge_sessions.entrypoints.cli.options import argument, flag, option
from agentforge_sessions.entrypoints.cli.output.output import Output
from agentforge_sessions.entrypoints.cli.signatures import expanded, given

Loud = Annotated[bool, flag("--loud, -l", "Say it loudly.")]


@frozen
class Where:
    folder: Path | None = option("--folder DIR", "The folder.")
    depth: int = option("--depth N", "How deep.", 3, min=1)


@frozen
class Search:
    where: Where
    word: str = argument("WORD", "The word.")
    several: list[str] | None = option("--also WORD", "More words.")


def ran(*words: str) -> tuple[Search, bool, Cli]:
    """Run a command that has a group in a group, and return what it was called with."""
    calls: list[tuple[Search, bool, Cli]] = []

    def look(cli: Cli, search: Search, loud: Loud) -> None:
        calls.append((search, loud, cli))

    app = typer.Typer()
    app.command()(expanded(look))
    cli = Cli(base=None, output=Output())
    typer.main.get_command(app).main(list(words), standalone_mode=False, obj=cli)
    return calls[0]


def test_a_command_gets_its_groups_from_the_options_of_their_fields() -> None:
    search, loud, cli = ran("x", "--folder", "here", "--also", "y", "--also", "z", "-l", "--json")
    assert (search.word, search.where, list(search.several or ())) == (
        "x",
        Where(folder=Path("here"), depth=3),
        ["y", "z"],
    )
    assert loud
    assert cli.output.json


def test_an_option_that_is_not_given_has_the_default_of_its_declaration() -> None:
    search, loud, cli = ran("x")
    assert search.where == Where(folder=None, depth=3)
    assert not loud
    assert not cli.output.json


@pytest.mark.parametrize("words", [(), ("x", "--depth", "0"), ("x", "--nothing")])
def test_what_typer_refuses_of_a_group_is_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(typer.TyperException):
        ran(*words)


@pytest.mark.parametrize(
    ("where", "names"),
    [
        (Where(folder=None, depth=3), []),
        (Where(folder=Path(), depth=3), ["--folder"]),
        (Where(folder=None, depth=4), ["--depth"]),
    ],
)
def test_options_that_were_given_are_those_that_are_not_the_default(
    where: Where, names: list[str]
) -> None:
    assert given(where) == names
