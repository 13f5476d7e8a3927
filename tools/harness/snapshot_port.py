"""The port through which the harness takes workspace snapshots; its adapter uses git."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

from attrs import frozen

from ..base.files.trees import TreeChanges
from .domain.history_events import WorkspacePrepared


@frozen
class SnapshotTaken:
    """The result of taking a snapshot at a checkpoint.

    Attributes:
        snapshot: The snapshot's id, or None without one.
        unkept: Why a snapshot that should exist is missing, or None.
    """

    snapshot: str | None = None
    unkept: str | None = None


@runtime_checkable
class WorkspaceSnapshots(Protocol):
    """Takes and restores snapshots of sessions' workspaces.

    Every implementation guarantees: a snapshot whose id was returned is on disk; nothing in a
    workspace is executed here; a session without a workspace costs nothing.
    """

    def attachments(
        self, repository: Path, revision: str, *, with_uncommitted: bool
    ) -> dict[str, bytes]:
        """Return the files that describe, for a new session, what its workspace is made from.

        Args:
            repository: A folder of a person's checkout.
            revision: A commit of it.
            with_uncommitted: Whether to include the checkout's uncommitted work.
        """
        ...

    def prepare(self, session_id: str) -> WorkspacePrepared | None:
        """Create the workspace of a session that has a repository; return None for any other.

        The returned event is for the history. Finished parts are reused, so that the next call
        completes a killed one.
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
        """Bring the workspace on this machine to the state in which the session left it anywhere.

        Called under the session's run lock, before anything is put into the workspace. If this
        machine was the last to work in the session, or the session is on no other one, the
        workspace stays as it is. Otherwise it becomes what the last checkpoint says.

        Args:
            session_id: The session.
            last: The snapshot of the last checkpoint; empty if it has none.
            mark: The last return to a snapshot, as for `settle`, which precedes this one.
            parent_id: As for `settle`.
            more: As for `settle`.
        """
        ...

    def is_here(self, session_id: str) -> bool:
        """Return whether the session's current workspace is on this machine."""
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
        """Restore a workspace to a snapshot, unless that was done under this mark.

        Args:
            session_id: The session.
            snapshot: The snapshot; taken from the parent's if the session lacks it.
            mark: Names this return to a snapshot, uniquely in the session.
            parent_id: The session that it was forked from, or None.
            more: The parent's other snapshots that this session refers to.
        """
        ...

    def work_tree(self, session_id: str) -> Path | None:
        """Return the person's own folder that an agent's session works in; None for a workspace."""
        ...

    def require_branch(self, session_id: str, tags: Collection[str]) -> None:
        """Raise if a person's own folder has another branch checked out than the tags name."""
        ...

    def bring_back(self, session_id: str, snapshot: str) -> None:
        """Bring a person's own folder to a snapshot; a kill leaves some of its files changed.

        Only files that the snapshots have are touched.
        """
        ...

    def take(self, session_id: str, label: str) -> SnapshotTaken:
        """Take a snapshot of the current workspace, if there is one."""
        ...

    def empty(self, session_id: str) -> SnapshotTaken:
        """Take a snapshot of an empty workspace, as before the work of a new session."""
        ...

    def require(self, session_id: str, snapshot: str) -> None:
        """Raise unless the snapshot exists."""
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
            before: The first one; None for an empty workspace.
            after: The second one; None for the current workspace.
            patch: Whether to include the changed lines.
            paths: Only these files, and the contents of these folders.
        """
        ...

    def sweep(self, session_id: str, wanted: Collection[str]) -> None:
        """Remove unreferenced snapshots; those that can't be removed stay.

        Very recent ones stay, too, since a worker may be about to refer to them.
        """
        ...

    def disk_bytes(self, session_id: str) -> int:
        """Return the disk usage of a session's snapshots, in bytes."""
        ...

    def forget_deleted(self) -> None:
        """Remove data stored elsewhere for sessions that no longer exist."""
        ...
