"""The public names and imports of a Python module, from its source; pure, nothing is imported."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from typing import Final

_MAX_DOC_CHARS: Final = 120
_Function = ast.FunctionDef | ast.AsyncFunctionDef


def parse_module(source: str) -> ast.Module | None:
    """Parse a module; None if this Python can't parse it."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def imported_modules(tree: ast.Module, package: tuple[str, ...]) -> list[str]:
    """Return the dotted names of a module's imports, each once, in their order.

    `from a import b` gives `a` and `a.b`: either may be the module.

    Args:
        tree: The module.
        package: The module's package, for relative imports.
    """
    found: dict[str, None] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(dict.fromkeys(alias.name for alias in node.names))
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            if node.level and node.level > len(package) + 1:
                continue
            base = ".".join((*above, *(node.module.split(".") if node.module else ())))
            if base:
                found[base] = None
            for alias in node.names:
                if alias.name != "*":
                    found[f"{base}.{alias.name}" if base else alias.name] = None
    return list(found)


def signatures(tree: ast.Module) -> str:
    """Return a module's public classes, functions and constants, without bodies."""
    try:
        lines = list(_document(tree, "")) + [
            line for node in tree.body for line in _statement(node, "")
        ]
    except (RecursionError, ValueError):  # deeper than anything a person writes
        return ""
    return "\n".join(lines) + "\n" if lines else ""


def _statement(node: ast.stmt, indent: str) -> Iterator[str]:
    if isinstance(node, ast.ClassDef):
        if _is_public(node.name):
            yield from _class(node, indent)
    elif isinstance(node, _Function):
        if _is_public(node.name):
            yield from _function(node, indent)
    elif isinstance(node, ast.AnnAssign):
        if isinstance(node.target, ast.Name) and _is_public(node.target.id):
            yield f"{indent}{node.target.id}: {ast.unparse(node.annotation)}"
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Name) and _is_public(target.id):
                yield f"{indent}{target.id} = ..."


def _class(node: ast.ClassDef, indent: str) -> Iterator[str]:
    yield from (f"{indent}@{ast.unparse(one)}" for one in node.decorator_list)
    bases = [ast.unparse(one) for one in (*node.bases, *(key.value for key in node.keywords))]
    yield f"{indent}class {node.name}{'(' + ', '.join(bases) + ')' if bases else ''}:"
    inner = [
        *_document(node, f"{indent}    "),
        *(line for one in node.body for line in _statement(one, f"{indent}    ")),
    ]
    yield from inner or [f"{indent}    ..."]


def _function(node: _Function, indent: str) -> Iterator[str]:
    yield from (f"{indent}@{ast.unparse(one)}" for one in node.decorator_list)
    word = "async def" if isinstance(node, ast.AsyncFunctionDef) else "def"
    result = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    yield f"{indent}{word} {node.name}({ast.unparse(node.args)}){result}: ..."
    yield from _document(node, f"{indent}    ")


def _document(node: ast.Module | ast.ClassDef | _Function, indent: str) -> Iterator[str]:
    text = (ast.get_docstring(node) or "").partition("\n")[0].strip()
    if text:
        cut = text if len(text) <= _MAX_DOC_CHARS else f"{text[: _MAX_DOC_CHARS - 1]}…"
        yield f"{indent}# {cut}"


def _is_public(name: str) -> bool:
    return not name.startswith("_") or name == "__init__"
