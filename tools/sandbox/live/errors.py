"""The errors of snapshots."""

from __future__ import annotations

from ...base.errors import ErrorKind
from ..errors import SandboxError


class SnapshotRefused(SandboxError, ValueError, kind=ErrorKind.INVALID_FILE):
    """A program's state cannot be saved or restored; nothing was changed."""

    message = "the program's snapshot was refused: {reason}. Nothing was changed; {remedy}"
    reason: str
    remedy: str


class SnapshotDamaged(SnapshotRefused):
    """A snapshot is not what a release of this program wrote."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            reason, "restore an earlier snapshot, or start the program again from its beginning"
        )
