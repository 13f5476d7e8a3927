"""Small building blocks of all pages: sections, tables, badges, facts, code, prose, actions.

Prose is shown with a subset of Markdown: paragraphs, headings (as bold lines), lists, and `code`
within a line. All else stays plain text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final, Literal, TypeAlias
from xml.etree.ElementTree import Element

from attrs import frozen

from ...base.errors import counted
from ...harness.steps.step_views import ShownStep
from ...harness.views.checkpoints import CheckpointEntry
from .html import Attribute, Child, element
from .values.texts import MAX_TEXT, as_words, cut, moment

Tone: TypeAlias = Literal["good", "bad", "warn", "info", "plain"]
"""The look of a badge; its meaning is in its words."""
TONES: Final[Mapping[str, Tone]] = {
    "active": "info",
    "paused": "warn",
    "waiting": "warn",
    "completed": "good",
    "passed": "good",
    "answered": "good",
    "aborted": "bad",
    "failed": "bad",
    "failing": "bad",
    "ok": "good",
}
"""Tones of states and outcomes by name; all others are plain."""

_MOST_OF_A_VALUE: Final = 4_000


def section(name: str, title: str | None, *children: Child, class_: str = "section") -> Element:
    """Return a section of a page; its name is its anchor, the same on every page."""
    titled = None if title is None else f"{name}-title"
    heading = None if title is None else element("h2", title, id=titled)
    return element("section", heading, children, id=name, class_=class_, aria_labelledby=titled)


def table(
    caption: str, head: Sequence[str], rows: Iterable[Sequence[Child]], *, class_: str | None = None
) -> Element:
    """Return a table with column headings, or the word "None." if it has no rows.

    Args:
        caption: What the table shows, for screen readers.
        head: The column headings.
        rows: The cells of each row; the first one names the row.
        class_: The table's class, for its style.
    """
    lines = [
        element("tr", element("th", name, scope="row"), [element("td", cell) for cell in cells])
        for name, *cells in rows
    ]
    if not lines:
        return nothing("None.")
    return scrolled(
        caption,
        element("caption", caption, class_="visually-hidden"),
        element("thead", element("tr", [element("th", one, scope="col") for one in head])),
        element("tbody", lines),
        class_=class_,
    )


def scrolled(label: str, *children: Child, class_: str | None = None) -> Element:
    """Return a table in a frame that scrolls by mouse and keyboard."""
    body = element("table", children, class_=class_)
    return element("div", body, class_="scroll", role="region", tabindex=0, aria_label=label)


def badge(text: str, tone: Tone = "plain") -> Element:
    """Return a short highlighted label."""
    return element("span", text, class_=f"badge {tone}")


def facts(pairs: Iterable[tuple[str, Child]], *, class_: str = "facts") -> Element:
    """Return a list of names with their values; pairs with the value None are left out."""
    return element(
        "dl",
        [
            element("div", element("dt", name), element("dd", value))
            for name, value in pairs
            if value is not None
        ],
        class_=class_,
    )


def state_badge(state: str, words: str | None = None) -> Element:
    """Return a badge for a state or an outcome; `words` replace its text but not its tone."""
    return badge(words or state.replace("_", " "), TONES.get(state, "plain"))


def muted(*children: Child, tag: str = "span") -> Element:
    """Return content that is less prominent than its surroundings."""
    return element(tag, children, class_="muted")


def nothing(words: str) -> Element:
    """Return a placeholder for missing content."""
    return element("p", words, class_="none")


def folded(
    summary: Child,
    *children: Child,
    is_open: bool = False,
    id_: str | None = None,
    class_: str = "folded",
) -> Element:
    """Return content that opens and closes by mouse and keyboard, without a script."""
    head = element("summary", summary)
    return element("details", head, children, open=is_open, id=id_, class_=class_)


def plain_text(text: str, label: str, *, most: int = MAX_TEXT) -> Element:
    """Return a text unformatted in a scrolling box, cut to `most` characters."""
    return _box(cut(text, most), label, "text")


def value_in_words(value: object) -> Element:
    """Return a JSON value in words, cut if long."""
    return element("span", cut(as_words(value), _MOST_OF_A_VALUE), class_="lines")


def _box(content: Child, label: str, kind: str) -> Element:
    return element("pre", content, class_=kind, tabindex=0, role="group", aria_label=label)


def code(text: str, label: str) -> Element:
    """Return a file's text with line numbers, which are not copied with the text."""
    lines = text.removesuffix("\n").split("\n")
    content = [element("span", f"{line}\n", class_="line") for line in lines]
    return _box(content, f"{label}, {counted(len(lines), 'line')}", "code")


