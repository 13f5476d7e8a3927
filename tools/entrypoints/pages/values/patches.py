"""What changed in files, line by line: read from a patch, or found between two texts; pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import zip_longest
from typing import Final, TypeAlias

from attrs import field, frozen

MAX_LINES: Final = 3_000
"""The most lines of one file's difference that are kept."""
MAX_COMPARED: Final = 20_000
"""The most lines of two texts, together, that are compared line by line."""
_MAX_WORDS: Final = 400
_HUNK: Final = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_WORDS: Final = re.compile(r"\w+|\s+|.")
_ESCAPE: Final = re.compile(rb"\\([0-7]{3}|.)")
_ESCAPED: Final = {b"n": b"\n", b"t": b"\t", b'"': b'"', b"\\": b"\\", b"r": b"\r", b"a": b"\a"}


class LineKind(Enum):
    """What became of a line."""

    KEPT = "kept"
    ADDED = "added"
    REMOVED = "removed"


_MARKS: Final = {b"+": LineKind.ADDED, b"-": LineKind.REMOVED}


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


Hunk: TypeAlias = tuple[DiffLine, ...]
"""Lines that changed, with those around them."""


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

    @property
    def lines(self) -> int:
        """How many lines of the difference are in `hunks`."""
        return sum(map(len, self.hunks))


Row: TypeAlias = tuple[DiffLine | None, DiffLine | None]
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
    """One file's difference, as far as it is read."""

    def __init__(self, path: str | None = None, kind: str = "modified") -> None:
        self._path = path
        self._kind = kind
        self._binary = False
        self._hunks: list[list[DiffLine]] = []
        self._left = [0, 0]
        self._at = [0, 0]
        self._counts = dict.fromkeys(LineKind, 0)

    def take(self, line: bytes) -> None:
        """Take a line of a patch."""
        if any(self._left):  # the hunk that was begun says that there are more lines
            if line[:1] != b"\\":  # no newline at the end of the file
                kind = _MARKS.get(line[:1], LineKind.KEPT)
                self.add(kind, line[1:].decode("utf-8", "backslashreplace"))
        elif (found := _HUNK.match(line)) is not None:
            old, old_lines, new, new_lines = (
                1 if one is None else int(one) for one in found.groups()
            )
            self.begin(old, new)
            self._left = [old_lines, new_lines]
        elif line.startswith((b"--- ", b"+++ ")):
            self._path = _path(line[4:]) or self._path
        elif line.startswith(b"new file"):
            self._kind = "added"
        elif line.startswith(b"deleted file"):
            self._kind = "deleted"
        elif line.startswith(b"Binary files "):
            self._binary = True

    def begin(self, old: int, new: int) -> None:
        """Begin a hunk at these numbers of lines."""
        self._at = [old, new]
        self._hunks.append([])

    def add(self, kind: LineKind, text: str) -> None:
        """Add a line to the hunk; of more than `MAX_LINES` the number alone."""
        numbers: list[int | None] = [None, None]
        for side, absent in enumerate((LineKind.ADDED, LineKind.REMOVED)):
            if kind is not absent:
                numbers[side] = self._at[side]
                self._at[side] += 1
                self._left[side] -= 1
        self._counts[kind] += 1
        if sum(self._counts.values()) <= MAX_LINES:
            self._hunks[-1].append(DiffLine(kind, text, *numbers))

    def done(self) -> FileDiff | None:
        """Return what was read; None if it is no file's difference."""
        if self._path is None:
            return None
        return FileDiff(
            path=self._path,
            kind=self._kind,
            hunks=tuple(tuple(lines) for lines in self._hunks if lines),
            added=self._counts[LineKind.ADDED],
            removed=self._counts[LineKind.REMOVED],
            is_binary=self._binary,
            left_out=max(0, sum(self._counts.values()) - MAX_LINES),
        )


def _path(name: bytes) -> str | None:
    """Return a file's path as a patch names it; None for no file."""
    name = name.rstrip(b"\t")
    if name.startswith(b'"') and name.endswith(b'"'):
        name = _ESCAPE.sub(_unescaped, name[1:-1])
    return None if name == b"/dev/null" else name[2:].decode("utf-8", "surrogateescape")


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
    if len(old) + len(new) > MAX_COMPARED and old and new:
        return FileDiff(path=path, kind=kind, left_out=len(old) + len(new))
    reading = _Reading(path, kind)
    matcher = difflib.SequenceMatcher(None, old, new, autojunk=len(old) > 2_000)
    for group in matcher.get_grouped_opcodes(3):
        reading.begin(group[0][1] + 1, group[0][3] + 1)
        for tag, i1, i2, j1, j2 in group:
            alike = tag == "equal"
            for text in old[i1:i2]:
                reading.add(LineKind.KEPT if alike else LineKind.REMOVED, text)
            for text in () if alike else new[j1:j2]:
                reading.add(LineKind.ADDED, text)
    return reading.done()


def side_by_side(lines: Sequence[DiffLine]) -> Iterator[Row]:
    """Pair the lines of a hunk: each removed one with the added one that took its place."""
    removed: list[DiffLine] = []
    added: list[DiffLine] = []
    for line in lines:
        if line.kind is LineKind.KEPT or (line.kind is LineKind.REMOVED and added):
            yield from zip_longest(removed, added)
            removed, added = [], []
        if line.kind is LineKind.KEPT:
            yield line, line
        else:
            (removed if line.kind is LineKind.REMOVED else added).append(line)
    yield from zip_longest(removed, added)


Piece: TypeAlias = tuple[str, bool]
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
