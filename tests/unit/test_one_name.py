"""The package has one name in this project; under a second one every class would exist twice."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCES = sorted(
    path
    for folder in ("tools", "tests", "benchmarks", "examples")
    for path in (ROOT / folder).rglob("*.py")
)


def absolute_imports(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.module


def names_of_ours(source: str, top: str) -> list[str]:
    # An import names it on its own line, which may be continued; parsing every file takes seconds.
    if not re.search(rf"\b(?:import|from)\b(?:[^\n]|\\\n)*\b{top}\b", source):
        return []
    return [name for name in absolute_imports(source) if name.split(".")[0] == top]


def test_nothing_imports_the_folder_by_its_name() -> None:
    found = {
        str(path.relative_to(ROOT)): names
        for path in SOURCES
        if (names := names_of_ours(path.read_text(encoding="utf-8"), "tools"))
    }

    assert found == {}


def test_inside_the_package_imports_of_it_are_relative() -> None:
    found = {
        str(path.relative_to(ROOT)): names
        for path in SOURCES
        if path.is_relative_to(ROOT / "tools")
        and (names := names_of_ours(path.read_text(encoding="utf-8"), "agentforge_sessions"))
    }

    assert found == {}


@pytest.mark.parametrize(
    "source",
    [
        "import tools.harness",
        "from tools import clock",
        "from tools.clock import Clock",
        "if True: import ast, \\\n tools as t",
        "from \\\n tools import (\n clock)",
    ],
)
def test_an_import_by_the_name_of_the_folder_is_seen(source: str) -> None:
    assert names_of_ours(source, "tools")
