"""JSON objects as typed fields: written in one form, read leniently, never guessed.

Writing gives UTF-8, times as `2026-03-01T09:30:00.000Z` and no newline at the end: the bytes that
`JSON.stringify(value, null, 2)` gives. Reading takes any ISO 8601 time (without a zone: UTC) and
reports everything that is wrong at once.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

_Value = TypeVar("_Value")
_Read = Callable[[object], _Value | None]
_MISSING: Final = object()


class WireError(ValueError):
    """A document that is not what it should be.

    Attributes:
        faults: Everything that is wrong.
    """

    def __init__(self, faults: list[str]) -> None:
        super().__init__("; ".join(faults))
        self.faults = tuple(faults)


def to_millis(moment: datetime) -> datetime:
    """Return a time as the files hold it: UTC, whole milliseconds."""
    aware = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
    utc = aware.astimezone(UTC)
    return utc.replace(microsecond=utc.microsecond // 1000 * 1000)


def format_time(moment: datetime) -> str:
    """Write a time as `2026-03-01T09:30:00.000Z`."""
    return to_millis(moment).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def without_none(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document without what was not given."""
    return {key: value for key, value in document.items() if value is not None}


def encode(document: Mapping[str, Any]) -> bytes:
    """Write a document as the files hold it: indented by two, and no newline at the end."""
    return json.dumps(document, indent=2, ensure_ascii=False).encode()


def decode(data: bytes, name: str) -> dict[str, Any]:
    """Read a JSON object.

    Raises:
        WireError: It is none.
    """
    try:
        found = json.loads(data.decode("utf-8-sig"), parse_constant=_no_constant)
    except RecursionError:
        raise WireError([f"{name}: it is nested too deeply"]) from None
    except ValueError as error:
        raise WireError([f"{name}: it is no JSON ({error})"]) from error
    if not isinstance(found, dict):
        raise WireError([f"{name}: expected an object, got {kind_of(found)}"])
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON number")


def kind_of(value: object) -> str:
    """Return what JSON calls a value."""
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false"}
    return "nothing" if value is None else names.get(type(value), "a number")


class Fields:
    """Takes values out of a JSON object, and collects what is wrong with them in `faults`."""

    def __init__(self, document: object, where: str, faults: list[str]) -> None:
        self.faults = faults
        self._where = where
        self._document: Mapping[str, Any] = {}
        if isinstance(document, dict):
            self._document = document
        else:
            faults.append(f"{where}: expected an object, got {kind_of(document)}")

    def take(
        self, key: str, expected: str, read: _Read[_Value], *, optional: bool = False
    ) -> _Value | None:
        """Return a value as `read` has it; None if it is missing or is not what is expected."""
        value = self._document.get(key, _MISSING)
        if value is _MISSING or value is None:
            if not optional:
                missing = "is missing" if value is _MISSING else f"expected {expected}, got nothing"
                self.faults.append(f"{self._where}.{key}: {missing}")
            return None
        taken = read(value)
        if taken is None:
            self.faults.append(f"{self._where}.{key}: expected {expected}, got {kind_of(value)}")
        return taken

    def text(self, key: str, *, optional: bool = False) -> str | None:
        """Return a text."""
        value = self._document.get(key)
        if isinstance(value, str):  # nearly always
            return value
        return self.take(key, "text", as_text, optional=optional)

    def time(self, key: str) -> datetime | None:
        """Return a time."""
        return self.take(key, "an ISO 8601 time", as_time)

    def list(self, key: str) -> list[Any]:
        """Return a list; an empty one where there is none."""
        return self.take(key, "a list", _as_list) or []

    def courtesy(self, key: str, read: _Read[_Value]) -> _Value | None:
        """Return what no decision depends on; what is wrong with it is no fault."""
        value = self._document.get(key)
        return None if value is None else read(value)


def as_text(value: object) -> str | None:
    """Return a text; None if it is none."""
    return value if isinstance(value, str) else None


def as_time(value: object) -> datetime | None:
    """Return a time as the files hold it; None if it is none."""
    if not isinstance(value, str):
        return None
    try:
        return to_millis(datetime.fromisoformat(value))
    except (ValueError, OverflowError):
        return None


def as_count(value: object) -> int | None:
    """Return a whole number; None if it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def as_boolean(value: object) -> bool | None:
    """Return true or false; None if it is neither."""
    return value if isinstance(value, bool) else None


def as_texts(value: object) -> tuple[str, ...] | None:
    """Return a list of texts; None if it is none."""
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return tuple(value)
    return None


def _as_list(value: object) -> list[Any] | None:
    return value if isinstance(value, list) else None
