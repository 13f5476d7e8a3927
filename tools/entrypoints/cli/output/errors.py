"""What can go wrong on the command line itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ....base.errors import AgentForgeError, ErrorKind


class Declined(AgentForgeError, kind=ErrorKind.NOT_DONE):
    """The person was asked and did not say yes; nothing was done."""

    message = "nothing was done, because you did not say yes"


class ConfirmationNeeded(AgentForgeError, kind=ErrorKind.USAGE):
    """A question could not be asked: there is no terminal to answer at, or the output is JSON."""

    message = """{operation} needs your yes and nobody can be asked here; nothing was done. Add
    --yes to go ahead."""
    operation: str
    """What needs the yes."""


class NothingToTrust(AgentForgeError, kind=ErrorKind.NOT_FOUND):
    """There is no configuration to trust."""

    message = """there is no {path}, so there is nothing to trust. `agentforge init` writes one, and
    trusts what it wrote."""
    path: Path


class ChangedSinceTrusted(AgentForgeError, kind=ErrorKind.REFUSED):
    """A file that a trusted configuration names is another one than was trusted."""

    message = """{path} has changed since {configuration} was trusted; nothing was begun. Look at
    it, then name it on the command line, or trust both again: agentforge trust --revoke, agentforge
    trust."""
    path: Path
    configuration: Path
    """The file that names it."""


class OutputLost(AgentForgeError, kind=ErrorKind.STORAGE):
    """Standard output takes no more, as on a full disk."""

    message = """could not write the output: {cause}. Free the disk, or send the output elsewhere,
    then try again."""
    cause: OSError


class Interrupted(AgentForgeError, kind=ErrorKind.INTERRUPTED):
    """Ctrl-C."""

    message = "{text}"
    text: str = "interrupted"
    session_id: str | None = None
    """The session that was being worked on."""


class SandboxSessionNotFound(AgentForgeError, kind=ErrorKind.NOT_FOUND):
    """No sandbox session, or no workspace of a session, is where it should be."""

    session_id: str
    path: Path
    agent: bool = False
    """Whether it is a session of an agent."""

    def __str__(self) -> str:
        if self.agent:
            return f"session {self.session_id} has no workspace yet: nothing ran in it."
        return (
            f"there is no sandbox session {self.session_id} in {self.path}. "
            "`agentforge sandbox list` shows those that are."
        )


class WorkspaceFileMissing(AgentForgeError, kind=ErrorKind.NOT_FOUND):
    """A workspace has no such file."""

    message = "there is no {path} in the workspace of {session_id}."
    session_id: str
    path: str


class WorkspaceFileRefused(AgentForgeError, kind=ErrorKind.REFUSED):
    """What is at a path of a workspace does not allow what was asked; nothing was changed."""

    message = "{path} in the workspace of {session_id}: {reason}."
    session_id: str
    path: str
    reason: str


class NoSessionToPin(AgentForgeError, kind=ErrorKind.NOT_FOUND):
    """No session that could be pinned or unpinned fits an id; nothing was changed."""

    message = "there is no session {session_id} in {_places}; nothing was changed."
    session_id: str
    paths: Sequence[Path]
    """The directories that were looked through."""

    @property
    def _places(self) -> str:
        return " or ".join(map(str, self.paths)) or "here"
