"""Errors between another SDK and our sessions."""

from __future__ import annotations

from ...base.errors import AgentForgeError, ErrorKind


class BridgeError(AgentForgeError, kind=ErrorKind.REFUSED):
    """Base of the bridges' errors."""


class ForeignIdTaken(BridgeError, kind=ErrorKind.CONFLICT):
    """The session for another SDK's id belongs to a different id."""

    message = """{foreign_id!r} leads to session {session_id}, which is another's; nothing was read
    or written. Choose another id, or delete that session."""
    foreign_id: str
    session_id: str


class ForeignEntryUnreadable(BridgeError, kind=ErrorKind.INVALID_FILE):
    """An entry of a session's stream is not in this program's format."""

    message = """the entry at {position} of the stream {stream} of session {session_id} can't be
    read: {reason}. Nothing was changed; a newer program may have written it."""
    session_id: str
    stream: str
    position: int
    reason: str


class UnreadableEntry(BridgeError, ValueError, kind=ErrorKind.INVALID_FILE):
    """An entry is not in this program's format."""

    message = "the entry at {position} can't be read: {reason}"
    position: int
    reason: str
