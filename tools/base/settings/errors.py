"""Typed errors of a project's files, with fields."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..errors import AgentForgeError, ErrorKind


class InvalidConfiguration(AgentForgeError, kind=ErrorKind.INVALID_FILE):
    """A configuration file can't be used; nothing was started with it."""

    message = """{path} can't be used: {faults:;}. Nothing was begun; correct the file, `agentforge
    doctor` shows what is left."""
    path: Path
    faults: Sequence[str]
    """All its faults, in the order of the file, most with their line."""


class ScaffoldRefused(AgentForgeError, kind=ErrorKind.REFUSED):
    """A project's files can't be written to their places; none was written."""

    message = "{path}: {reason}. Nothing was written."
    path: Path
    reason: str


class UnknownExample(AgentForgeError, kind=ErrorKind.USAGE):
    """There is no example of this name."""

    message = "there is no example {name!r}; there are {known:,}. Nothing was begun."
    name: str
    known: Sequence[str]
