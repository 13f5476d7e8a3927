"""The names of the colours; `terminal.themes`, which needs Textual, has the colours."""

from __future__ import annotations

from enum import StrEnum


class ThemeName(StrEnum):
    """Which colours."""

    DARK = "dark"
    LIGHT = "light"
    CONTRAST = "contrast"
