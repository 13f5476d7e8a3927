"""The identifiers of sessions: their format, their creation, the completion of shortened ones.

Agent sessions are named after the moment of their creation, `session_{YYYYMMDD}_{HHMMSS}_{µs}`;
sandbox and question sessions by a UUID. An identifier from outside passes one of these checks
before it becomes a part of a path. All patterns match whole ASCII texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import cache
from typing import Final

from .clock import as_utc
from .errors import AgentForgeError

SESSION_ID_PATTERN: Final = r"session_[0-9]{8}_[0-9]{6}_(?:[0-9]{6}|[0-9a-f]{8})"
"""The regular expression of an agent session's id.

An id that ends in eight hexadecimal digits is a hash: of the name that another SDK gave the
session."""

_NAME: Final = r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}"
_UUID: Final = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_UUID4: Final = r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}"


@cache
def _whole(pattern: str, flags: int = 0) -> Callable[[str], re.Match[str] | None]:
    """Return a matcher of whole texts, compiled on first use: most processes need few of them."""
    return re.compile(pattern, flags).fullmatch


class InvalidIdentifier(AgentForgeError, ValueError):
    """A text is not an identifier of the required kind; nothing was looked up with it."""

    given: object


def is_session_id(value: object) -> bool:
    """Return whether `value` is an agent session's id."""
    return isinstance(value, str) and _whole(SESSION_ID_PATTERN)(value) is not None


def names_no_session(value: object) -> bool:
    """Return whether `value` is a harmless name that no agent session can have.

    Such a name is reported as not found rather than refused: it could be a mistyped id, and means
    the same in a path as in a message.
    """
    return not is_session_id(value) and is_workspace_name(value)


def session_id_at(moment: datetime) -> str:
    """Return the id of an agent session that is created at `moment`."""
    return f"session_{as_utc(moment):%Y%m%d_%H%M%S_%f}"


def next_session_id(session_id: str) -> str:
    """Return the id one microsecond after `session_id`, for when that one is taken.

    Raises:
        ValueError: The id is not derived from a time.
    """
    moment = datetime.strptime(session_id, "session_%Y%m%d_%H%M%S_%f")  # noqa: DTZ007 # in UTC
    return session_id_at(moment + timedelta(microseconds=1))


def is_workspace_name(value: object) -> bool:
    """Return whether `value` can name a sandbox session's workspace: a UUID or another plain name.

    It has 1 to 128 letters, digits, "-" and "_", the first of them a letter or a digit.
    """
    return isinstance(value, str) and _whole(_NAME)(value) is not None


def is_uuid(value: object) -> bool:
    """Return whether `value` is a UUID in lower case with hyphens, of any version."""
    return isinstance(value, str) and _whole(_UUID)(value) is not None


def is_uuid4(value: object) -> bool:
    """Return whether `value` is a UUID of version 4 with hyphens, in upper or lower case."""
    return isinstance(value, str) and _whole(_UUID4, re.IGNORECASE)(value) is not None


def new_uuid4() -> str:
    """Return a random UUID of version 4 in lower case."""
    import uuid  # slow import

    return str(uuid.uuid4())


def completions(shortened: str, known: Iterable[str]) -> list[str]:
    """Return the identifiers that `shortened` may mean; one if it is unambiguous.

    An exact match wins over prefixes, these over suffixes, these over substrings.
    """
    candidates = list(known)
    if shortened in candidates:
        return [shortened]
    for matches in (str.startswith, str.endswith, str.__contains__):
        fitting = [one for one in candidates if matches(one, shortened)]
        if fitting:
            return fitting
    return []
