"""Building blocks of several pages: rows, dialogs, fields and buttons, and what is read from them.

Submitted forms and address fields are read within size limits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final
from urllib.parse import parse_qs
from xml.etree.ElementTree import Element

from starlette.requests import Request

from ....harness.views.session_head import SessionHead
from ...pages.html import Attribute, Child, element
from ...pages.parts import muted
from ..errors import InvalidForm
from ..guard import MAX_BODY_BYTES
from ..session_rows import SessionStanding

_GOAL_CHARS: Final = 160


# ------------------------------------------------------------------------------------------ lists


def standing_badge(standing: SessionStanding) -> Element:
    """Return a badge for a session's standing."""
    return element("span", standing.words, class_="badge", data_state=standing.value)


def row(name: str, badge: Element, what: Child, **cells: Child) -> Element:
    """Return a row of a list.

    Args:
        name: The id of the row's subject.
        badge: The subject's badge.
        what: The content of the main cell.
        cells: Further cells by their classes.
    """
    shown = {"what": what, **cells}
    parts = [element("div", cell, class_=kind) for kind, cell in shown.items()]
    return element("li", badge, parts, id=f"row-{name}", class_="row")


def session_link(head: SessionHead, goal: str | None) -> Element:
    """Return a link to a session, named by its title, else its goal, else its id."""
    name = head.session_id
    title = head.title or first_line(goal) or name
    return element("a", title, href=f"/sessions/{name}", id=f"to-{name}")


def session_about(head: SessionHead) -> Element:
    """Return a line with a session's id, workflow and tags."""
    workflow = f" · {head.workflow_type}" if head.workflow_type else None
    tags = [element("span", one, class_="tag") for one in head.tags]
    return muted(element("code", head.session_id), workflow, tags, tag="p")


def first_line(goal: str | None) -> str | None:
    """Return the first non-blank line of a goal, shortened; None if there is none."""
    for line in (goal or "").splitlines():
        if line := line.strip():
            return line if len(line) <= _GOAL_CHARS else f"{line[: _GOAL_CHARS - 1]}…"
    return None


def unreadable(
    summary: Child, found: Sequence[tuple[str, object]], more: Child = None
) -> list[Element]:
    """Return a folded list of unreadable sessions with the reasons; empty if there are none."""
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
        label: The label of the field for words.
        words: The field's value.
        placeholder: The field's placeholder.
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
    """Return a field's label for screen readers only."""
    return element("label", text, for_=field, class_="visually-hidden")


def select(
    name: str, options: Iterable[tuple[str, str]], chosen: str = "", *, id_: str | None = None
) -> Element:
    """Return a drop-down list.

    Args:
        name: The field's name.
        options: The values with their labels.
        chosen: The selected value.
        id_: The element's id; the name if None.
    """
    shown = [
        element("option", words, value=value, selected=value == chosen) for value, words in options
    ]
    return element("select", shown, id=id_ or name, name=name)


def text_area(name: str, id_: str, label: str, **attributes: Attribute) -> Element:
    """Return a field for a few lines, with its label as placeholder."""
    return element(
        "textarea", id=id_, name=name, rows=2, aria_label=label, placeholder=label, **attributes
    )


def labelled(label: str, tag: str, **attributes: Attribute) -> Element:
    """Return a labelled field that gets the focus when its dialog opens."""
    return element("label", label, element(tag, **attributes, data_first=True), class_="field")


# --------------------------------------------------------------------------- dialogs and buttons


def opener(text: str, dialog: str, id_: str, **attributes: Attribute) -> Element:
    """Return a button that opens a dialog."""
    return element("button", text, type="button", id=id_, data_dialog=dialog, **attributes)


def submit(text: str, *, look: str = "main", id_: str | None = None) -> Element:
    """Return a button that submits its form."""
    return element("button", text, type="submit", class_=look, id=id_)


def posting(address: str, target: str, *content: Child, **attributes: Attribute) -> Element:
    """Return a form that is posted to an address; the response replaces the target's content."""
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
    """Return a dialog that confirms an action before it is performed.

    Args:
        name: The dialog's id.
        title: The question.
        text: The consequences of the action.
        fields: Further fields.
        post: The action's address.
        does: The label of the button that performs it.
        grave: Whether to mark the button as dangerous.
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


Form = Mapping[str, list[str]]
_MOST_FIELDS: Final = 1_000
_MOST_DIGITS: Final = 12


async def form_of(request: Request, *, most_bytes: int = MAX_BODY_BYTES) -> Form:
    """Read the form of a request.

    Raises:
        InvalidForm: It is too large or not a form.
    """
    data = bytearray()
    async for part in request.stream():
        data += part
        if len(data) > most_bytes:
            raise InvalidForm({"": f"a form may have {most_bytes:,} bytes"})
    return fields_in(bytes(data).decode("utf-8", "replace"))


def fields_in(text: str) -> Form:
    """Parse the fields of a form or of an address's query string.

    Raises:
        InvalidForm: There are too many fields.
    """
    try:
        return parse_qs(text, keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except ValueError as error:
        raise InvalidForm({"": f"the form can't be read: {error}"}) from error


def text_in(form: Form, name: str) -> str | None:
    """Return a field's last value, stripped, with LF line ends; None if missing or blank."""
    text = "".join(form.get(name, [])[-1:]).replace("\r\n", "\n").strip()
    return text or None


def count_in(form: Form, name: str, *, what: str) -> int:
    """Return the positive whole number in a field; commas, spaces and underscores may group digits.

    Raises:
        InvalidForm: The field holds no such number; the message names it as `what`.
    """
    text = (text_in(form, name) or "").replace(",", "").replace("_", "").replace(" ", "")
    if not (text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS and int(text) > 0):
        raise InvalidForm({name: f"{what}: write a whole number of 1 or more"})
    return int(text)
