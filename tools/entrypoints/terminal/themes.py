"""The colours: dark, light, and one of high contrast.

All text has at least the contrast of WCAG 2.2, level AA (4.5 to 1, success criterion 1.4.3), in the
theme of high contrast that of level AAA (7 to 1, 1.4.6). A test measures it on the drawn screens.
All colours are in the palette of 256, so that terminals without more show the same ones.
"""

from __future__ import annotations

from typing import Final

from textual.theme import Theme

from .theme_name import ThemeName


def _theme(
    name: ThemeName,
    *,
    dark: bool,
    cursor: str,
    cursor_text: str,
    key: str,
    second: str,
    text: str,
    quiet: str,
    good: str,
    bad: str,
    background: str,
    surface: str,
    panel: str,
) -> Theme:
    """Make a theme; name also what Textual would derive, and so without regard to contrast."""
    headings = {f"markdown-h{level}-color": key for level in range(1, 7)}
    return Theme(
        name=name,
        dark=dark,
        primary=cursor,
        secondary=second,
        accent=key,
        foreground=text,
        background=background,
        surface=surface,
        panel=panel,
        success=good,
        warning=key,
        error=bad,
        variables={
            **headings,
            "block-cursor-background": cursor,
            "block-cursor-foreground": cursor_text,
            "block-cursor-blurred-background": panel,
            "block-cursor-blurred-foreground": text,
            "block-cursor-text-style": "bold",
            "footer-key-foreground": key,
            "footer-description-foreground": text,
            "footer-foreground": text,
            "input-selection-background": cursor,
            "input-selection-foreground": cursor_text,
            "message-background": key,
            "message-foreground": cursor_text,
            "quiet": quiet,
            "link-color": key,
            "scrollbar": quiet,
            "scrollbar-hover": text,
            "scrollbar-active": text,
            "scrollbar-background": panel,
            "scrollbar-background-hover": panel,
            "scrollbar-background-active": panel,
            "scrollbar-corner-color": panel,
            "text": text,
            "text-muted": quiet,
            "text-primary": text,
            "text-secondary": quiet,
            "text-accent": key,
            "text-warning": key,
            "text-success": good,
            "text-error": bad,
            "error-muted": "transparent",
            "warning-muted": "transparent",
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
