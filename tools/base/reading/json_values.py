"""JSON objects as plain values; pure."""

from __future__ import annotations

import json
from typing import Any

from .nodes import describe


class NoJsonObject(ValueError):
    """A text is no JSON object; the message says what is wrong."""


def parse_json(data: bytes) -> dict[str, Any]:
    """Read a JSON object in UTF-8, in which `NaN` and `Infinity` are no numbers.

    Raises:
        NoJsonObject: It is none.
    """
    try:
        found = json.loads(data.decode("utf-8-sig"), parse_constant=_no_constant)
    except RecursionError:
        raise NoJsonObject("it is nested too deeply") from None
    except ValueError as error:
        raise NoJsonObject(f"it is no JSON ({error})") from error
    if not isinstance(found, dict):
        raise NoJsonObject(f"expected an object, found {describe(found)}")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")
