"""The form of question sessions as JSON.

UTF-8, times as `2026-03-01T09:30:00.000Z` and no newline at the end: the bytes that
`JSON.stringify(value, null, 2)` produces.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from ...base.reading.nodes import NoJsonObject, parse_json


class WireError(ValueError):
    """A document is invalid.

    Attributes:
        faults: Everything that is wrong.
    """

    def __init__(self, faults: list[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = tuple(faults)


def to_millis(moment: datetime) -> datetime:
    """Return a time at the files' precision: UTC, whole milliseconds."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    utc = aware.astimezone(UTC)
    return utc.replace(microsecond=utc.microsecond // 1000 * 1000)


def format_time(moment: datetime) -> str:
    """Format a time as `2026-03-01T09:30:00.000Z`."""
    return to_millis(moment).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def without_none(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document without the keys that are None."""
    return {key: value for key, value in document.items() if value is not None}


def encode(document: Mapping[str, Any]) -> bytes:
    """Encode a document as the files have it: indented by two, and no newline at the end."""
    return json.dumps(document, indent=2, ensure_ascii=False).encode()


def decode(data: bytes, name: str) -> dict[str, Any]:
    """Parse a JSON object.

    Raises:
        WireError: The data is no JSON object.
    """
    try:
        return parse_json(data)
    except NoJsonObject as error:
        raise WireError([f"{name}: {error}"]) from error
