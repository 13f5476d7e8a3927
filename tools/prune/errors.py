"""What can go wrong before anything is removed, as typed errors with fields.

Once a prune has started, what it finds is in the result and never raised.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..base.errors import AgentForgeError, ErrorKind


class PruneError(AgentForgeError):
    """Base of this package's errors."""


class InvalidRetentionPolicy(PruneError, ValueError, kind=ErrorKind.USAGE):
    """A retention policy is invalid; nothing was removed."""

    message = "the retention policy was refused: {faults:;}"
    faults: Sequence[str]


class PruneRootMissing(PruneError, FileNotFoundError, kind=ErrorKind.NOT_FOUND):
    """The directory whose sessions were to be pruned does not exist."""

    message = """there is no directory {path} to prune; nothing was removed. Check the path: a root
    that is missing may be a disk that is not mounted"""
    path: Path


class PruneRootUnusable(PruneError, OSError, kind=ErrorKind.STORAGE):
    """The directory whose sessions were to be pruned can't be used; nothing was removed."""

    message = "{path} can't be pruned: {reason}; nothing was removed"
    path: Path
    reason: str
    cause: BaseException | None = None


class PruneBusy(PruneError, kind=ErrorKind.CONFLICT):
    """Another prune works on the same root; nothing was removed."""

    message = """another prune works on {path} (waited {timeout_s:g} s); nothing was removed. Let it
    end, or look who has the directory .prune in it open (fuser, lsof)"""
    path: Path
    timeout_s: float


class InvalidArchive(PruneError, kind=ErrorKind.INVALID_FILE):
    """A file is no archive of a session, or was damaged; nothing was restored."""

    message = "{path} can't be restored: {reason}; nothing was written"
    path: Path
    reason: str


class NotInTrash(PruneError, kind=ErrorKind.NOT_FOUND):
    """No session of this id is in the trash."""

    message = """there is no {session_id!r} in the trash of {path}; nothing was changed. agentforge
    prune trash shows what is there"""
    session_id: str
    path: Path


class SessionInTheWay(PruneError, FileExistsError, kind=ErrorKind.CONFLICT):
    """Something has the name of a session to restore; nothing was changed."""

    message = """{session_id} can't be brought back: {path} is there; nothing was changed. Move that
    away first"""
    session_id: str
    path: Path
