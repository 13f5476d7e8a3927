"""HTML elements as values: built, never concatenated, so that text can't become markup.

The standard library's element tree does the escaping, and there is no way to insert markup.
Anything that could run code or load something is rejected when an element is built: element names
outside the closed set (which excludes `script` and `style`), attributes with code, addresses
outside the server. A call that breaks this is a fault in our own code, so it raises `ValueError`
and not an `AgentForgeError`.

A complete page is a self-contained file, or one that loads style sheets and scripts. Both have the
same frame and style sheet, `style.css` beside this module.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import Final, TypeAlias
from xml.etree.ElementTree import Element, SubElement, tostring

Child: TypeAlias = "Element | str | int | Iterable[Child] | None"
"""Content of an element: elements, texts, counts (shown as `12,345`), or an iterable of these;
None and False are left out."""
Attribute: TypeAlias = str | int | float | bool | None
"""An attribute's value: None and False omit the attribute, True gives it an empty value."""

_ELEMENTS = (
    "a abbr article aside b blockquote br button caption code col colgroup dd del details dialog "
    "div dl dt em fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header hr i img input "
    "ins kbd label legend li main mark meter nav ol optgroup option output p pre progress s samp "
    "search section select small span strong sub summary sup table tbody td textarea tfoot th "
    "thead time tr u ul wbr svg g rect line path polyline circle text tspan title desc"
)
ELEMENTS: Final = frozenset(_ELEMENTS.split())
"""The elements allowed inside a page's body."""
_ADDRESSES: Final = frozenset({"href", "src", "action", "formaction", "cite", "poster"})
_REQUESTS: Final = re.compile(r"hx-(get|post|put|patch|delete|push-url|replace-url)|sse-connect")
_CODE: Final = re.compile(r"on|hx-on|style$|srcdoc$|xlink|xmlns")
_NAME: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]*")
_OWN_ADDRESS: Final = re.compile(
    r"(#|\?|/(?![/\\]))[^\s\x00-\x20]*|/"
)  # browsers remove tabs and line ends from addresses
_IMAGE: Final = re.compile(r"data:image/(png|jpeg|gif|webp);base64,[A-Za-z0-9+/=]*")
_KEEPS_SPACE: Final = frozenset({"pre", "textarea"})


def element(tag: str, *children: Child, **attributes: Attribute) -> Element:
    """Build an element.

    Args:
        tag: One of `ELEMENTS`.
        children: Its content; texts are escaped, never parsed as markup.
        attributes: By name; an underscore becomes a dash and one at the end is dropped:
            `class_="x"`, `data_state="…"`, `aria_label="…"`, `hx_get="/…"`, `viewBox="…"`.

    Raises:
        ValueError: The element is not allowed, an attribute would run code, or an address is not in
            the page (`#…`), on the same server (`/…`, `?…`) or an image as a `data:` URL.
    """
    if tag not in ELEMENTS:
        raise ValueError(f"<{tag}> is no element of our pages")
    built = Element(tag)
    for name, value in attributes.items():
        if value is not None and value is not False:
            _set(built, name.rstrip("_").replace("_", "-"), value)
    _append(built, children)
    if tag in _KEEPS_SPACE and built.text and built.text.startswith("\n"):
        built.text = f"\n{built.text}"  # a parser drops the first line end
    return built


def rendered(*children: Child) -> str:
    """Return elements and texts as HTML."""
    holder = Element("x")
    _append(holder, children)
    return tostring(holder, encoding="unicode", method="html")[len("<x>") : -len("</x>")]


def spelled(text: str) -> str:
    r"""Return a text with its unprintable characters as escapes: `\x1b`, `\x202e`.

    These include invisible characters, bidirectional controls and lone surrogates. Line ends and
    tabs stay; `\r\n` becomes `\n`.
    """
    if text.isprintable():
        return text
    text = text.replace("\r\n", "\n")
    return "".join(
        one if one.isprintable() or one in "\n\t" else f"\\x{ord(one):02x}" for one in text
    )


def anchor(*parts: str | int) -> str:
    """Return a stable id for a place on a page; different parts give different ids.

    Letters, digits and dashes stay; every other character becomes its code point in hexadecimal, so
    names that differ in one character have different ids.
    """
    return "_".join(_UNSAFE.sub(lambda found: f".{ord(found[0]):x}.", str(one)) for one in parts)


_UNSAFE: Final = re.compile(r"[^A-Za-z0-9-]")


def _set(built: Element, name: str, value: str | int | float) -> None:
    if not _NAME.fullmatch(name) or _CODE.match(name.lower()):
        raise ValueError(f"{name!r} is no attribute of our pages")
    text = "" if value is True else f"{value:g}" if isinstance(value, float) else str(value)
    if _leads_away(name, text):
        raise ValueError(f"{name} leads away from the page: {text[:80]!r}")
    if name.startswith("hx-") and text.lstrip().lower().startswith(("js:", "javascript:")):
        raise ValueError(f"{name} would run code: {text[:80]!r}")
    built.set(name, spelled(text))


def _leads_away(name: str, text: str) -> bool:
    """Return whether an attribute holds an address outside the page and its server."""
    if name in _ADDRESSES:
        return not (_OWN_ADDRESS.fullmatch(text) or _IMAGE.fullmatch(text))
    if _REQUESTS.fullmatch(name):
        return not (_OWN_ADDRESS.fullmatch(text) or text in {"true", "false"})
    return False


def _append(built: Element, children: Iterable[Child]) -> None:
    last: Element | None = None
    for child in _flat(children):
        if not isinstance(child, str):
            built.append(child)
            last = child
        elif last is None:
            built.text = (built.text or "") + child
        else:
            last.tail = (last.tail or "") + child


def _flat(children: Iterable[Child]) -> Iterable[Element | str]:
    for child in children:
        if isinstance(child, str):
            yield spelled(child)
        elif isinstance(child, Element):
            yield child
        elif child is None or child is False:
            continue
        elif child is True:
            raise ValueError("True is no text")
        elif isinstance(child, int):
            yield f"{child:,}"
        else:
            yield from _flat(child)


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
