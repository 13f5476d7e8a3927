"""What can be wrong with a project's files, as typed errors with fields."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from ..errors import AgentForgeError, ErrorKind, listed

_SHOWN_FAULTS: Final = 12


class ProjectError(AgentForgeError):
    """Base of the errors about a project's files."""


class InvalidConfiguration(ProjectError):
    """A configuration file can't be used; nothing was begun with it.

    Attributes:
        path: The file.
        faults: Everything that is wrong with it, in the order of the file, most with their line.
    """

    kind = ErrorKind.INVALID_FILE

    def __init__(self, *, path: Path, faults: Iterable[str]) -> None:
        self.path = path
        self.faults: tuple[str, ...] = tuple(faults)
        super().__init__(
            f"{path} can't be used: {listed(self.faults, most=_SHOWN_FAULTS)}. "
            "Nothing was begun; correct the file, `agentforge doctor` shows what is left."
        )


class ScaffoldRefused(ProjectError):
    """A project's files can't be written where they belong; none was written.

    Attributes:
        path: What is in the way.
    """

    kind = ErrorKind.REFUSED

    def __init__(self, path: Path, reason: str) -> None:
        super().__init__(f"{path}: {reason}. Nothing was written.")
        self.path = path


class UnknownExample(ProjectError):
    """There is no example of this name.

    Attributes:
        name: What was asked for.
        known: The examples that there are.
    """

    kind = ErrorKind.USAGE

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name = name
        self.known = tuple(known)
        super().__init__(
            f"there is no example {name[:80]!r}; there are {', '.join(self.known)}. "
            "Nothing was begun."
        )