def changed_lines(added: int, removed: int) -> Child:
    """Return how many lines were added and removed."""
    return (
        element("span", f"+{added:,}", class_="plus") if added else None,
        " " if added and removed else None,
        element("span", f"-{removed:,}", class_="minus") if removed else None,
    )


def when(at: datetime) -> Element:
    """Return a moment to the second; the `datetime` attribute holds it in full precision."""
    return element("time", moment(at), datetime=at.isoformat())


def note(*children: Child) -> Element:
    """Return a remark in small letters."""
    return element("p", children, class_="note")


def left_out(total: int, shown: int, things: str, command: str | None = None) -> Element | None:
    """Return a note that only the last things are shown, and the command that lists all.

    None if all are shown.
    """
    if shown == total:
        return None
    rest = ("; ", element("code", command), " lists all") if command else None
    return note(f"The first {total - shown:,} of {total:,} {things} are left out", rest, ".")


def bar(pieces: Iterable[tuple[str, float, float, str]]) -> Element:
    """Return a bar of pieces on a scale from 0 to 1000.

    The bar is hidden from screen readers, so the caller must show its meaning as text too.

    Args:
        pieces: The class, start, width and tooltip of each.
    """
    drawn = [
        element(
            "rect",
            element("title", words),
            class_=kind,
            x=round(begin, 2),
            y=0,
            width=round(width, 2),
            height=10,
        )
        for kind, begin, width, words in pieces
    ]
    return drawing(drawn, class_="bar", view="0 0 1000 10", aria_hidden="true")


def drawing(*children: Child, class_: str, view: str, **attributes: Attribute) -> Element:
    """Return an SVG drawing stretched to the available width."""
    return element(
        "svg", children, class_=class_, viewBox=view, preserveAspectRatio="none", **attributes
    )


def budget_bar(used: int, total: int) -> Element:
    """Return a bar of a budget; its class is "near" from 80 % spent and "over" above 100 %."""
    level = "over" if used > total else "near" if used * 100 >= total * 80 else "spent"
    width = 1000 * min(used / total, 1.0) if total > 0 else 1000.0
    return bar([("rest", 0, 1000, "left"), (level, 0, width, "spent")])


_ITEM: Final = re.compile(r" {0,3}(?:[-*+]|\d{1,3}[.)])\s+")
_BLANK: Final = re.compile(r"\n\s*\n")
_CODE: Final = re.compile(r"`([^`\n]+)`")
_HEADING: Final = re.compile(r" {0,3}#{1,6}\s+(.*?)\s*#*")


def prose(text: str, *, most: int = 2_000) -> Element | None:
    """Return a text, cut to `most` characters, as paragraphs and lists; None if it is blank."""
    text = cut(text.replace("\r\n", "\n").strip(), most)
    blocks = [found for part in _BLANK.split(text) for found in _blocks(part)]
    return element("div", blocks, class_="prose") if blocks else None


def _blocks(part: str) -> Iterator[Element]:
    lines: list[str] = []
    items: list[str] = []
    for line in part.split("\n"):
        heading = _HEADING.fullmatch(line)
        if heading is not None or (_ITEM.match(line) and not items):
            yield from _paragraph(lines)
            lines = []
        if heading is not None:
            yield from _list(items)
            items = []
            yield element("p", element("b", _spans(heading[1])))
        elif _ITEM.match(line):
            items.append(_ITEM.sub("", line, count=1))
        elif items:
            items[-1] += f" {line.strip()}"
        else:
            lines.append(line)
    yield from _paragraph(lines)
    yield from _list(items)


def _paragraph(lines: list[str]) -> Iterator[Element]:
    text = " ".join(line.strip() for line in lines if line.strip())
    if text:
        yield element("p", _spans(text))


def _list(items: list[str]) -> Iterator[Element]:
    if items:
        yield element("ul", [element("li", _spans(one)) for one in items])


def _spans(text: str) -> list[Element | str]:
    """Split a line into code elements and plain text."""
    parts = _CODE.split(text)
    return [element("code", part) if odd % 2 else part for odd, part in enumerate(parts)]


@frozen(kw_only=True)
class Actions:
    """Controls and links that a server adds to a page; none by default.

    Attributes:
        session: Content below the session's heading, such as buttons to pause or abort it.
        checkpoint: Returns content for a checkpoint's row, such as buttons to go back or to fork.
        step: The same for the row of a program's step.
        address_of: Returns the address of another session's page, or None.
    """

    session: Child = None
    checkpoint: Callable[[CheckpointEntry], Child] = lambda _: None
    step: Callable[[ShownStep], Child] = lambda _: None
    address_of: Callable[[str], str | None] = lambda _: None


READ_ONLY: Final = Actions()
"""No controls and no links to other sessions."""
