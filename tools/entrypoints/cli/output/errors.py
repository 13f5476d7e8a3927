"""What can go wrong on the command line itself."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final

from ....base.errors import AgentForgeError, ErrorKind

_SHOWN_IDS: Final = 5


class CliError(AgentForgeError):
    """Base of the command line's own errors."""


class Declined(CliError):
    """The person was asked and did not say yes; nothing was done."""

    kind = ErrorKind.NOT_DONE

    def __init__(self) -> None:
        super().__init__("nothing was done, because you did not say yes")


class ConfirmationNeeded(CliError):
    """A question could not be asked: there is no terminal to answer at, or the output is JSON.

    Attributes:
        operation: What needs the yes.
    """

    kind = ErrorKind.USAGE

    def __init__(self, operation: str) -> None:
        super().__init__(
            f"{operation} needs your yes and nobody can be asked here; nothing was done. "
            "Add --yes to go ahead."
        )
        self.operation = operation


class NothingToTrust(CliError):
    """There is no configuration to trust.

    Attributes:
        path: Where it would be.
    """

    kind = ErrorKind.NOT_FOUND

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"there is no {path}, so there is nothing to trust. `agentforge init` writes one, and "
            "trusts what it wrote."
        )
        self.path = path


class ChangedSinceTrusted(CliError):
    """A file that a trusted configuration names is another one than was trusted.

    Attributes:
        path: The file.
        configuration: The file that names it.
    """

    kind = ErrorKind.REFUSED

    def __init__(self, path: Path, configuration: Path) -> None:
        super().__init__(
            f"{path} has changed since {configuration} was trusted; nothing was begun. Look at it, "
            "then name it on the command line, or trust both anew: agentforge trust --revoke, "
            "agentforge trust."
        )
        self.path = path
        self.configuration = configuration


class OutputLost(CliError):
    """Standard output takes no more, as on a full disk."""

    kind = ErrorKind.STORAGE

    def __init__(self, cause: OSError) -> None:
        super().__init__(
            f"could not write the output: {cause.strerror or cause}. Free the disk, or send the "
            "output elsewhere, then try again."
        )


class Interrupted(CliError):
    """Ctrl-C.

    Attributes:
        session_id: The session that was being worked on, or None.
    """

    kind = ErrorKind.INTERRUPTED

    def __init__(self, message: str = "interrupted", *, session_id: str | None = None) -> None:
        super().__init__(message)
        self.session_id = session_id


class SandboxSessionNotFound(CliError):
    """No sandbox session, or no workspace of a session, is where it should be.

    Attributes:
        session_id: The id as it was given.
        path: Where it was looked for.
    """

    kind = ErrorKind.NOT_FOUND

    def __init__(self, session_id: str, *, path: Path, agent: bool = False) -> None:
        if agent:
            text = f"session {session_id} has no workspace yet: nothing ran in it"
        else:
            text = (
                f"there is no sandbox session {session_id} in {path}. "
                "`agentforge sandbox list` shows those that are"
            )
        super().__init__(f"{text}.")
        self.session_id = session_id
        self.path = path


class AmbiguousSandboxSession(CliError):
    """A shortened id fits several sandbox sessions.

    Attributes:
        session_id: The id as it was given.
        candidates: The ids it fits.
    """

    kind = ErrorKind.AMBIGUOUS

    def __init__(self, session_id: str, candidates: Iterable[str]) -> None:
        self.session_id = session_id
        self.candidates = tuple(sorted(candidates))
        shown = ", ".join(self.candidates[:_SHOWN_IDS])
        more = len(self.candidates) - _SHOWN_IDS
        super().__init__(
            f"{session_id} fits {len(self.candidates)} sandbox sessions: {shown}"
            f"{f' and {more} more' if more > 0 else ''}. Give more of the id."
        )


class WorkspaceFileMissing(CliError):
    """A workspace has no such file.

    Attributes:
        session_id: Whose workspace it is.
        path: The file's path in it.
    """

    kind = ErrorKind.NOT_FOUND

    def __init__(self, session_id: str, path: str) -> None:
        super().__init__(f"there is no {path} in the workspace of {session_id}.")
        self.session_id = session_id
        self.path = path


class WorkspaceFileRefused(CliError):
    """What is at a path of a workspace does not allow what was asked; nothing was changed.

    Attributes:
        session_id: Whose workspace it is.
        path: The path in it.
        reason: What is in the way.
    """

    kind = ErrorKind.REFUSED

    def __init__(self, session_id: str, path: str, reason: str) -> None:
        super().__init__(f"{path} in the workspace of {session_id}: {reason}.")
        self.session_id = session_id
        self.path = path
        self.reason = reason


class NoSessionToPin(CliError):
    """No session that could be pinned or unpinned fits an id; nothing was changed.

    Attributes:
        session_id: The id as it was given.
        paths: The directories that were looked through.
    """

    kind = ErrorKind.NOT_FOUND

    def __init__(self, session_id: str, paths: Iterable[Path]) -> None:
        self.session_id = session_id
        self.paths = tuple(paths)
        where = " or ".join(map(str, self.paths)) or "here"
        super().__init__(f"there is no session {session_id} in {where}; nothing was changed.")


class AmbiguousTrash(CliError):
    """A shortened id fits several sessions that could be meant.

    Attributes:
        session_id: The text that was given.
        candidates: The ids that it fits.
    """

    kind = ErrorKind.AMBIGUOUS

    def __init__(self, session_id: str, candidates: Iterable[str]) -> None:
        self.session_id = session_id
        self.candidates = tuple(candidates)
        super().__init__(
            f"{session_id} fits several sessions: {', '.join(self.candidates[:5])}. "
            "Write more of the id"
        )
