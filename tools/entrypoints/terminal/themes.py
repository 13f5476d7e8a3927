"""The themes: dark, light and high contrast.

All text has at least the contrast of WCAG 2.2, level AA (4.5 to 1, success criterion 1.4.3), in the
high-contrast theme that of level AAA (7 to 1, 1.4.6). A test measures it on the drawn screens. All
colours are in the 256-colour palette, so that terminals limited to it show the same ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from textual.theme import Theme

from .theme_name import ThemeName

_DERIVED: Final = {
    "cursor": "block-cursor-background input-selection-background",
    "cursor_text": "block-cursor-foreground input-selection-foreground message-foreground",
    "key": "footer-key-foreground message-background link-color text-accent text-warning "
    "markdown-h1-color markdown-h2-color markdown-h3-color markdown-h4-color markdown-h5-color "
    "markdown-h6-color",
    "text": "block-cursor-blurred-foreground footer-description-foreground footer-foreground "
    "scrollbar-hover scrollbar-active text text-primary",
    "quiet": "quiet scrollbar text-muted text-secondary",
    "good": "text-success",
    "bad": "text-error",
    "panel": "block-cursor-blurred-background scrollbar-background scrollbar-background-hover "
    "scrollbar-background-active scrollbar-corner-color",
}
"""Textual's variables that would be derived from other colours, by the colour that they get."""


_COLOURS: Final = {
    "cursor": ("#5fafff", "#005faf", "#ffff00"),
    "cursor_text": ("#080808", "#ffffff", "#000000"),
    "key": ("#ffd75f", "#5f00af", "#00ffff"),
    "second": ("#87d7ff", "#005f87", "#ffffff"),
    "text": ("#e4e4e4", "#1c1c1c", "#ffffff"),
    "quiet": ("#b2b2b2", "#585858", "#ffffff"),
    "good": ("#87d787", "#005f00", "#00ff00"),
    "bad": ("#ff8787", "#af0000", "#ffafaf"),
    "background": ("#121212", "#ffffff", "#000000"),
    "surface": ("#1c1c1c", "#ffffff", "#000000"),
    "panel": ("#303030", "#e4e4e4", "#000000"),
}
"""Each role's colour in each theme, in the order of `ThemeName`."""


def _theme(name: ThemeName, colours: Mapping[str, str]) -> Theme:
    """Return a theme; it also sets variables that Textual would derive regardless of contrast."""
    return Theme(
        name=name,
        dark=name is not ThemeName.LIGHT,
        primary=colours["cursor"],
        secondary=colours["second"],
        accent=colours["key"],
        foreground=colours["text"],
        background=colours["background"],
        surface=colours["surface"],
        panel=colours["panel"],
        success=colours["good"],
        warning=colours["key"],
        error=colours["bad"],
        variables={
            "block-cursor-text-style": "bold",
            **dict.fromkeys(("error-muted", "warning-muted"), "transparent"),
            **{
                variable: colours[drawn]
                for drawn, variables in _DERIVED.items()
                for variable in variables.split()
            },
        },
    )


THEMES: Final = {
    name: _theme(name, dict(zip(_COLOURS, colours, strict=True)))
    for name, colours in zip(ThemeName, zip(*_COLOURS.values(), strict=True), strict=True)
}


def theme_after(name: str) -> ThemeName:
    """Return the theme after the named one, in a cycle."""
    names = list(ThemeName)
    return names[(names.index(ThemeName(name)) + 1) % len(names)]
