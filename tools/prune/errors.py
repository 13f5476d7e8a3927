"""What can go wrong before anything is removed, as typed errors with fields.

Once a prune has begun, nothing is raised for what it finds: it is in the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..base.errors import AgentForgeError, ErrorKind


def reason_of(error: BaseException) -> str:
    """Return what the system answered, in its words."""
    return getattr(error, "strerror", None) or str(error)


class PruneError(AgentForgeError):
    """Base of this package's errors."""

    def __str__(self) -> str:
        return str(self.args[0])  # also of those that are an `OSError`


class InvalidPolicy(PruneError, ValueError):
    """A retention policy makes no sense; nothing was removed.

    Attributes:
        faults: All that is wrong with it.
    """

    kind = ErrorKind.USAGE

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = tuple(faults)
        super().__init__(f"the retention policy was refused: {'; '.join(faults)}")


class PruneRootMissing(PruneError, FileNotFoundError):
    """The directory whose sessions were to be pruned is not there.

    Attributes:
        path: The directory.
    """

    kind = ErrorKind.NOT_FOUND

    def __init__(self, path: Path) -> None:
        self.path = path
        super().__init__(
            f"there is no directory {path} to prune; nothing was removed. "
            "Check the path: a root that is missing may be a disk that is not mounted"
        )


class PruneRootUnusable(PruneError, OSError):
    """The directory whose sessions were to be pruned can't be used; nothing was removed.

    Attributes:
        path: The directory.
        reason: What is wrong with it.
        cause: What the system answered, or None.
    """

    kind = ErrorKind.STORAGE

    def __init__(self, path: Path, reason: str, *, cause: BaseException | None = None) -> None:
        self.path = path
        self.reason = reason
        self.cause = cause
        super().__init__(f"{path} can't be pruned: {reason}; nothing was removed")


class PruneBusy(PruneError):
    """Another prune works on the same root; nothing was removed.

    Attributes:
        path: The root.
        timeout_s: How long was waited, in seconds.
    """

    kind = ErrorKind.CONFLICT

    def __init__(self, path: Path, timeout_s: float) -> None:
        self.path = path
        self.timeout_s = timeout_s
        super().__init__(
            f"another prune works on {path} (waited {timeout_s:g} s); nothing was removed. "
            "Let it end, or look who has the directory .prune in it open (fuser, lsof)"
        )


class ArchiveUnavailable(PruneError):
    """Archives can't be written or read because the extra that does it is not installed."""

    kind = ErrorKind.USAGE

    def __init__(self) -> None:
        super().__init__(
            "archives need the extra 'archive': pip install 'agentforge-sessions[archive]'. "
            "Nothing was removed"
        )


class InvalidArchive(PruneError):
    """A file is no archive of a session, or was damaged; nothing was restored.

    Attributes:
        path: The archive.
        reason: What is wrong with it.
    """

    kind = ErrorKind.INVALID_FILE

    def __init__(self, path: Path, reason: str) -> None:
        self.path = path
        self.reason = reason
        super().__init__(f"{path} can't be restored: {reason}; nothing was written")


class NotInTrash(PruneError):
    """No session of this id is in the trash.

    Attributes:
        session_id: The id.
        path: The root whose trash was looked through.
    """

    kind = ErrorKind.NOT_FOUND

    def __init__(self, session_id: str, path: Path) -> None:
        self.session_id = session_id
        self.path = path
        super().__init__(
            f"there is no {session_id!r} in the trash of {path}; nothing was changed. "
            "agentforge prune trash shows what is there"
        )


class SessionInTheWay(PruneError, FileExistsError):
    """A session can't be brought back because something has its name; nothing was changed.

    Attributes:
        session_id: The session.
        path: What has its name.
    """

    kind = ErrorKind.CONFLICT

    def __init__(self, session_id: str, path: Path) -> None:
        self.session_id = session_id
        self.path = path
        super().__init__(
            f"{session_id} can't be brought back: {path} is there; nothing was changed. "
            "Move that away first"
        )
