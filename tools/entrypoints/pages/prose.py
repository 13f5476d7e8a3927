"""Renders prose with a small subset of Markdown; pure.

The subset: paragraphs, headings (as bold lines), lists, and `code` within a line. All else stays
plain text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final
from xml.etree.ElementTree import Element

from .html import element
from .values.texts import cut

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
