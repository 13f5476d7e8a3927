"""Line differences of files, parsed from a patch or computed from two contents; pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from enum import Enum
from itertools import zip_longest
from typing import Final, TypeAlias

from attrs import field, frozen

MAX_LINES: Final = 3_000
"""Maximum number of lines in one file's difference; further lines are only counted."""
MAX_COMPARED: Final = 20_000
"""Maximum number of lines of two texts together that are compared line by line."""
_MAX_WORDS: Final = 400
_HUNK: Final = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_WORDS: Final = re.compile(r"\w+|\s+|.")
_ESCAPE: Final = re.compile(rb"\\([0-7]{3}|.)")
_ESCAPED: Final = {b"n": b"\n", b"t": b"\t", b'"': b'"', b"\\": b"\\", b"r": b"\r", b"a": b"\a"}


class LineKind(Enum):
    """The fate of a line: unchanged, added or removed."""

    KEPT = "kept"
    ADDED = "added"
    REMOVED = "removed"


_MARKS: Final = {b"+": LineKind.ADDED, b"-": LineKind.REMOVED}


@frozen
class DiffLine:
    """A line of a difference.

    Attributes:
        kind: Whether it is unchanged, added or removed.
        text: The line, without its line end.
        old: Its number before, from 1; None if it was added.
        new: Its number after, from 1; None if it was removed.
    """

    kind: LineKind
    text: str
    old: int | None
    new: int | None


Hunk: TypeAlias = tuple[DiffLine, ...]
"""Changed lines with the unchanged lines around them."""


@frozen(kw_only=True)
class FileDiff:
    """The difference of one file.

    Attributes:
        path: Its path; bytes that are not UTF-8 are surrogate escapes.
        kind: "added", "deleted", "modified" or "type changed".
        hunks: The changed lines; empty if the file is binary or only its mode changed.
        added: Number of added lines.
        removed: Number of removed lines.
        is_binary: Whether the file is not text.
        left_out: Number of lines of the difference that are not in `hunks`.
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
        """Number of lines of the difference in `hunks`."""
        return sum(map(len, self.hunks))


Row: TypeAlias = tuple[DiffLine | None, DiffLine | None]
"""Two lines side by side: before and after."""


def read_patch(patch: bytes) -> tuple[FileDiff, ...]:
    """Parse a patch in git's format; renames are not supported."""
    files: list[_Reading] = []
    for line in patch.split(b"\n"):
        if line.startswith(b"diff --git "):  # content lines have a mark in front
            files.append(_Reading())
        elif files:
            files[-1].take(line)
    return tuple(found for one in files if (found := one.done()) is not None)


class _Reading:
    """Builder of one file's difference, line by line."""

    def __init__(self, path: str | None = None, kind: str = "modified") -> None:
        self._path = path
        self._kind = kind
        self._binary = False
        self._hunks: list[list[DiffLine]] = []
        self._left = [0, 0]
        self._at = [0, 0]
        self._counts = dict.fromkeys(LineKind, 0)

    def take(self, line: bytes) -> None:
        """Parse the next line of the patch."""
        if any(self._left):  # the current hunk's header announced more lines
            if line[:1] != b"\\":  # "\ No newline at end of file"
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
        """Begin a hunk at these line numbers."""
        self._at = [old, new]
        self._hunks.append([])

    def add(self, kind: LineKind, text: str) -> None:
        """Add a line to the current hunk; after `MAX_LINES` lines, only count it."""
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
        """Return the finished difference; None if no path was found."""
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
    """Decode a file's path in a patch; None for `/dev/null`."""
    name = name.rstrip(b"\t")
    if name.startswith(b'"') and name.endswith(b'"'):
        name = _ESCAPE.sub(_unescaped, name[1:-1])
    return None if name == b"/dev/null" else name[2:].decode("utf-8", "surrogateescape")


def _unescaped(found: re.Match[bytes]) -> bytes:
    code = found[1]
    return bytes([int(code, 8) & 0xFF]) if len(code) == 3 else _ESCAPED.get(code, code)


def file_difference(path: str, before: bytes | None, after: bytes | None) -> FileDiff | None:
    """Return the difference between two contents of a file, or None if they are equal.

    The content None means that there is no file. Texts of more than `MAX_COMPARED` lines are not
    compared: the result then has no hunks and all lines count as left out.
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
    """Pair the lines of a hunk: each removed line with the added line that replaced it."""
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
"""A part of a line, and whether it differs from the other line."""


def word_changes(before: str, after: str) -> tuple[list[Piece], list[Piece]]:
    """Split a line and its replacement into equal and differing pieces.

    Lines that are long or have little in common stay one piece each, marked as equal.
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
