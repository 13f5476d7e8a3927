"""The colours: dark, light, and one of high contrast.

All text has at least the contrast of WCAG 2.2, level AA (4.5 to 1, success criterion 1.4.3), in the
theme of high contrast that of level AAA (7 to 1, 1.4.6). A test measures it on the drawn screens.
All colours are in the palette of 256, so that terminals without more show the same ones.
"""

from __future__ import annotations

from typing import Final

from textual.theme import Theme

from .theme_name import ThemeName


def _variables(
    *,
    cursor: str,
    cursor_text: str,
    key: str,
    text: str,
    quiet: str,
    good: str,
    bad: str,
    track: str,
) -> dict[str, str]:
    """Name the colours that Textual would derive from others, and so without regard to contrast."""
    headings = {f"markdown-h{level}-color": key for level in range(1, 7)}
    return {
        **headings,
        "block-cursor-background": cursor,
        "block-cursor-foreground": cursor_text,
        "block-cursor-blurred-background": track,
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
        "scrollbar-background": track,
        "scrollbar-background-hover": track,
        "scrollbar-background-active": track,
        "scrollbar-corner-color": track,
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
    }


DARK: Final = Theme(
    name=ThemeName.DARK,
    dark=True,
    primary="#5fafff",
    secondary="#87d7ff",
    accent="#ffd75f",
    foreground="#e4e4e4",
    background="#121212",
    surface="#1c1c1c",
    panel="#303030",
    success="#87d787",
    warning="#ffd75f",
    error="#ff8787",
    variables=_variables(
        cursor="#5fafff",
        cursor_text="#080808",
        key="#ffd75f",
        text="#e4e4e4",
        quiet="#b2b2b2",
        good="#87d787",
        bad="#ff8787",
        track="#303030",
    ),
)
LIGHT: Final = Theme(
    name=ThemeName.LIGHT,
    dark=False,
    primary="#005faf",
    secondary="#005f87",
    accent="#5f00af",
    foreground="#1c1c1c",
    background="#ffffff",
    surface="#ffffff",
    panel="#e4e4e4",
    success="#005f00",
    warning="#5f00af",
    error="#af0000",
    variables=_variables(
        cursor="#005faf",
        cursor_text="#ffffff",
        key="#5f00af",
        text="#1c1c1c",
        quiet="#585858",
        good="#005f00",
        bad="#af0000",
        track="#e4e4e4",
    ),
)
CONTRAST: Final = Theme(
    name=ThemeName.CONTRAST,
    dark=True,
    primary="#ffff00",
    secondary="#ffffff",
    accent="#00ffff",
    foreground="#ffffff",
    background="#000000",
    surface="#000000",
    panel="#000000",
    success="#00ff00",
    warning="#ffff00",
    error="#ffafaf",
    variables=_variables(
        cursor="#ffff00",
        cursor_text="#000000",
        key="#00ffff",
        text="#ffffff",
        quiet="#ffffff",
        good="#00ff00",
        bad="#ffafaf",
        track="#000000",
    ),
)
THEMES: Final = {ThemeName(one.name): one for one in (DARK, LIGHT, CONTRAST)}


def theme_after(name: str) -> ThemeName:
    """Return the theme that follows one, in a circle."""
    names = list(ThemeName)
    return names[(names.index(ThemeName(name)) + 1) % len(names)]
