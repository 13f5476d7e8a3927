"""The pages' style sheets and scripts, shipped with the package."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Final

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


@cache
def asset(name: str) -> tuple[bytes, str] | None:
    """Return an asset's content and media type, or None if there is no such asset."""
    if name == STYLE_SHEET:
        return style_sheet().encode(), "text/css"
    if name == "key.js":
        return key_script().encode(), "text/javascript"
    if name not in _OWN:
        return None
    return (files(__package__) / "static" / name).read_bytes(), _OWN[name]
