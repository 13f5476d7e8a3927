"""The fenced blocks of a Markdown text; pure.

Fences are those of CommonMark 0.31, section 4.5, except that a block may be indented by any amount
and that an opening fence within a file's block opens a nested one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from attrs import frozen

FENCE_RE: Final = re.compile(r"([ \t]*)(`{3,}|~{3,})[ \t]*(.*?)[ \t]*")
WRAPPERS: Final = frozenset({"", "markdown", "md", "text", "txt"})
"""Info strings of a block that may wrap a whole answer."""


@frozen(kw_only=True)
class FencedBlock:
    """A fenced block.

    Attributes:
        info: Its info string.
        lines: Its content.
        line: The line it begins on, from 1.
        closed: Whether it has its own closing fence.
    """

    info: str
    lines: list[str]
    line: int
    closed: bool


def fenced_blocks(lines: list[str], first: int) -> Iterable[FencedBlock]:
    """Yield the fenced blocks of lines, the first of which has the number `first`.

    Fences within a block that has a path or wraps others are part of its content.
    """
    index = 0
    while index < len(lines):
        opening = FENCE_RE.fullmatch(lines[index])
        start = index
        index += 1
        if opening is None or not _opens(opening):
            continue
        indent, fence, info = opening[1], opening[2], opening[3]
        content: list[str] = []
        nested: list[str] = []
        closed = False
        while index < len(lines):
            line = lines[index]
            index += 1
            found = FENCE_RE.fullmatch(line)
            if found is not None:
                if not found[3] and not nested and _closes(found[2], fence):
                    closed = True
                    break
                if not found[3] and nested and _closes(found[2], nested[-1]):
                    nested.pop()
                elif found[3] and _opens(found) and _nests(info) and _closes(found[2], fence):
                    nested.append(found[2])
            content.append(line.removeprefix(indent))
        if not closed and nested and (again := _last_bare(lines, start + 1, fence)) is not None:
            # A fence inside was never closed: the last matching bare fence ends the block.
            content = [line.removeprefix(indent) for line in lines[start + 1 : again]]
            closed, index = not _path_between(lines, start + 1, again), again + 1
        yield FencedBlock(info=info, lines=content, line=first + start, closed=closed)


def _nests(info: str) -> bool:
    return ":" in info or info.lower() in WRAPPERS


def _opens(found: re.Match[str]) -> bool:
    """Return whether this is an opening fence; a backtick in its info makes it inline code."""
    return not (found[2][0] == "`" and "`" in found[3])


def _closes(fence: str, opening: str) -> bool:
    return fence[0] == opening[0] and len(fence) >= len(opening)


def _last_bare(lines: list[str], start: int, fence: str) -> int | None:
    for index in range(len(lines) - 1, start - 1, -1):
        found = FENCE_RE.fullmatch(lines[index])
        if found is not None and not found[3] and _closes(found[2], fence):
            return index
    return None


def _path_between(lines: list[str], start: int, end: int) -> bool:
    """Return whether another file's block begins in between, so that the end is ambiguous."""
    return any(
        (found := FENCE_RE.fullmatch(line)) is not None and ":" in found[3]
        for line in lines[start:end]
    )
