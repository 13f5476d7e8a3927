"""A project's file names as an indented tree, within a limit; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from attrs import define, field

from ...base.errors import counted

_DEEPEST: Final = 40
_MORE: Final = "… and {count:,} more\n"


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
