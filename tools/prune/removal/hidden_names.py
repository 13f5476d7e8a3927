"""Names of sessions out of sight: which session, which inode, and a token that is unique."""

from __future__ import annotations

import os
from typing import Final

from .private_directory import GOING, PRIVATE

_SEPARATOR: Final = "~"
_INODE_END: Final = "-"


def hidden_name(session_id: str, token: str) -> str:
    """Name a session out of sight; its id can be read from the name."""
    return f"{session_id}{_SEPARATOR}{token}"


def session_of(hidden: str) -> str:
    """Read the id of a session from its name out of sight; bytes that are no text are escaped."""
    return _shown(hidden.rsplit(_SEPARATOR, 1)[0])


def _shown(name: str) -> str:
    return os.fsencode(name).decode("utf-8", "backslashreplace")


def going_path(hidden: str) -> str:
    """Return where in its root something that is being removed is, for messages."""
    return f"{PRIVATE}/{GOING}/{_shown(hidden)}"


def still_going(hidden: str) -> str:
    """Return where what is not all removed is, and what becomes of it."""
    return f"it is out of sight in {going_path(hidden)}, the next prune tries again"


def token_of(inode: int, token: str) -> str:
    """Put the inode of what is to be removed into a token, so that nothing else is taken for it."""
    return f"{inode:x}{_INODE_END}{token}"


def inode_of(hidden: str) -> int | None:
    """Read the inode from a name out of sight; None if it has none."""
    number, found, _ = hidden.rsplit(_SEPARATOR, 1)[-1].partition(_INODE_END)
    try:
        return int(number, 16) if found else None
    except ValueError:
        return None
