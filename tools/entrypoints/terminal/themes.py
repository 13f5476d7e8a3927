"""The colours: dark, light, and one of high contrast.

All text has at least the contrast of WCAG 2.2, level AA (4.5 to 1, success criterion 1.4.3), in the
theme of high contrast that of level AAA (7 to 1, 1.4.6). A test measures it on the drawn screens.
All colours are in the palette of 256, so that terminals without more show the same ones.
"""

from __future__ import annotations

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
"""What Textual would derive from other colours, by the colour that it has here."""


def _theme(name: ThemeName, *, dark: bool, **colours: str) -> Theme:
    """Make a theme; name also what Textual would derive, and so without regard to contrast."""
    return Theme(
        name=name,
        dark=dark,
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
                variable: colours[name]
                for name, variables in _DERIVED.items()
                for variable in variables.split()
            },
        },
    )


_ALL: Final = (
    _theme(
        ThemeName.DARK,
        dark=True,
        cursor="#5fafff",
        cursor_text="#080808",
        key="#ffd75f",
        second="#87d7ff",
        text="#e4e4e4",
        quiet="#b2b2b2",
        good="#87d787",
        bad="#ff8787",
        background="#121212",
        surface="#1c1c1c",
        panel="#303030",
    ),
    _theme(
        ThemeName.LIGHT,
        dark=False,
        cursor="#005faf",
        cursor_text="#ffffff",
        key="#5f00af",
        second="#005f87",
        text="#1c1c1c",
        quiet="#585858",
        good="#005f00",
        bad="#af0000",
        background="#ffffff",
        surface="#ffffff",
        panel="#e4e4e4",
    ),
    _theme(
        ThemeName.CONTRAST,
        dark=True,
        cursor="#ffff00",
        cursor_text="#000000",
        key="#00ffff",
        second="#ffffff",
        text="#ffffff",
        quiet="#ffffff",
        good="#00ff00",
        bad="#ffafaf",
        background="#000000",
        surface="#000000",
        panel="#000000",
    ),
)
THEMES: Final = {ThemeName(one.name): one for one in _ALL}


def theme_after(name: str) -> ThemeName:
    """Return the theme that follows one, in a circle."""
    names = list(ThemeName)
    return names[(names.index(ThemeName(name)) + 1) % len(names)]
