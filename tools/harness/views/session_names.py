"""Session ids, complete or shortened, and names of the documents beside a session."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from ...base.errors import AmbiguousId
from ...base.identifiers import completions
from ..domain.session_checks import InvalidSession, InvalidSessionId
from ..errors import SessionNotFound
from ..session_layout import SESSION_FILE, SNAPSHOTS, STREAMS, WORKSPACE
from ..stream_port import MAX_ENTRY_BYTES, NewEntry

if TYPE_CHECKING:
    from ..session_domain import SessionContext

# Compiled on first use: `re` caches compiled patterns, and most processes need none of them.
ATTACHMENT: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}"
"""Pattern of the names of attachments, which are stored beside a session from its creation on."""
INHERITED: Final = rf"(?:{ATTACHMENT}/)?{ATTACHMENT}"
"""Pattern of the names that a fork inherits: some are in a folder."""

STREAM_SUFFIX: Final = ".log"
"""The suffix of the names of stream files."""
_STREAM: Final = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
_TAKEN: Final = frozenset({SESSION_FILE, WORKSPACE, SNAPSHOTS})
_PART_OF_AN_ID: Final = r"[A-Za-z0-9_-]{1,128}"


def documents_beside(
    attachments: Mapping[str, bytes] | None, inherited: Mapping[str, bytes] | None
) -> dict[str, bytes]:
    """Return the documents to store beside a new session, by name.

    Raises:
        ValueError: A name is invalid.
    """
    for files, names in ((attachments, ATTACHMENT), (inherited, INHERITED)):
        for name in files or ():
            taken = name == STREAMS or name.split("/")[0] in _TAKEN
            if taken or not re.fullmatch(names, name):
                raise ValueError(f"{name!r} can't be the name of an attachment")
    return {**(attachments or {}), **(inherited or {})}


def stream_file(stream: str) -> str:
    """Return the name of a stream's file or document.

    Raises:
        ValueError: `stream` is not a valid stream name.
    """
    if not re.fullmatch(_STREAM, stream):
        raise ValueError(f"{stream!r} can't be the name of a stream")
    return f"{stream}{STREAM_SUFFIX}"


def require_room(entries: Sequence[NewEntry]) -> None:
    """Raise if an append is too large.

    Raises:
        ValueError: It is.
    """
    size = sum(len(entry.head) + len(entry.body) for entry in entries)
    if size > MAX_ENTRY_BYTES:
        raise ValueError(
            f"the entries of one append have {size:,} bytes, more than the limit of "
            f"{MAX_ENTRY_BYTES:,}; nothing was written"
        )


def require_saved(session: SessionContext) -> None:
    """Raise unless the session is one that a store can hold.

    Raises:
        InvalidSession: It violates the rules of the domain.
        ValueError: It was never saved.
    """
    faults = session.faults()
    if faults:
        raise InvalidSession(faults)
    if session.revision < 1:
        raise ValueError(f"{session.session_id} was never saved, and has no revision to keep")


def resolved(shortened: str, known: Callable[[], Sequence[str]], *, where: str) -> str:
    """Return the one id that `shortened` is, begins, ends or is part of.

    Args:
        shortened: An id, or a part of one.
        known: Returns the existing ids; called only if `shortened` can be part of one.
        where: The store's place, for messages.

    Raises:
        InvalidSessionId: It can't be part of an id.
        SessionNotFound: It matches no id.
        AmbiguousId: It matches several ids.
    """
    if not re.fullmatch(_PART_OF_AN_ID, shortened):
        raise InvalidSessionId(shortened)
    fitting = completions(shortened, known())
    if not fitting:
        raise SessionNotFound(shortened, path=where)
    if len(fitting) > 1:
        raise AmbiguousId(shortened, fitting)
    return fitting[0]
