"""Finds what is wrong with a session's values, in words; pure.

Each check returns the faults that it found, so that all of them can be reported at once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import FrozenInstanceError
from datetime import UTC, datetime
from functools import lru_cache
from typing import Final

from ...base.clock import as_utc
from ...base.errors import ErrorKind, shown
from ...base.identifiers import InvalidIdentifier, is_session_id
from ..errors import HarnessError

MAX_NAME_CHARS: Final = 200
"""Longest action, phase or workflow type."""
MAX_PATH_CHARS: Final = 4096
"""Longest artifact path (Linux's PATH_MAX)."""
MAX_GOAL_CHARS: Final = 4000
"""Longest goal."""
MAX_COUNT: Final = 2**63 - 1
"""Largest token count, attempt or revision."""

# Not compiled here: `re` caches compiled patterns, and most processes need neither.
_SURROGATE: Final = "[\ud800-\udfff]"
_CONTROL: Final = "[\x00-\x1f\x7f-\x9f\u2028\u2029]"


class InvalidSession(HarnessError, ValueError, kind=ErrorKind.USAGE):
    """A session, or a part of one, violates the rules of the domain."""

    message = "{faults:;}"
    faults: Sequence[str]
    """Every fault, each as "field: what is wrong"."""


class InvalidSessionId(InvalidSession, InvalidIdentifier):
    """Text that is not a session id; it never becomes a path."""

    faults: Sequence[str] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        self.faults = (
            f"session_id: {shown(self.given)} is not a session's id, which is "
            "session_YYYYMMDD_HHMMSS_ and six digits",
        )


class ImmutableSessionId(InvalidSession, FrozenInstanceError):
    """An attempt to change a session's id, which is fixed at creation."""

    session_id: str
    faults: Sequence[str] = ("session_id: can't be changed; nothing was",)


def validate_session_id(session_id: object) -> str:
    """Return `session_id` if it is a valid session id.

    Raises:
        InvalidSessionId: It is not; it was not used for anything.
    """
    if isinstance(session_id, str) and is_session_id(session_id):
        return session_id
    raise InvalidSessionId(session_id)


def check(faults: list[str]) -> None:
    """Raise `InvalidSession` if there are faults."""
    if faults:
        raise InvalidSession(faults)


def in_utc(value: datetime) -> datetime:
    """Return a time in UTC; anything else is returned unchanged, for `time_fault` to report."""
    try:
        return as_utc(value)
    except (AttributeError, TypeError, OverflowError, ValueError):
        return value


def id_fault(value: object) -> list[str]:
    """Return what is wrong with a session's id."""
    return [] if is_session_id(value) else list(InvalidSessionId(value).faults)


def time_text(value: datetime) -> str:
    """Return a time as JSON writes it: ISO 8601, to the microsecond, with its offset."""
    return value.isoformat(timespec="microseconds")


def time_fault(name: str, value: object, *, optional: bool = False) -> list[str]:
    """Return what is wrong with a time, after `in_utc`."""
    if value is None and optional:
        return []
    if not isinstance(value, datetime):
        return [f"{name}: expected a time, got {with_type(value)}"]
    if value.tzinfo is not UTC:
        return [f"{name}: {value!r} can't be told in UTC"]
    return []


def with_type(value: object) -> str:
    """Return a value and its type, as text for a message."""
    return f"{type(value).__name__} {shown(value)}"


def storable(text: str) -> str:
    """Escape characters that UTF-8 can't encode."""
    return text.encode("utf-8", "backslashreplace").decode()


def text_fault(name: str, value: object, *, optional: bool, limit: int | None) -> list[str]:
    """Return what is wrong with free text."""
    if value is None and optional:
        return []
    if not isinstance(value, str):
        return [f"{name}: expected text, got {with_type(value)}"]
    faults = []
    if limit is not None and len(value) > limit:
        faults.append(f"{name}: has {len(value):,} characters, {limit:,} are allowed")
    if not value.isascii() and re.search(_SURROGATE, value):
        faults.append(f"{name}: holds a lone surrogate, which no file can hold as UTF-8")
    return faults


def name_fault(name: str, value: object, *, optional: bool) -> list[str]:
    """Return what is wrong with a name: one line, not empty, shown in tables."""
    if type(value) is str and _is_sound_name(value):
        return []
    faults = text_fault(name, value, optional=optional, limit=MAX_NAME_CHARS)
    if isinstance(value, str) and not faults:
        if not value.strip():
            faults.append(f"{name}: is empty")
        elif re.search(_CONTROL, value):
            faults.append(f"{name}: {value!r} holds a control character or a line break")
    return faults


@lru_cache(maxsize=512)
def _is_sound_name(value: str) -> bool:
    """Return whether a name is valid; cached, since a session has few names."""
    return (
        not text_fault("", value, optional=False, limit=MAX_NAME_CHARS)
        and bool(value.strip())
        and (value.isprintable() or not re.search(_CONTROL, value))
    )


def path_fault(name: str, value: object) -> list[str]:
    """Return what is wrong with a path relative to the workspace."""
    faults = text_fault(name, value, optional=False, limit=MAX_PATH_CHARS)
    if isinstance(value, str) and not faults:
        if not value:
            faults.append(f"{name}: is empty")
        elif "\x00" in value:
            faults.append(f"{name}: {with_type(value)} holds a NUL character")
        elif value[0] == "/" or ".." in value.split("/"):
            faults.append(
                f"{name}: {with_type(value)} is not inside the workspace; "
                "give it relative, without .."
            )
    return faults


def input_faults(files: object) -> list[str]:
    """Return what is wrong with the input files for code in a workspace."""
    if not isinstance(files, Mapping):
        return [f"files: expected paths with bytes or text, got {with_type(files)}"]
    faults = []
    for path, content in files.items():
        faults += path_fault("files", path)
        if isinstance(content, str):
            if re.search(_SURROGATE, content):
                faults.append(f"files: {path!r} holds a lone surrogate, which is no UTF-8")
        elif not isinstance(content, bytes):
            faults.append(f"files: {path!r} is to hold bytes or text, got {with_type(content)}")
    return faults


def count_fault(name: str, value: object, *, least: int) -> list[str]:
    """Return what is wrong with a whole number."""
    if not isinstance(value, int) or isinstance(value, bool):
        return [f"{name}: expected a whole number, got {with_type(value)}"]
    if value < least:
        return [f"{name}: {value} is less than {least}"]
    if value > MAX_COUNT:
        return [f"{name}: is more than {MAX_COUNT}"]
    return []


def require_count(name: str, value: object, *, least: int = 0) -> None:
    """Raise `InvalidSession` unless a value is a whole number of at least `least`."""
    if type(value) is not int or not least <= value <= MAX_COUNT:
        check(count_fault(name, value, least=least))


def clean_up_faults(days: object, dry_run: object) -> list[str]:
    """Return what is wrong with the arguments of a clean-up."""
    number = isinstance(days, int | float) and not isinstance(days, bool)
    faults = []
    if not (number and 0 <= days < math.inf):  # type: ignore[operator]  # it is a number by then
        faults.append(f"days: expected a number, 0 or more, got {with_type(days)}")
    if not isinstance(dry_run, bool):
        faults.append(f"dry_run: expected True or False, got {with_type(dry_run)}")
    return faults


def list_fault(name: str, value: object) -> list[str]:
    """Return what is wrong with a list, apart from its items."""
    return [] if isinstance(value, list) else [f"{name}: expected a list, got {with_type(value)}"]


def item_faults(name: str, items: object, kind: type) -> list[str]:
    """Return which items of a list have the wrong type."""
    if not isinstance(items, list) or set(map(type, items)) <= {kind}:
        return []
    return [
        f"{name}[{index}]: expected a {kind.__name__}, got {with_type(item)}"
        for index, item in enumerate(items)
        if not isinstance(item, kind)
    ]
