"""Errors of the command line itself, and the exit code of each kind of error."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from pathlib import Path
from typing import Final

from ....base.errors import AgentForgeError, ErrorKind


class Declined(AgentForgeError, kind=ErrorKind.NOT_DONE):
    """The person was asked and did not confirm; nothing was done."""

    message = "nothing was done, because you did not say yes"


class CheckUnusable(AgentForgeError, kind=ErrorKind.NOT_DONE):
    """A task's check can't judge: its run on the untouched checkout showed it."""

    message = """the check can't judge anything: {reason}. Nothing was started, and no agent was
    asked. Name another with --check, or more time with --check-timeout."""
    reason: str


class ConfirmationNeeded(AgentForgeError, kind=ErrorKind.USAGE):
    """Confirmation was impossible: there is no terminal, or the output is JSON."""

    message = """{operation} needs your yes and nobody can be asked here; nothing was done. Add
    --yes to go ahead."""
    operation: str
    """The action that needs confirmation."""


class NothingToTrust(AgentForgeError, kind=ErrorKind.NOT_FOUND):
    """There is no configuration to trust."""

    message = """there is no {path}, so there is nothing to trust. `agentforge init` writes one, and
    trusts what it wrote."""
    path: Path


class ChangedSinceTrusted(AgentForgeError, kind=ErrorKind.REFUSED):
    """A file that a trusted configuration names differs from the one that was trusted."""

    message = """{path} has changed since {configuration} was trusted; nothing was begun. Look at
    it, then name it on the command line, or trust both again: agentforge trust --revoke, agentforge
    trust."""
    path: Path
    configuration: Path
    """The configuration file that names it."""


class OutputLost(AgentForgeError, kind=ErrorKind.STORAGE):
    """Standard output can't be written, as on a full disk."""

    message = """could not write the output: {cause}. Free the disk, or send the output elsewhere,
    then try again."""
    cause: OSError


class Interrupted(AgentForgeError, kind=ErrorKind.INTERRUPTED):
    """The person pressed Ctrl-C."""

    message = "{text}"
    text: str = "interrupted"
    session_id: str | None = None
    """The session at work."""


class ProgramFailed(AgentForgeError, kind=ErrorKind.NOT_DONE):
    """A person's own program ended with an exception."""

    message = "the program ended with {reason}. What was recorded is saved. To go on: {command}"
    reason: str
    command: str
    """The command line that goes on."""


class SandboxSessionNotFound(AgentForgeError, kind=ErrorKind.NOT_FOUND):
    """A sandbox session, or a session's workspace, does not exist."""

    session_id: str
    path: Path
    agent: bool = False
    """Whether it is an agent's session."""

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
    """The entry at a workspace path does not allow the operation; nothing was changed."""

    message = "{path} in the workspace of {session_id}: {reason}."
    session_id: str
    path: str
    reason: str


class NoSessionToPin(AgentForgeError, kind=ErrorKind.NOT_FOUND):
    """No session that could be pinned or unpinned matches the id; nothing was changed."""

    message = "there is no session {session_id} in {_places}; nothing was changed."
    session_id: str
    paths: Sequence[Path]
    """The directories that were searched."""

    @property
    def _places(self) -> str:
        return " or ".join(map(str, self.paths)) or "here"


class ExitCode(IntEnum):
    """Exit code of `agentforge`, with its meaning.

    Attributes:
        meaning: The meaning in words.
    """

    meaning: str

    def __new__(cls, number: int, meaning: str) -> ExitCode:
        """Return the exit code of a number, with its meaning."""
        code = int.__new__(cls, number)
        code._value_ = number
        code.meaning = meaning
        return code

    OK = 0, "done"
    NOT_DONE = 1, "the work failed: a phase or a check failed, or a person declined"
    USAGE = 2, "the command line is wrong"
    NOT_FOUND = 3, "there is no such session, or nothing else of the name that was given"
    AMBIGUOUS = 4, "the shortened id fits several sessions"
    CONFLICT = 5, "another process changed the session, or is running it"
    REFUSED = 6, "the state of the session, workspace or checkout does not allow it"
    INVALID_FILE = 7, "a session or workflow file is invalid"
    STORAGE = 8, "a fault of the disk, of permissions or of a lock"
    SANDBOX = 9, "the sandbox can't run code"
    PERSON_NEEDED = 10, "the run waits for a person: to answer, to approve or to decide"
    BUDGET = 11, "the remaining budget does not cover the next step"
    UNEXPECTED = 70, "a fault in agentforge itself"
    TIMEOUT = 124, "code in the sandbox hit a limit or crashed, or no answer came in time"
    INTERRUPTED = 130, "interrupted with Ctrl-C"


class GuestExitCode(int):
    """Exit code of code in the sandbox, passed on regardless of its meaning as one of ours."""


_CODES: Final = {kind: ExitCode[kind.name] for kind in ErrorKind}


def exit_code_of(error: BaseException) -> ExitCode:
    """Return the exit code for `error`."""
    if isinstance(error, AgentForgeError):
        return _CODES[error.kind]
    return ExitCode.STORAGE if isinstance(error, OSError) else ExitCode.UNEXPECTED
