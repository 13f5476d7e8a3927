"""JSON objects as plain values; pure."""

from __future__ import annotations

import json
from typing import Any

from .nodes import describe


class NoJsonObject(ValueError):
    """A text is not a JSON object; the message says why."""


def parse_json(data: bytes) -> dict[str, Any]:
    """Parse a JSON object in UTF-8; `NaN` and `Infinity` are not accepted.

    Raises:
        NoJsonObject: It is not a JSON object.
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
