"""What can go wrong when the programs' files are changed, as typed errors with fields."""

from __future__ import annotations

from pathlib import Path

from ...base.errors import AgentForgeError, ErrorKind


class SetupRefused(AgentForgeError, kind=ErrorKind.REFUSED):
    """An agent program's files can't be changed; nothing was."""

    message = "{path}: {reason}. Nothing was changed."
    path: Path
    reason: str
