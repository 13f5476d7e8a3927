"""The documents: few enough to read, every link leads somewhere, every command is there."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from agentforge_sessions.entrypoints.cli.main import app
from tests.support.documents import (
    DOCS,
    ROOT,
    all_pages,
    anchors_of,
    blocks_of,
    commands_of,
    links_of,
    menu,
    readers_pages,
)

MOST_PAGES = 22
MOST_WORDS = 40_000
_OPTION = re.compile(r"--?[a-z][\w-]*")
_PLACEHOLDER = re.compile(r"[\[\]…<>]|\.\.\.|^[A-Z]+$")
_SHELL = {"|", ">", ">>", "&&", ";", "||", "&", "2>", "#", "--"}


def test_menu_is_short_enough_to_read() -> None:
    words = {page.name: len(page.read_text(encoding="utf-8").split()) for page in menu()}
    assert len(words) <= MOST_PAGES
    assert sum(words.values()) <= MOST_WORDS, words


def test_every_page_is_in_the_menu_or_left_out_on_purpose() -> None:
    there = {path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")}
    named = {page.relative_to(DOCS).as_posix() for page in menu()}
    assert named <= there
    left = sorted(there - named)
    assert [name for name in left if not name.startswith(("decisions/", "measurements/"))] == []


@pytest.mark.parametrize("page", all_pages(), ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_leads_to_a_file_and_an_anchor(page: Path) -> None:
    astray = []
    for line, link in links_of(page):
        if re.match(r"https?://|mailto:", link):
            continue
        target, _, anchor = link.partition("#")
        file = page if not target else (page.parent / target).resolve()
        if not file.exists() or (anchor and anchor not in anchors_of(file)):
            astray.append(f"{page.name}:{line}: {link}")
    assert astray == []


@pytest.mark.parametrize(
    "page", readers_pages(), ids=lambda page: page.relative_to(ROOT).as_posix()
)
def test_every_command_and_option_exists(page: Path) -> None:
    wrong = []
    for line, command in commands_of(page):
        fault = fault_of(command)
        if fault:
            wrong.append(f"{page.name}:{line}: {command}: {fault}")
    assert wrong == []


def fault_of(command: str) -> str | None:
    """Return what a command line names that does not exist."""
    try:
        words = shlex.split(command, comments=True)[1:]
    except ValueError:  # an apostrophe of prose beside it
        words = command.split()[1:]
    here: Any = typer.main.get_command(app)
    options = options_of(here)
    while words:
        word = words.pop(0)
        if word in _SHELL or word.endswith(")"):
            break
        name = word.partition("=")[0].strip("[],;.:")
        default = getattr(here, "default", None)
        if _OPTION.fullmatch(name):
            if name not in options and default is not None:
                here = here.commands[default]
                options = {**options, **options_of(here)}
            if name not in options:
                return f"no option {name}"
            if options[name] and "=" not in word and words and words[0] not in _SHELL:
                words.pop(0)
        elif hasattr(here, "commands") and not _PLACEHOLDER.search(word):
            if name not in here.commands and default is None:
                return f"no command {name}"
            if name not in here.commands:
                name = "program" if name.endswith(".py") else default
            here = here.commands[name]
            options = {**options, **options_of(here)}
    return None


def options_of(command: Any) -> dict[str, bool]:
    """Return a command's options, and whether each takes a value."""
    return {
        name: not (getattr(one, "is_flag", False) or getattr(one, "count", False))
        for one in command.params
        for name in (*one.opts, *one.secondary_opts)
        if name.startswith("-")
    } | {"--help": False}


def test_every_module_of_tests_that_is_named_exists() -> None:
    there = [path.as_posix() for path in (ROOT / "tests").rglob("test_*.py")]
    named = {
        (page.name, name.removeprefix("tests/"))
        for page in all_pages()
        for name in re.findall(r"`([a-z_0-9/]*\btest_[a-z_0-9]+\.py)\b", page.read_text("utf-8"))
    }
    assert {one for one in named if not any(path.endswith(f"/{one[1]}") for path in there)} == set()


def test_every_path_of_the_documents_that_the_package_names_exists() -> None:
    """Messages and docstrings lead a reader to pages that are there."""
    named = {
        (path.relative_to(ROOT).as_posix(), name)
        for folder in ("tools", "benchmarks", "examples")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".md", ".yaml", ".toml"}
        for name in re.findall(r"\bdocs/[\w./-]+\.md\b", path.read_text("utf-8"))
    }
    named -= {one for one in named if one[1] == "docs/rules.md"}  # of a person, in a template
    assert named
    assert {one for one in named if not (ROOT / one[1]).is_file()} == set()


def test_every_address_that_a_reader_copies_asks_for_the_servers_certificate() -> None:
    given = [
        f"{page.name}: {line}"
        for page in readers_pages()
        for line in page.read_text("utf-8").splitlines()
        if re.search(r"postgres(?:ql)?://\w+(?::\w+)?@[\w.-]+", line)
        and not re.match(r"(store  +|\d+ sessions? copied|postgresql://\S+ is ready)", line)
    ]
    assert given
    assert [one for one in given if "sslmode=verify-full" not in one] == []


def test_every_public_name_of_the_library_is_on_its_page() -> None:
    import agentforge_sessions

    page = (DOCS / "library.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    assert set(agentforge_sessions.__all__) <= named


def test_every_block_of_commands_is_one_of_a_known_language() -> None:
    plain = [one.name for page in all_pages() for one in blocks_of(page) if not one.language]
    assert [one for one in plain if one.startswith("docs/") and "/decisions/" not in one] == []
