"""What changed in files, line by line: read from a patch, or found between two texts; pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Final

from attrs import evolve, field, frozen

MAX_LINES: Final = 3_000
"""The most lines of one file's difference that are kept."""
MAX_COMPARED: Final = 20_000
"""The most lines of two texts, together, that are compared line by line."""
_MAX_WORDS: Final = 400
_HUNK: Final = re.compile(rb"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@ ?(.*)")
_WORDS: Final = re.compile(r"\w+|\s+|.")
_ESCAPE: Final = re.compile(rb"\\([0-7]{3}|.)")
_ESCAPED: Final = {b"n": b"\n", b"t": b"\t", b'"': b'"', b"\\": b"\\", b"r": b"\r", b"a": b"\a"}


class LineKind(Enum):
    """What became of a line."""

    KEPT = "kept"
    ADDED = "added"
    REMOVED = "removed"


@frozen
class DiffLine:
    """A line of a difference.

    Attributes:
        kind: What became of it.
        text: The line, without its end.
        old: Its number before, from 1; None where it was not there.
        new: Its number after; None where it is not there.
    """

    kind: LineKind
    text: str
    old: int | None
    new: int | None


@frozen
class Hunk:
    """Lines side by side that changed, with those around them."""

    lines: tuple[DiffLine, ...]


@frozen(kw_only=True)
class FileDiff:
    """What became of one file.

    Attributes:
        path: Its path; bytes that are no UTF-8 are surrogates in it.
        kind: "added", "deleted", "modified" or "type changed".
        hunks: The lines; empty where it is no text, or where only its mode changed.
        added: How many lines it gained.
        removed: How many it lost.
        is_binary: Whether it is no text.
        left_out: How many lines of the difference are not in `hunks`.
    """

    path: str
    kind: str
    hunks: tuple[Hunk, ...] = field(default=(), repr=False)
    added: int = 0
    removed: int = 0
    is_binary: bool = False
    left_out: int = 0


Row = tuple[DiffLine | None, DiffLine | None]
"""Two lines side by side: before and after."""


def read_patch(patch: bytes) -> tuple[FileDiff, ...]:
    """Read a patch as git writes it, without renames."""
    files: list[_Reading] = []
    for line in patch.split(b"\n"):
        if line.startswith(b"diff --git "):  # a file's own lines have a mark before them
            files.append(_Reading())
        elif files:
            files[-1].take(line)
    return tuple(found for one in files if (found := one.done()) is not None)


class _Reading:
    """One file of a patch, as far as it is read."""

    def __init__(self) -> None:
        self._paths: list[str | None] = [None, None]
        self._kind = "modified"
        self._binary = False
        self._hunks: list[list[DiffLine]] = []
        self._left = [0, 0]
        self._at = [0, 0]
        self._kept = 0
        self._counts = {LineKind.ADDED: 0, LineKind.REMOVED: 0, LineKind.KEPT: 0}
        self._left_out = 0

    def take(self, line: bytes) -> None:
        if any(self._left):  # the hunk that was begun says that there are more lines
            self._take_line(line)
        elif (found := _HUNK.match(line)) is not None:
            head = line.split(b"@@")[1].split()
            self._left = [_length(part) for part in head[:2]]
            self._at = [int(found[1]), int(found[2])]
            self._hunks.append([])
        elif line.startswith((b"--- ", b"+++ ")):
            self._paths[line[:1] == b"+"] = _path(line[4:])
        elif line.startswith(b"new file"):
            self._kind = "added"
        elif line.startswith(b"deleted file"):
            self._kind = "deleted"
        elif line.startswith(b"Binary files "):
            self._binary = True

    def _take_line(self, line: bytes) -> None:
        mark, text = line[:1], line[1:].decode("utf-8", "backslashreplace")
        kind = {b"+": LineKind.ADDED, b"-": LineKind.REMOVED}.get(mark, LineKind.KEPT)
        if mark == b"\\":  # no newline at the end of the file
            return
        old = None if kind is LineKind.ADDED else self._at[0]
        new = None if kind is LineKind.REMOVED else self._at[1]
        for side, number in enumerate((old, new)):
            if number is not None:
                self._at[side] += 1
                self._left[side] -= 1
        self._counts[kind] += 1
        self._kept += 1
        if self._kept <= MAX_LINES:
            self._hunks[-1].append(DiffLine(kind, text, old, new))
        else:
            self._left_out += 1

    def done(self) -> FileDiff | None:
        path = self._paths[1] or self._paths[0]
        if path is None:
            return None
        return FileDiff(
            path=path,
            kind=self._kind,
            hunks=tuple(Hunk(tuple(lines)) for lines in self._hunks if lines),
            added=self._counts[LineKind.ADDED],
            removed=self._counts[LineKind.REMOVED],
            is_binary=self._binary,
            left_out=self._left_out,
        )


