"""docs/errors.md has each error of the library, under the exit code that it leads to."""

from __future__ import annotations

import re
from pathlib import Path

from agentforge_sessions.base.errors import AgentForgeError
from agentforge_sessions.entrypoints.cli.output.errors import exit_code_of
from tests.support.errors import public_exceptions

TEXT = (Path(__file__).parents[2] / "docs" / "errors.md").read_text(encoding="utf-8")
ROW = re.compile(r"^- `([a-z_]+\.[A-Za-z]+)`( ↻)?: (.+) \*(.+)\*$", re.MULTILINE)


def documented() -> dict[str, tuple[int, bool]]:
    found: dict[str, tuple[int, bool]] = {}
    for code, section in re.findall(
        r"^## (\d+): .*?$(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL
    ):
        for row in ROW.finditer(section):
            assert row[1] not in found, row[1]
            found[row[1]] = (int(code), row[2] is not None)
    return found


def raised() -> dict[str, tuple[int, bool]]:
    found: dict[str, tuple[int, bool]] = {}
    for kind in public_exceptions():
        is_base = re.match(r"(The )?[Bb]ase of", kind.__doc__ or "")
        if issubclass(kind, AgentForgeError) and not is_base:
            package = kind.__module__.split(".")[1]
            bare = kind.__new__(kind)
            found[f"{package}.{kind.__name__}"] = (int(exit_code_of(bare)), kind.retryable)
    return found


def test_each_error_stands_under_its_exit_code_and_says_whether_to_try_again() -> None:
    assert documented() == raised()


def test_each_line_says_what_happened_and_what_to_do() -> None:
    lines = [line for line in TEXT.splitlines() if line.startswith("- `")]
    assert len(lines) == len(documented())
