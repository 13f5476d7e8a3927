"""The house in figures: modules, code lines, names; read off the source, nothing is imported."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2] / "tools"
PROGRAMS: Final = "example_workflows"
"""Scripts that come with the package as data; they run in the sandbox."""

_Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def modules() -> Iterator[Path]:
    """Yield the package's modules, those of the example workflows left out."""
    for path in sorted(ROOT.rglob("*.py")):
        if PROGRAMS not in path.parts:
            yield path


def code_lines(source: str) -> int:
    """Count the lines that bear a token, without comments and docstrings."""
    lines = enumerate(map(str.strip, source.splitlines()), 1)
    bearing = {number for number, line in lines if line and not line.startswith("#")}
    documented: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr | ast.Constant):
            bearing.update(_lines_of(node))  # a text over several lines
        elif isinstance(node, _Documented) and ast.get_docstring(node, clean=False) is not None:
            documented.update(_lines_of(node.body[0]))
    return len(bearing - documented)


def _lines_of(node: ast.expr | ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


@cache
def lines_of_packages() -> Counter[str]:
    """Count the code lines of each package at the top."""
    found: Counter[str] = Counter()
    for path in modules():
        found[path.relative_to(ROOT).parts[0]] += code_lines(path.read_text(encoding="utf-8"))
    return found


def modules_of_folders() -> Counter[str]:
    """Count the modules of each folder, `__init__` left out."""
    return Counter(
        path.parent.relative_to(ROOT).as_posix()
        for path in modules()
        if path.name not in ("__init__.py", "__main__.py")
    )


def class_names() -> Counter[str]:
    """Count the classes of each public name, those in functions and classes left out."""
    return Counter(
        node.name
        for path in modules()
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
