"""What all pages share: the frame, the heading, moments, errors, style sheets and scripts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from functools import cache
from importlib.resources import files
from typing import Final
from xml.etree.ElementTree import Element

from attrs import frozen

from ...base.errors import AgentForgeError, ErrorKind
from ..loopback import key_script
from ..pages.html import STYLE_SHEET, element, rendered, served_page, style_sheet
from ..pages.parts import badge
from ..pages.values.texts import moment

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


_HTMX: Final = json.dumps(
    {
        "allowEval": False,
        "allowScriptTags": False,
        "includeIndicatorStyles": False,
        "historyEnabled": False,
        "selfRequestsOnly": True,
        "scrollIntoViewOnBoost": False,
        "responseHandling": [
            {"code": "204", "swap": False},
            {"code": "[23]..", "swap": True},
            {"code": "401", "swap": False, "error": True},
            {"code": "[45]..", "swap": True, "error": True},
        ],
    }
)

_REFUSED: Final = (
    " can be used once, within ten minutes. This one was used, is too old or is of a former start, "
    "or the server has ended. Press Enter in the terminal where it runs: it prints another address."
)

STATUS: Final = {
    ErrorKind.USAGE: 422,
    ErrorKind.NOT_FOUND: 404,
    ErrorKind.AMBIGUOUS: 409,
    ErrorKind.CONFLICT: 409,
    ErrorKind.REFUSED: 409,
    ErrorKind.PERSON_NEEDED: 409,
    ErrorKind.BUDGET: 409,
}
"""The HTTP status of errors by kind; 500 for all other kinds."""


@frozen(kw_only=True)
class View:
    """A page's content.

    Attributes:
        title: The page's title.
        content: Its parts, each an element with an id; the page's script replaces changed parts.
        topics: The topics whose changes make the browser request the page again.
        address: The page's canonical address; None for the one that was opened.
    """

    title: str
    content: Sequence[Element]
    topics: Sequence[str] = ()
    address: str | None = None

    def html(self) -> str:
        """Return the content as HTML."""
        content = element(
            "div",
            self.content,
            id="view",
            data_keyed=True,
            data_title=self.title,
            data_topics=" ".join(self.topics),
            data_address=self.address,
        )
        return rendered(content)


def shell(*, read_only: bool, fleet: bool) -> str:
    """Return the empty page as HTML; its script requests the content, with the key."""
    links = [("/", "Sessions"), ("/questions", "Questions"), ("/prune", "Prune")]
    links += [("/fleet", "Fleet")] if fleet else []
    items = [element("li", element("a", text, href=to)) for to, text in links]
    link = element("output", "connecting", id="link", class_="link", data_state="connecting")
    top = element(
        "nav",
        element("a", "agentforge", href="/", class_="brand"),
        element("ul", items),
        element("div", badge("read-only") if read_only else None, link, class_="about"),
        aria_label="Pages",
    )
    page = element(
        "div",
        id="page",
        hx_get="/view/",
        hx_trigger="refresh",
        hx_target="#view",
        hx_swap="keyed",
        hx_sync="this:queue last",
        hidden=True,
    )
    refused = (
        element("h1", "This page is not connected"),
        element("p", "Each address of ", element("code", "agentforge ui"), _REFUSED),
    )
    return served_page(
        "agentforge",
        element("p", "Loading … It needs JavaScript.", id="loading", class_="muted"),
        page,
        element("div", id="view", data_keyed=True),
        element("section", refused, id="refused", class_="card", hidden=True),
        element("div", id="toasts", role="status", aria_live="polite"),
        styles=STYLES,
        scripts=SCRIPTS,
        settings={"htmx-config": _HTMX},
        top=top,
    )


def page_heading(title: str, *, hidden: bool = False) -> Element:
    """Return the heading of a page; a hidden one is for screen readers only."""
    return element("h1", title, id="heading", class_="visually-hidden" if hidden else None)


def ago(at: datetime) -> Element:
    """Return a moment, which the page's script replaces by the time elapsed since."""
    text = moment(at)
    return element("time", text, datetime=at.isoformat(), title=text, data_ago=True)


def error_box(error: AgentForgeError, *, title: str = "That was not done") -> Element:
    """Return an error as a box, with the same text as on the command line."""
    text = (element("strong", title), element("p", str(error)))
    return element("div", text, class_="alarm", role="alert")
