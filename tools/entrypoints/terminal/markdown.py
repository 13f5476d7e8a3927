"""Renders an agent's Markdown without anything that acts.

The parser's output is made harmless, not only its input: `&#8238;` becomes a bidirectional control
only when parsed. A link shows its target and can't be followed, an image is shown as its text and
address, HTML as its source.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.rules_core import StateCore
from markdown_it.token import Token
from textual.app import ComposeResult
from textual.containers import VerticalScroll
from textual.content import Content
from textual.highlight import HighlightTheme, highlight
from textual.widgets import Markdown, Static
from textual.widgets.markdown import MarkdownFence

from ...base.errors import counted
from .text import harmless

MAX_BLOCKS: Final = 300
"""A prompt with more blocks is shown as its source, since each block is a widget."""

_MAX_SOURCE: Final = 200_000
_AS_WRITTEN: Final = "shown as it was written, for its length"


@cache  # a parser is slow to create, and each document creates one
def harmless_parser() -> MarkdownIt:
    """Return a parser of GitHub's Markdown whose tokens contain nothing that acts."""
    parser = MarkdownIt("gfm-like", {"html": False, "linkify": False})
    parser.core.ruler.push("harmless", _make_harmless)
    return parser


def _make_harmless(state: StateCore) -> None:
    for token in state.tokens:
        token.info = harmless(token.info).split(" ")[0][:40]
        token.content = harmless(token.content)
        if token.children is not None:
            token.children = _without_links(token.children)


def _without_links(tokens: list[Token]) -> list[Token]:
    kept: list[Token] = []
    links: list[tuple[str, int]] = []
    for token in tokens:
        if token.type == "link_open":
            links.append((harmless(str(token.attrs.get("href", ""))), len(kept)))
        elif token.type == "link_close":
            target, start = links.pop()
            shown = "".join(one.content for one in kept[start:])
            if target and target not in (shown, f"mailto:{shown}"):
                kept.append(_text(f" ({target})"))
        elif token.type == "image":
            target = harmless(str(token.attrs.get("src", "")))
            kept.append(_text(f"[image: {harmless(token.content) or 'no text'}, {target}]"))
        else:
            token.content = harmless(token.content)
            kept.append(token)
    return kept


def _text(content: str) -> Token:
    return Token("text", "", 0, content=content)


def is_too_long_to_render(source: str) -> bool:
    """Return whether a prompt is too long to render and is shown as its source."""
    blocks = source.count("\n") + 1 - source.count("\n\n")
    return len(source) > _MAX_SOURCE or blocks > MAX_BLOCKS


class _CodeColours(HighlightTheme):
    """Textual's colours of code without fading, which reduces contrast."""

    STYLES = {  # noqa: RUF012 (Textual's own annotation is that of an instance)
        token: "$quiet" if style == "$text 60%" else re.sub(r" \d+%", "", style)
        for token, style in HighlightTheme.STYLES.items()
    }


class _Fence(MarkdownFence):
    """A block of code."""

    @classmethod
    def highlight(
        cls,
        code: str,
        language: str,
        ansi: bool = False,  # noqa: ARG003 (Textual's signature)
        dark: bool = True,  # noqa: ARG003
    ) -> Content:
        """Return code in the theme's colours."""
        return highlight(code, language=language or None, theme=_CodeColours)


class HarmlessMarkdown(Markdown):
    """A Markdown document whose links can't be followed."""

    BLOCKS = {**Markdown.BLOCKS, "fence": _Fence, "code_block": _Fence}  # noqa: RUF012

    def __init__(self, source: str) -> None:
        """Set up the view of a Markdown source."""
        super().__init__(harmless(source), parser_factory=harmless_parser, open_links=False)


class PromptView(VerticalScroll, can_focus=False):
    """A question's prompt; takes no focus, the screen scrolls it."""

    def __init__(self, source: str, *, title: str) -> None:
        """Set up the view of a prompt in Markdown, with a title in its border."""
        super().__init__()
        self._source = source
        self._long = is_too_long_to_render(source)
        self.border_title = Content(title)

    def compose(self) -> ComposeResult:
        """Yield the rendered document, or its source if it is too long."""
        if self._long:
            yield Static(Content(harmless(self._source)), classes="plain")
        else:
            yield HarmlessMarkdown(self._source)

    def on_mount(self) -> None:
        """Keep the note on how many lines are below up to date."""
        self.watch(self, "virtual_size", self._say_more, init=False)
        self.watch(self, "scroll_y", self._say_more, init=False)
        self.call_after_refresh(self._say_more)

    def on_resize(self) -> None:
        """Update the note on how many lines are below."""
        self.call_after_refresh(self._say_more)

    def _say_more(self) -> None:
        below = max(0, round(self.max_scroll_y - self.scroll_y))
        above = round(self.scroll_y)
        notes = []
        if self._long:
            notes.append(_AS_WRITTEN)
        if below:
            notes.append(f"{counted(below, 'more line')}: PgDn")
        elif above:
            notes.append("end: PgUp goes up")
        self.border_subtitle = Content(" · ".join(notes))
