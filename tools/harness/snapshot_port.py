"""The port by which the harness keeps workspaces; what implements it knows git."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from attrs import frozen

from ..base.files.tree_changes import TreeChanges
from .domain.history_events import WorkspacePrepared


@frozen
class SnapshotTaken:
    """What became of a workspace at a checkpoint.

    Attributes:
        snapshot: The snapshot's id, or None where there is none.
        unkept: Why there is none although there should be, or None.
    """

    snapshot: str | None = None
    unkept: str | None = None


@runtime_checkable
class WorkspaceSnapshots(Protocol):
    """Keeps the workspaces of sessions.

    Guarantees asked of every implementation: a snapshot whose id was returned is on the disk; what
    a workspace holds runs nothing here; a session without a workspace costs nothing.
    """

    def attachments(
        self, repository: Path, revision: str, *, with_uncommitted: bool
    ) -> dict[str, bytes]:
        """Return the files by which a new session knows what its workspace is to be made of.

        Args:
            repository: A folder of a person's checkout.
            revision: A commit of it.
            with_uncommitted: Whether to take the checkout's uncommitted work, too.
        """
        ...

    def prepare(self, session_id: str) -> WorkspacePrepared | None:
        """Make the workspace of a session that has a repository; None for any other.

        The event that is returned is for the history. What was made already is kept, so that a
        killed call is finished by the next one.
        """
        ...

    @property
    def travels(self) -> bool:
        """Whether several machines work in the workspaces, one after the other."""
        ...

    def take_up(
        self,
        session_id: str,
        last: SnapshotTaken,
        *,
        mark: int | None = None,
        parent_id: str | None = None,
        more: Collection[str] = (),
    ) -> None:
        """Have the workspace on this machine as the session left it on whichever one.

        Called under the session's run lock, before anything is put into the workspace. Where the
        session was worked in on this machine last, or is on no other, the workspace stays as it
        is. Else it becomes what the last checkpoint says.

        Args:
            session_id: The session.
            last: What became of the workspace at the last checkpoint; nothing where it has none.
            mark: The last return to a snapshot, as of `settle`, which this one comes after.
            parent_id: As of `settle`, and so is `more`.
            more: The other snapshots of that session that are wanted.
        """
        ...

    def is_here(self, session_id: str) -> bool:
        """Return whether the session's workspace, as it is now, is on this machine."""
        ...

    def settle(
        self,
        session_id: str,
        snapshot: str,
        *,
        mark: int,
        parent_id: str | None = None,
        more: Collection[str] = (),
    ) -> None:
        """Make a workspace what a snapshot says, unless that was done under this mark.

        Args:
            session_id: The session.
            snapshot: The snapshot; taken from the parent's where the session has it not.
            mark: Names this return to a snapshot among all of the session.
            parent_id: The session that it was forked from, or None.
            more: The other snapshots of that session that this one refers to.
        """
        ...

    def take(self, session_id: str, label: str) -> SnapshotTaken:
        """Keep the workspace as it is; nothing where there is no workspace."""
        ...

    def empty(self, session_id: str) -> SnapshotTaken:
        """Keep a workspace that holds nothing, as it was before the work of a new session."""
        ...

    def require(self, session_id: str, snapshot: str) -> None:
        """Raise unless there is such a snapshot."""
        ...

    def changes(
        self,
        session_id: str,
        before: str | None,
        after: str | None,
        *,
        patch: bool,
        paths: Sequence[str],
    ) -> TreeChanges:
        """Compare two snapshots.

        Args:
            session_id: The session.
            before: The first one; None for a workspace that is empty.
            after: The second one; None for the workspace as it is now.
            patch: Whether to return the changed lines, too.
            paths: Only these files, and what is in these folders.
        """
        ...

    def sweep(self, session_id: str, wanted: Collection[str]) -> None:
        """Remove snapshots that nothing refers to any more; what resists stays.

        One that is so new that a worker may be about to refer to it stays, too.
        """
        ...

    def disk_bytes(self, session_id: str) -> int:
        """Return what the snapshots of a session take up on the disk, in bytes."""
        ...

    def forget_deleted(self) -> None:
        """Let go of what was kept elsewhere for sessions that are not there any more."""
        ...
