"""What is the same on every page: the frame, how a moment reads, how an error reads."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final
from xml.etree.ElementTree import Element

from attrs import frozen

from ...base.errors import AgentForgeError, ErrorKind
from ..pages.document import Served, served_page
from ..pages.html import Child, element, rendered
from .assets import SCRIPTS, STYLES

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
_SERVED: Final = Served(styles=STYLES, scripts=SCRIPTS, settings=(("htmx-config", _HTMX),))

STATUS: Final = {
    ErrorKind.USAGE: 422,
    ErrorKind.NOT_FOUND: 404,
    ErrorKind.AMBIGUOUS: 409,
    ErrorKind.CONFLICT: 409,
    ErrorKind.REFUSED: 409,
    ErrorKind.PERSON_NEEDED: 409,
    ErrorKind.BUDGET: 409,
}
"""The HTTP status of errors by their kind; of all others it is 500."""


@frozen(kw_only=True)
class View:
    """A page's content.

    Attributes:
        title: The page's title.
        content: Its parts, each an element with an id: a part is exchanged when it changed.
        topics: What the page is about: when one of them changes, it is asked for again.
        address: The address by which the page is had again, or None: the one that was opened.
    """

    title: str
    content: Sequence[Element]
    topics: Sequence[str] = ()
    address: str | None = None

    def html(self) -> str:
        """Write it."""
        return rendered(
            element(
                "div",
                list(self.content),
                id="view",
                data_keyed=True,
                data_title=self.title,
                data_topics=" ".join(self.topics),
                data_address=self.address,
            )
        )


def shell(*, read_only: bool, fleet: bool) -> str:
    """Write the page that holds nothing: its script asks for the content, with the key."""
    links = [("/", "Sessions"), ("/questions", "Questions"), ("/prune", "Prune")]
    links += [("/fleet", "Fleet")] if fleet else []
    top = element(
        "nav",
        element("a", "agentforge", href="/", class_="brand"),
        element("ul", [element("li", element("a", text, href=to)) for to, text in links]),
        element(
            "div",
            element("span", "read-only", class_="badge") if read_only else None,
            element("output", "connecting", id="link", class_="link", data_state="connecting"),
            class_="about",
        ),
        aria_label="Pages",
    )
    return served_page(
        "agentforge",
        element("p", "Loading … It needs JavaScript.", id="loading", class_="muted"),
        element(
            "div",
            id="page",
            hx_get="/view/",
            hx_trigger="refresh",
            hx_target="#view",
            hx_swap="keyed",
            hx_sync="this:queue last",
            hidden=True,
        ),
        element("div", id="view", data_keyed=True),
        element(
            "section",
            element("h1", "This page is not connected"),
            element(
                "p",
                "Each address of ",
                element("code", "agentforge ui"),
                " can be used once, within ten minutes. This one was used, is too old or is of a "
                "former start, or the server has ended. Press Enter in the terminal where it runs: "
                "it prints another address.",
            ),
            id="refused",
            class_="card",
            hidden=True,
        ),
        element("div", id="toasts", role="status", aria_live="polite"),
        served=_SERVED,
        top=top,
    )


def ago(at: datetime) -> Element:
    """Return a moment; the page's script shows how long ago it was."""
    text = f"{at:%Y-%m-%d %H:%M:%S}Z"
    return element("time", text, datetime=at.isoformat(), title=text, data_ago=True)


def moment(at: datetime, *, after_s: float = 0.0) -> Element:
    """Return the moment so many seconds after another, as it is."""
    then = at + timedelta(seconds=after_s)
    return element("time", f"{then:%Y-%m-%d %H:%M:%S}Z", datetime=then.isoformat())


def error_box(error: AgentForgeError, *, title: str = "That was not done") -> Element:
    """Return an error as the command line says it, for a place in a page."""
    return element(
        "div",
        element("strong", title),
        element("p", str(error)),
        class_="alarm",
        role="alert",
    )


def status_of(error: AgentForgeError) -> int:
    """Return the HTTP status of an error."""
    return STATUS.get(error.kind, 500)


def part(name: str, *children: Child, title: str | None = None, note: Child = None) -> Element:
    """Return a part of a page: a card with a heading."""
    heading = None if title is None else element("h2", title, id=f"{name}-title")
    return element(
        "section",
        heading,
        element("p", note, class_="note") if note is not None else None,
        children,
        id=name,
        class_="card",
        aria_labelledby=None if title is None else f"{name}-title",
    )
