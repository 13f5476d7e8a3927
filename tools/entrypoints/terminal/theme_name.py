"""The names of the themes; `themes`, which needs Textual, defines their colours."""

from __future__ import annotations

from enum import StrEnum


class ThemeName(StrEnum):
    """The name of a theme."""

    DARK = "dark"
    LIGHT = "light"
    CONTRAST = "contrast"
