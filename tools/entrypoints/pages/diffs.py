"""File differences as HTML: side by side where the page is wide enough, else in one column."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Final
from xml.etree.ElementTree import Element

from ...base.errors import counted
from .html import Child, element
from .parts import changed_lines, folded, muted, note, scrolled
from .values.patches import DiffLine, FileDiff, Hunk, LineKind, Piece, side_by_side, word_changes

MAX_ROWS: Final = 1_200
"""Maximum number of rows shown of one file's difference."""
OPEN_ROWS: Final = 250
"""A difference of more lines is folded; `_OPEN_ALONE` is the limit for added or deleted files."""
_OPEN_ALONE: Final = 40


def differences(files: Iterable[FileDiff], command: str | None) -> Element:
    """Return the differences of files, in the given order.

    Args:
        files: The differences.
        command: The command that shows them in full, named where rows are left out; or None.
    """
    return element("div", [_file(one, command) for one in files], class_="differences")


def _file(one: FileDiff, command: str | None) -> Element:
    limit = _OPEN_ALONE if _is_alone(one) else OPEN_ROWS
    summary = (
        element("code", one.path, class_="path"),
        muted(one.kind),
        element("span", changed_lines(one.added, one.removed), class_="counts"),
    )
    return folded(summary, _body(one, command), is_open=0 < one.lines <= limit, class_="file")


def _body(one: FileDiff, command: str | None) -> Child:
    if one.is_binary:
        return note("It is no text.")
    if not one.hunks:
        said = "too long to be compared" if one.left_out else "the same lines"
        return note(f"There is nothing to show: {said}.")
    shown = list(islice(_rows(one), MAX_ROWS))
    form = "diff one" if _is_alone(one) else "diff two"
    body = scrolled(f"Changes of {one.path}", _head(one), element("tbody", shown), class_=form)
    if not one.left_out and len(shown) < MAX_ROWS:
        return body
    lines = one.lines + one.left_out
    rest = ("; ", element("code", command), " shows all") if command else None
    return (body, note(f"The rest of {counted(lines, 'line')} is left out", rest, "."))


def _is_alone(one: FileDiff) -> bool:
    """Return whether the file was added or deleted, so that the difference has only one side."""
    return one.kind in {"added", "deleted"}


def _head(one: FileDiff) -> tuple[Element, ...]:
    sides = {"added": ("After",), "deleted": ("Before",)}.get(one.kind, ("Before", "After"))
    names = (name for side in sides for name in (f"Line {side.lower()}", side))
    heads = [
        element("th", element("span", name, class_="visually-hidden"), scope="col")
        for name in names
    ]
    columns = [element("col", class_=kind) for _ in sides for kind in ("no", "side")]
    return element("colgroup", columns), element("thead", element("tr", heads))


def _rows(one: FileDiff) -> Iterable[Element]:
    width = 2 if _is_alone(one) else 4
    for number, hunk in enumerate(one.hunks):
        if number:
            yield element("tr", element("td", "⋯", colspan=width), class_="gap")
        yield from _alone(hunk) if _is_alone(one) else _paired(hunk)


def _alone(hunk: Hunk) -> Iterable[Element]:
    for line in hunk:
        number = line.old if line.new is None else line.new
        yield element("tr", _number(number), _side(line, [(line.text, False)]))


def _paired(hunk: Hunk) -> Iterable[Element]:
    for before, after in side_by_side(hunk):
        old = [] if before is None else [(before.text, False)]
        new = [] if after is None else [(after.text, False)]
        if before is not None and after is not None and before is not after:
            old, new = word_changes(before.text, after.text)
        cells = (_cells(before, old, "old"), _cells(after, new, "new"))
        yield element("tr", cells, class_="same" if before is after else None)


def _cells(line: DiffLine | None, pieces: list[Piece], side: str) -> tuple[Element, Element]:
    if line is None:
        return element("td", class_="no none"), element("td", class_="none")
    return _number(line.old if side == "old" else line.new), _side(line, pieces)


def _number(number: int | None) -> Element:
    return element("td", "" if number is None else str(number), class_="no")


_MARKS: Final = {LineKind.ADDED: "add", LineKind.REMOVED: "del", LineKind.KEPT: "kept"}


def _side(line: DiffLine, pieces: list[Piece]) -> Element:
    tag = "ins" if line.kind is LineKind.ADDED else "del"
    return element(
        "td",
        [element(tag, text) if differs else text for text, differs in pieces],
        class_=_MARKS[line.kind],
    )
