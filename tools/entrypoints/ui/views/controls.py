"""What several pages are made of: rows of sessions, dialogs, fields and buttons."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final
from xml.etree.ElementTree import Element

from ....harness.views.session_head import SessionHead
from ...pages.html import Attribute, Child, element
from ...pages.parts import muted
from ..session_rows import SessionStanding

_GOAL_CHARS: Final = 160


# ------------------------------------------------------------------------------------------ lists


def standing_badge(standing: SessionStanding) -> Element:
    """Return where a session stands, as a word that stands out."""
    return element("span", standing.words, class_="badge", data_state=standing.value)


def row(name: str, badge: Element, what: Child, **cells: Child) -> Element:
    """Return a line of a list.

    Args:
        name: What the line is about, by its id.
        badge: Where it stands.
        what: What it is.
        cells: The further cells by their classes.
    """
    shown = {"what": what, **cells}
    parts = [element("div", cell, class_=kind) for kind, cell in shown.items()]
    return element("li", badge, parts, id=f"row-{name}", class_="row")


def session_link(head: SessionHead, goal: str | None) -> Element:
    """Return a link to a session, by its title, else its goal, else its id."""
    name = head.session_id
    title = head.title or first_line(goal) or name
    return element("a", title, href=f"/sessions/{name}", id=f"to-{name}")


def session_about(head: SessionHead) -> Element:
    """Return the id, the workflow and the tags of a session, on a line."""
    workflow = f" · {head.workflow_type}" if head.workflow_type else None
    tags = [element("span", one, class_="tag") for one in head.tags]
    return muted(element("code", head.session_id), workflow, tags, tag="p")


def first_line(goal: str | None) -> str | None:
    """Return the first line of a goal that is not blank, shortened; None if there is none."""
    for line in (goal or "").splitlines():
        if line := line.strip():
            return line if len(line) <= _GOAL_CHARS else f"{line[: _GOAL_CHARS - 1]}…"
    return None


def unreadable(
    summary: Child, found: Sequence[tuple[str, object]], more: Child = None
) -> list[Element]:
    """Return what can't be read, each with the reason, folded; nothing where there is none."""
    if not found:
        return []
    lines = [element("li", element("code", name), f" {error}") for name, error in found]
    head, body = element("summary", summary), element("ul", lines)
    return [element("details", head, body, more, id="unreadable", class_="card alarm")]


# -------------------------------------------------------------------------------------- the fields


def search_form(
    label: str, words: str, placeholder: str, *fields: Child, **attributes: Attribute
) -> Element:
    """Return a form with a field for words, and further fields.

    Args:
        label: What the words do.
        words: What was written.
        placeholder: What can be written.
        fields: The further fields.
        attributes: The form's attributes.
    """
    field = element(
        "input",
        type="search",
        id="q",
        name="q",
        value=words,
        placeholder=placeholder,
        autocomplete="off",
        aria_keyshortcuts="/",
        autofocus=attributes.pop("autofocus", None),
    )
    form = element(
        "form",
        hidden_label(label, "q"),
        field,
        fields,
        class_="filter",
        data_go="/search",
        data_calm=True,
        **attributes,
    )
    return element("search", form, id="search")


def hidden_label(text: str, field: str) -> Element:
    """Return a label of a field for those who can't see where it stands."""
    return element("label", text, for_=field, class_="visually-hidden")


def select(
    name: str, options: Iterable[tuple[str, str]], chosen: str = "", *, id_: str | None = None
) -> Element:
    """Return a choice of one of several values, each with its words."""
    shown = [
        element("option", words, value=value, selected=value == chosen) for value, words in options
    ]
    return element("select", shown, id=id_ or name, name=name)


def text_area(name: str, id_: str, label: str, **attributes: Attribute) -> Element:
    """Return a field for some lines, which says in itself what can be written."""
    return element(
        "textarea", id=id_, name=name, rows=2, aria_label=label, placeholder=label, **attributes
    )


def labelled(label: str, tag: str, **attributes: Attribute) -> Element:
    """Return the field of a dialog that has the focus first, with its label."""
    return element("label", label, element(tag, **attributes, data_first=True), class_="field")


# --------------------------------------------------------------------------- dialogs and buttons


def opener(text: str, dialog: str, id_: str, **attributes: Attribute) -> Element:
    """Return the button that opens a dialog."""
    return element("button", text, type="button", id=id_, data_dialog=dialog, **attributes)


def submit(text: str, *, look: str = "main", id_: str | None = None) -> Element:
    """Return the button that sends a form."""
    return element("button", text, type="submit", class_=look, id=id_)


def posting(address: str, target: str, *content: Child, **attributes: Attribute) -> Element:
    """Return a form that is sent to an address, and the place in it that takes the outcome."""
    return element(
        "form",
        content,
        hx_post=address,
        hx_target=target,
        hx_swap="innerHTML",
        hx_disabled_elt="find button[type=submit]",
        autocomplete="off",
        **attributes,
    )


def dialog(
    name: str, title: str, text: str, *fields: Child, post: str, does: str, grave: bool = False
) -> Element:
    """Return a dialog that asks before something is done.

    Args:
        name: Its id.
        title: What it asks.
        text: What follows from it.
        fields: The fields.
        post: The address that does it.
        does: What the button says that does it.
        grave: Whether it can't be undone.
    """
    cancel = element("button", "Cancel", type="button", class_="plain", data_close=True)
    form = posting(
        post,
        "find .outcome",
        element("h2", title, id=f"{name}-title"),
        muted(text, tag="p"),
        fields,
        element("div", class_="outcome"),
        element("div", cancel, submit(does, look="grave" if grave else "main"), class_="buttons"),
        data_calm=True,
    )
    return element("dialog", form, id=name, aria_labelledby=f"{name}-title")
