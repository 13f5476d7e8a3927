"""The house in figures: modules, code lines, names; read off the source, nothing is imported."""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[2] / "tools"
PROGRAMS: Final = "example_workflows"
"""Scripts that come with the package as data; they run in the sandbox."""

_LAYOUT: Final = {
    tokenize.COMMENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
    tokenize.INDENT,
    tokenize.NEWLINE,
    tokenize.NL,
}
_Documented = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


def modules() -> Iterator[Path]:
    """Yield the package's modules, those of the example workflows left out."""
    for path in sorted(ROOT.rglob("*.py")):
        if PROGRAMS not in path.parts:
            yield path


def code_lines(source: str) -> int:
    """Count the lines that bear a token, without comments and docstrings."""
    documented: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, _Documented) and ast.get_docstring(node, clean=False) is not None:
            text = node.body[0]
            documented.update(range(text.lineno, (text.end_lineno or text.lineno) + 1))
    bearing: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type not in _LAYOUT:
            bearing.update(range(token.start[0], token.end[0] + 1))
    return len(bearing - documented)


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
