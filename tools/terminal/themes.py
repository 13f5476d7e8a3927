"""The colours: dark, light, and one of high contrast.

All text has at least the contrast of WCAG 2.2, level AA (4.5 to 1, success criterion 1.4.3), in the
theme of high contrast that of level AAA (7 to 1, 1.4.6). A test measures it on the drawn screens.
"""

from __future__ import annotations

from typing import Final

from textual.theme import Theme

from tools.terminal.theme_name import ThemeName


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
        "block-cursor-blurred-background": cursor,
        "block-cursor-blurred-foreground": cursor_text,
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
    primary="#6cb6ff",
    secondary="#9ccbff",
    accent="#ffc66d",
    foreground="#e4e6eb",
    background="#14161b",
    surface="#1b1e24",
    panel="#262b34",
    success="#7bd88f",
    warning="#ffc66d",
    error="#ff9a91",
    variables=_variables(
        cursor="#6cb6ff",
        cursor_text="#0b0d10",
        key="#ffc66d",
        text="#e4e6eb",
        quiet="#aab2bf",
        good="#7bd88f",
        bad="#ff9a91",
        track="#262b34",
    ),
)
LIGHT: Final = Theme(
    name=ThemeName.LIGHT,
    dark=False,
    primary="#0b57a8",
    secondary="#274b73",
    accent="#7a4300",
    foreground="#1b1f24",
    background="#fbfcfd",
    surface="#ffffff",
    panel="#e4e9f0",
    success="#14602d",
    warning="#7a4300",
    error="#a31c15",
    variables=_variables(
        cursor="#0b57a8",
        cursor_text="#ffffff",
        key="#7a4300",
        text="#1b1f24",
        quiet="#4b5563",
        good="#14602d",
        bad="#a31c15",
        track="#e4e9f0",
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
    error="#ffa0a0",
    variables=_variables(
        cursor="#ffff00",
        cursor_text="#000000",
        key="#00ffff",
        text="#ffffff",
        quiet="#ffffff",
        good="#00ff00",
        bad="#ffa0a0",
        track="#000000",
    ),
)
THEMES: Final = {ThemeName(one.name): one for one in (DARK, LIGHT, CONTRAST)}


def theme_after(name: str) -> ThemeName:
    """Return the theme that follows one, in a circle."""
    names = list(ThemeName)
    return names[(names.index(ThemeName(name)) + 1) % len(names)]
