"""What an agent is shown of files without their texts: names as a tree, and a module's signatures.

Pure: no module is imported.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator
from typing import Final

from attrs import define, field

from ...base.errors import counted

_DEEPEST: Final = 40
_MORE: Final = "… and {count:,} more\n"
_MAX_DOC_CHARS: Final = 120
_Function = ast.FunctionDef | ast.AsyncFunctionDef


@define
class _Folder:
    folders: dict[str, _Folder] = field(factory=dict)
    files: list[str] = field(factory=list)
    count: int = 0


def tree_text(paths: Iterable[str], *, max_chars: int) -> str:
    """Return files as a tree, folders before files, as deep as the limit allows.

    A folder that is too deep is one line with the number of files below it. If not even the first
    level fits, it is cut, and the text says how much is missing.
    """
    root = _tree(paths)
    if not root.count or max_chars < len(_MORE) + 12:
        return ""
    for depth in range(_DEEPEST, 0, -1):
        found = _bounded(root, depth, max_chars)
        if found is not None:
            return found
    kept = []
    room = max_chars - len(_MORE) - 12
    lines = list(_lines(root, 1, ""))
    for line in lines:
        room -= len(line.encode())
        if room < 0:
            break
        kept.append(line)
    return "".join(kept) + _MORE.format(count=len(lines) - len(kept))


def _tree(paths: Iterable[str]) -> _Folder:
    root = _Folder()
    for path in paths:
        *folders, name = path.split("/")
        at = root
        at.count += 1
        for folder in folders:
            at = at.folders.setdefault(folder, _Folder())
            at.count += 1
        at.files.append(name)
    return root


def _bounded(root: _Folder, depth: int, max_chars: int) -> str | None:
    found = []
    room = max_chars
    for line in _lines(root, depth, ""):
        room -= len(line.encode())
        if room < 0:
            return None
        found.append(line)
    return "".join(found)


def _lines(folder: _Folder, depth: int, indent: str) -> Iterator[str]:
    for name, below in sorted(folder.folders.items()):
        if depth > 1:
            yield f"{indent}{name}/\n"
            yield from _lines(below, depth - 1, f"{indent}  ")
        else:
            yield f"{indent}{name}/ ({counted(below.count, 'file')})\n"
    for name in sorted(folder.files):
        yield f"{indent}{name}\n"


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
