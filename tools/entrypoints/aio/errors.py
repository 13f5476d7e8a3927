"""What stands against the asynchronous face."""

from __future__ import annotations

from ...base.errors import AgentForgeError, ErrorKind


class AsyncExtraMissing(AgentForgeError):
    """anyio, on which the asynchronous face stands, is not installed, or too old."""

    kind = ErrorKind.NOT_DONE

    def __init__(self) -> None:
        super().__init__(
            "the asynchronous face needs anyio 4.11 or newer, which is not installed: "
            "pip install 'agentforge-sessions[async]'. Nothing was begun."
        )
