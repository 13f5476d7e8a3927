"""What can go wrong when the programs' files are changed, as typed errors with fields."""

from __future__ import annotations

from pathlib import Path

from ...base.errors import AgentForgeError, ErrorKind


class SetupRefused(AgentForgeError):
    """An agent program's files can't be changed; nothing was.

    Attributes:
        path: The file in the way.
    """

    kind = ErrorKind.REFUSED

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}. Nothing was changed.")
        self.path = path
