"""Errors of changing the programs' files, with fields."""

from __future__ import annotations

from pathlib import Path

from ...base.errors import AgentForgeError, ErrorKind


class SetupRefused(AgentForgeError, kind=ErrorKind.REFUSED):
    """An agent program's files can't be changed; nothing was changed."""

    message = "{path}: {reason}. Nothing was changed."
    path: Path
    reason: str
