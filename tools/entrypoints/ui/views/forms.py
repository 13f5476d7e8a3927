"""Parses submitted forms and address fields, within size limits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qs

from starlette.requests import Request

from ..errors import InvalidForm
from ..guard import MAX_BODY_BYTES

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
