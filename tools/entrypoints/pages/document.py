"""Complete pages: a self-contained file, or a page that loads style sheets and scripts.

Both share one frame and one style sheet, `style.css` beside this module.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Final
from xml.etree.ElementTree import Element, SubElement, tostring

from .html import Child, element, spelled

STYLE_SHEET: Final = "style.css"
"""The style sheet's file name; `style_sheet` returns its text."""
_CONTENT: Final = "content"


@cache
def style_sheet() -> str:
    """Return the text of the style sheet that all pages share."""
    return (files(__package__) / STYLE_SHEET).read_text(encoding="utf-8")


def self_contained_page(title: str, *content: Child, top: Child = None) -> str:
    """Return a page as one HTML file that loads and runs nothing; its own policy forbids both.

    Args:
        title: The page's title, as plain text.
        content: The content of the main part.
        top: The content of the page's header, above the main part.
    """
    head = _head(title, policy=_own_policy())
    SubElement(head, "style").text = style_sheet()
    return _page(head, top, content)


def served_page(
    title: str,
    *content: Child,
    styles: Iterable[str],
    scripts: Iterable[str] = (),
    settings: Mapping[str, str] = MappingProxyType({}),
    top: Child = None,
) -> str:
    """Return a page that loads a server's style sheets and scripts.

    The page has no policy of its own; the server sets one by `Content-Security-Policy`.

    Args:
        title: The page's title, as plain text.
        content: The content of the main part.
        styles: Paths of style sheets on that server, each beginning with `/`.
        scripts: Paths of scripts, likewise; they run in order after the page is parsed.
        settings: Further `meta` elements by name, such as htmx's configuration.
        top: The content of the page's header, above the main part.

    Raises:
        ValueError: A path is not on the same server.
    """
    head = _head(title, policy=None)
    for name, value in settings.items():
        SubElement(head, "meta", {"name": name, "content": value})
    for path in styles:
        SubElement(head, "link", {"rel": "stylesheet", "href": _on_server(path)})
    for path in scripts:
        SubElement(head, "script", {"src": _on_server(path), "defer": ""})
    return _page(head, top, content)


def _own_policy() -> str:
    """Return a self-contained page's policy: only its own style sheet and `data:` images."""
    digest = hashlib.sha256(style_sheet().encode()).digest()
    style = f"'sha256-{base64.b64encode(digest).decode()}'"
    return (
        f"default-src 'none'; style-src {style}; img-src data:; base-uri 'none'; form-action 'none'"
    )


def _head(title: str, *, policy: str | None) -> Element:
    head = Element("head")
    SubElement(head, "meta", {"charset": "utf-8"})
    if policy is not None:
        SubElement(head, "meta", {"http-equiv": "Content-Security-Policy", "content": policy})
    SubElement(head, "meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"})
    SubElement(head, "meta", {"name": "color-scheme", "content": "light dark"})
    SubElement(head, "meta", {"name": "referrer", "content": "no-referrer"})
    SubElement(head, "title").text = spelled(" ".join(title.split()))
    return head


def _page(head: Element, top: Child, content: Sequence[Child]) -> str:
    body = Element("body")
    body.append(element("a", "Skip to the content", href=f"#{_CONTENT}", class_="skip"))
    if top is not None:
        body.append(element("header", top, class_="top"))
    body.append(element("main", content, id=_CONTENT, tabindex=-1))
    page = Element("html", {"lang": "en"})
    page.extend((head, body))
    return "<!doctype html>\n" + tostring(page, encoding="unicode", method="html") + "\n"


def _on_server(path: str) -> str:
    if not path.startswith("/") or path.startswith(("//", "/\\")):
        raise ValueError(f"{path!r} is no path of the server")
    return path
