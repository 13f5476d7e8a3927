"""What stands in a history for people decides nothing: no module of the sources reads it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

TOOLS: Final = Path(__file__).resolve().parents[2] / "tools"
TAKES_APART: Final = frozenset(
    {
        *("split", "rsplit", "splitlines", "partition", "rpartition", "startswith", "endswith"),
        *("removeprefix", "removesuffix", "find", "rfind", "index", "count"),
        *("match", "fullmatch", "search", "findall", "finditer", "sub", "loads"),
    }
)


def is_details(node: ast.AST) -> bool:
    """Whether an expression holds an entry's details, as `(entry.details or "")` does."""
    return any(isinstance(one, ast.Attribute) and one.attr == "details" for one in ast.walk(node))


def readings(path: Path) -> Iterator[str]:
    """Yield where a module takes details apart, or looks for something in them."""
    text = path.read_text()
    for node in ast.walk(ast.parse(text if "details" in text else "")):
        taken: list[ast.AST] = []
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in TAKES_APART:
                taken = [node.func.value, *node.args]
        elif isinstance(node, ast.Compare):
            if any(isinstance(one, ast.In | ast.NotIn | ast.Eq | ast.NotEq) for one in node.ops):
                taken = [node.left, *node.comparators]
        elif isinstance(node, ast.Match):
            taken = [node.subject]
        if any(map(is_details, taken)):
            yield f"{path.relative_to(TOOLS.parent)}:{node.lineno}"  # type: ignore[attr-defined]


def test_details_are_read_nowhere() -> None:
    assert [place for path in sorted(TOOLS.rglob("*.py")) for place in readings(path)] == []
