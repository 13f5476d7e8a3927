"""The style sheets and scripts of the pages, as they come with the package."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final

from attrs import frozen

from ..loopback import key_script
from ..pages.document import STYLE_SHEET, style_sheet

_OWN: Final = {
    "htmx.min.js": "text/javascript",
    "ui.js": "text/javascript",
    "ui.css": "text/css",
    "icon.svg": "image/svg+xml",
}
STYLES: Final = (f"/static/{STYLE_SHEET}", "/static/ui.css")
SCRIPTS: Final = ("/static/htmx.min.js", "/static/key.js", "/static/ui.js")
ICON: Final = "icon.svg"


@frozen
class Asset:
    """A file of the pages.

    Attributes:
        content: What it holds.
        media_type: What it is.
    """

    content: bytes
    media_type: str


@cache
def asset(name: str) -> Asset | None:
    """Return a file by its name; None if there is none."""
    if name == STYLE_SHEET:
        return Asset(style_sheet().encode(), "text/css")
    if name == "key.js":
        return Asset(key_script().encode(), "text/javascript")
    if name not in _OWN:
        return None
    return Asset((files(__package__) / "static" / name).read_bytes(), _OWN[name])
