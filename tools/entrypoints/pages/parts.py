"""The small parts that all pages are made of: sections, tables, badges, facts, code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final, Literal, TypeAlias
from xml.etree.ElementTree import Element

from ...base.errors import counted
from ...harness import SessionState
from .html import Attribute, Child, element
from .values.texts import clock_time, cut, moment

Tone: TypeAlias = Literal["good", "bad", "warn", "info", "plain"]
"""How a badge looks; what it says is in its words."""
STATE_TONES: Final[Mapping[SessionState, Tone]] = {
    SessionState.ACTIVE: "info",
    SessionState.PAUSED: "warn",
    SessionState.COMPLETED: "good",
    SessionState.ABORTED: "bad",
}
OUTCOME_TONES: Final[Mapping[str, Tone]] = {
    "passed": "good",
    "failed": "bad",
    "open": "plain",
    "answered": "good",
    "waiting": "warn",
}
"""The tones of outcomes by their names; any other is plain."""


def section(
    name: str, title: str, *children: Child, attributes: Mapping[str, Attribute] | None = None
) -> Element:
    """Return a section of a page; its name is its anchor, stable from page to page."""
    heading = element("h2", title, id=f"{name}-title")
    return element(
        "section",
        heading,
        children,
        id=name,
        class_="section",
        aria_labelledby=f"{name}-title",
        **(attributes or {}),
    )


def table(
    caption: str, head: Sequence[str], rows: Iterable[Sequence[Child]], *, class_: str | None = None
) -> Element:
    """Return a table with its columns' heads; where it has no rows, words that say so.

    Args:
        caption: What it shows, for who can't see it.
        head: The columns' heads.
        rows: The cells of each row; the first one names the row.
        class_: How it looks, besides.
    """
    lines = [
        element(
            "tr",
            [
                element("td", cell) if number else element("th", cell, scope="row")
                for number, cell in enumerate(row)
            ],
        )
        for row in rows
    ]
    if not lines:
        return element("p", "None.", class_="none")
    return element(
        "div",
        element(
            "table",
            element("caption", caption, class_="visually-hidden"),
            element("thead", element("tr", [element("th", one, scope="col") for one in head])),
            element("tbody", lines),
            class_=class_,
        ),
        class_="scroll",
        role="region",
        tabindex=0,
        aria_label=caption,
    )


def badge(text: str, tone: Tone = "plain") -> Element:
    """Return a word that stands out."""
    return element("span", text, class_=f"badge {tone}")


def facts(pairs: Iterable[tuple[str, Child]], *, class_: str = "facts") -> Element:
    """Return names with their values."""
    return element(
        "dl",
        [
            element("div", element("dt", name), element("dd", value))
            for name, value in pairs
            if value is not None
        ],
        class_=class_,
    )


def folded(
    summary: Child,
    *children: Child,
    is_open: bool = False,
    id_: str | None = None,
    class_: str = "folded",
) -> Element:
    """Return what opens and closes, by mouse and keyboard, without a script."""
    return element(
        "details", element("summary", summary), children, open=is_open, id=id_, class_=class_
    )


def plain_text(text: str, label: str, *, class_: str = "text") -> Element:
    """Return a long text as it was written, in a box that scrolls."""
    return element("pre", cut(text), class_=class_, tabindex=0, role="group", aria_label=label)


def code(text: str, label: str) -> Element:
    """Return a file's text with the numbers of its lines, which aren't copied with it."""
    lines = text.removesuffix("\n").split("\n")
    return element(
        "pre",
        [element("span", f"{line}\n", class_="line") for line in lines],
        class_="code",
        tabindex=0,
        role="group",
        aria_label=f"{label}, {counted(len(lines), 'line')}",
    )


def when(at: datetime, *, short: bool = False) -> Element:
    """Return a moment, whole for programs; in short the time of the day alone."""
    return element(
        "time",
        clock_time(at) if short else moment(at),
        datetime=at.isoformat(),
        title=moment(at) if short else None,
    )


def note(*children: Child) -> Element:
    """Return a remark in small letters."""
    return element("p", children, class_="note")


def bar(pieces: Iterable[tuple[str, float, float, str]], *, label: str | None = None) -> Element:
    """Return a bar of pieces on a line from 0 to 1000.

    Args:
        pieces: The class, beginning, width and words of each.
        label: What it shows, in words; None where words stand beside it.
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
    return element(
        "svg",
        drawn,
        class_="bar",
        viewBox="0 0 1000 10",
        preserveAspectRatio="none",
        role="img" if label else None,
        aria_label=label,
        aria_hidden=None if label else "true",
    )
