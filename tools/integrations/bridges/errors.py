"""What can go wrong between another SDK and our sessions."""

from __future__ import annotations

from ...base.errors import AgentForgeError, ErrorKind, shown


class BridgeError(AgentForgeError):
    """Base of the bridges' errors."""

    kind = ErrorKind.REFUSED


class BridgeExtraMissing(BridgeError):
    """The SDK that a bridge leads to is not installed.

    Attributes:
        extra: What brings it.
    """

    kind = ErrorKind.NOT_DONE

    def __init__(self, extra: str) -> None:
        super().__init__(
            f"this bridge needs an SDK that is not installed. Install it with: "
            f"pip install 'agentforge-sessions[{extra}]'"
        )
        self.extra = extra


class ForeignIdTaken(BridgeError):
    """The session that another SDK's id leads to is not that id's.

    Attributes:
        foreign_id: The id.
        session_id: The session.
    """

    kind = ErrorKind.CONFLICT

    def __init__(self, foreign_id: str, *, session_id: str) -> None:
        super().__init__(
            f"{shown(foreign_id)} leads to session {session_id}, which is another's; nothing was "
            "read or written. Choose another id, or delete that session."
        )
        self.foreign_id = foreign_id
        self.session_id = session_id


class ForeignEntryUnreadable(BridgeError):
    """An entry of a session's stream is none that this program writes.

    Attributes:
        session_id: The session.
        stream: The stream.
        position: The entry's place in it.
    """

    kind = ErrorKind.INVALID_FILE

    def __init__(self, session_id: str, *, stream: str, position: int, reason: str) -> None:
        super().__init__(
            f"the entry at {position} of the stream {stream} of session {session_id} can't be "
            f"read: {reason}. Nothing was changed; a newer program may have written it."
        )
        self.session_id = session_id
        self.stream = stream
        self.position = position


class UnreadableEntry(BridgeError, ValueError):
    """An entry is none that this program writes.

    Attributes:
        position: Its place in its stream.
        reason: Why.
    """

    kind = ErrorKind.INVALID_FILE

    def __init__(self, position: int, reason: str) -> None:
        super().__init__(f"the entry at {position} can't be read: {reason}")
        self.position = position
        self.reason = reason