def _length(part: bytes) -> int:
    _, comma, count = part.partition(b",")
    return int(count) if comma else 1


def _path(name: bytes) -> str | None:
    """Return a file's path as a patch names it; None for no file."""
    name = name.rstrip(b"\t")
    if name.startswith(b'"') and name.endswith(b'"'):
        name = _ESCAPE.sub(_unescaped, name[1:-1])
    if name == b"/dev/null":
        return None
    return name[2:].decode("utf-8", "surrogateescape")


def _unescaped(found: re.Match[bytes]) -> bytes:
    code = found[1]
    return bytes([int(code, 8) & 0xFF]) if len(code) == 3 else _ESCAPED.get(code, code)


def file_difference(path: str, before: bytes | None, after: bytes | None) -> FileDiff | None:
    """Return what became of a file between two contents, None where there was no file.

    None is returned where they are equal.
    """
    if before == after:
        return None
    kind = "added" if before is None else "deleted" if after is None else "modified"
    contents = before or b"", after or b""
    if any(b"\0" in one for one in contents):
        return FileDiff(path=path, kind=kind, is_binary=True)
    old, new = (one.decode("utf-8", "backslashreplace").splitlines() for one in contents)
    lines = len(old) + len(new)
    if lines > MAX_COMPARED and old and new:
        return FileDiff(path=path, kind=kind, left_out=lines)
    hunks = tuple(Hunk(tuple(one)) for one in _hunks(old, new))
    counts = [
        sum(1 for hunk in hunks for line in hunk.lines if line.kind is wanted)
        for wanted in (LineKind.ADDED, LineKind.REMOVED)
    ]
    return _bounded(FileDiff(path=path, kind=kind, hunks=hunks, added=counts[0], removed=counts[1]))


def _hunks(old: Sequence[str], new: Sequence[str]) -> Iterator[list[DiffLine]]:
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=len(old) > 2_000)
    for group in matcher.get_grouped_opcodes(3):
        lines: list[DiffLine] = []
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                pairs = enumerate(old[i1:i2])
                lines += [
                    DiffLine(LineKind.KEPT, text, i1 + n + 1, j1 + n + 1) for n, text in pairs
                ]
                continue
            lines += [
                DiffLine(LineKind.REMOVED, text, i1 + n + 1, None)
                for n, text in enumerate(old[i1:i2])
            ]
            lines += [
                DiffLine(LineKind.ADDED, text, None, j1 + n + 1)
                for n, text in enumerate(new[j1:j2])
            ]
        yield lines


def _bounded(diff: FileDiff) -> FileDiff:
    kept: list[Hunk] = []
    room, left_out = MAX_LINES, 0
    for hunk in diff.hunks:
        lines = hunk.lines[:room]
        room -= len(lines)
        left_out += len(hunk.lines) - len(lines)
        if lines:
            kept.append(Hunk(lines))
    return evolve(diff, hunks=tuple(kept), left_out=left_out)


def side_by_side(lines: Sequence[DiffLine]) -> Iterator[Row]:
    """Pair the lines of a hunk: each removed one with the added one that took its place."""
    removed: list[DiffLine] = []
    added: list[DiffLine] = []

    def pairs() -> Iterator[Row]:
        for index in range(max(len(removed), len(added))):
            yield (
                removed[index] if index < len(removed) else None,
                added[index] if index < len(added) else None,
            )
        removed.clear()
        added.clear()

    for line in lines:
        if line.kind is LineKind.KEPT:
            yield from pairs()
            yield line, line
        elif line.kind is LineKind.REMOVED:
            if added:
                yield from pairs()
            removed.append(line)
        else:
            added.append(line)
    yield from pairs()


Piece = tuple[str, bool]
"""A part of a line, and whether it differs."""


def word_changes(before: str, after: str) -> tuple[list[Piece], list[Piece]]:
    """Split two lines, of which one took the other's place, into what is alike and what differs.

    Lines that have little in common, or are long, are one piece that does not stand out.
    """
    plain = [(before, False)], [(after, False)]
    if len(before) > _MAX_WORDS or len(after) > _MAX_WORDS or before == after:
        return plain
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=False)
    if matcher.ratio() < 0.5:
        return plain
    pieces: tuple[list[Piece], list[Piece]] = ([], [])
    for tag, i1, i2, j1, j2 in matcher.get_opcodes():
        for side, words in ((0, old[i1:i2]), (1, new[j1:j2])):
            if words:
                pieces[side].append(("".join(words), tag != "equal"))
    return pieces
