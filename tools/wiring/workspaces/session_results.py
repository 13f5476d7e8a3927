"""A session's result in the form the repository package needs: base, snapshot and objects."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attrs import evolve, frozen

from ...harness.services.session_checkpoints import CheckpointNotKept
from ...harness.views.checkpoints import checkpoints, find_checkpoint, last_kept
from ...repository import RepositoryError
from ...repository.apply.apply_errors import ApplyConflict
from ...repository.snapshots.snapshot_repository import NoSnapshots
from .session_snapshots import SessionSnapshots

if TYPE_CHECKING:
    from ...harness import SessionContext
    from ...repository.apply.applied import Applied, ApplyServices
    from ...repository.apply.apply_plan import ApplyOptions
    from ...repository.snapshots.snapshots import Snapshots


_MOST_TRIED: Final = 20
"""How many snapshots are tried in the search for an earlier applied result."""


@frozen
class SessionResults:
    """Applies the results of one store's sessions to a person's checkout.

    Attributes:
        snapshots: The sessions' workspaces.
        services: Git, files and time; the real ones if None.
    """

    snapshots: SessionSnapshots
    services: ApplyServices | None = None

    def apply(
        self,
        session: SessionContext,
        options: ApplyOptions,
        *,
        at: str | int | None = None,
        checkout: Path | None = None,
        dry_run: bool = False,
    ) -> Applied:
        """Apply a session's changes to a checkout, completely or not at all.

        Args:
            session: The session.
            options: How to apply them.
            at: The checkpoint whose workspace is the result; the current workspace if None.
            checkout: A folder of the checkout; if None the one that the session started from, or
                the current folder for a session without one.
            dry_run: Whether to change nothing.

        If an earlier result of the session is committed in the checkout, only the later changes are
        applied.

        Raises:
            CheckpointNotFound: There is no such checkpoint.
            CheckpointNotKept: It has no snapshot.
            NoSnapshots: The session has no workspace.
            RepositoryError: See `repository.apply.apply.apply_result`.
        """
        from ...repository.apply.apply import apply_result, plan_apply

        snapshots = self._kept(session.session_id)
        snapshot = self._snapshot_at(session, at)
        result = snapshots.tree_now() if snapshot is None else snapshots.get(snapshot).tree
        given: dict[str, Any] = {
            "checkout": checkout or self.began_from(session.session_id) or Path.cwd(),
            "objects": [(snapshots.repository.directory / "objects").absolute()],
            "services": self.services,
        }
        plan: Callable[..., Applied] = partial(plan_apply, **given)
        label = f"session {session.session_id}"
        call = plan if dry_run else partial(apply_result, label=label, **given)
        call = partial(call, result=result)
        base = _base(snapshots)
        try:
            return call(base=base, options=evolve(options, merge=False))
        except ApplyConflict:
            earlier = _brought_home(session, snapshots, plan, options.files)
            if earlier is None and not options.merge:
                raise
            return call(base=earlier or base, options=options)

    def export(self, session: SessionContext, folder: Path, *, at: str | int | None = None) -> str:
        """Write a session's files to a new folder, which appears complete; return the snapshot.

        Args:
            session: The session.
            folder: The folder; nothing may exist at this path.
            at: The checkpoint whose workspace to write; the current workspace if None.

        Raises:
            CheckpointNotFound: There is no such checkpoint.
            CheckpointNotKept: It has no snapshot.
            NoSnapshots: The session has no workspace.
            RestoreFailed: Something exists at the path.
            WriteError: The disk or its permissions.
        """
        snapshot = self._snapshot_at(session, at)
        snapshots = self.snapshots.fetched(session.session_id)
        if snapshot is None:
            snapshots.repository.make()
            taken = snapshots.take("export")
            if taken is None:
                raise NoSnapshots(snapshots.repository.directory)
            snapshot = taken.id
        snapshots.export(snapshot, folder.absolute())
        return snapshot

    def _kept(self, session_id: str) -> Snapshots:
        snapshots = self.snapshots.fetched(session_id)
        if not snapshots.repository.exists:
            if not snapshots.repository.workspace.is_dir():
                raise NoSnapshots(snapshots.repository.directory)
            snapshots.repository.make()
        return snapshots

    def _snapshot_at(self, session: SessionContext, at: str | int | None) -> str | None:
        """Return the snapshot to use; None for the current workspace, if it is on this machine."""
        if at is None:
            here = self.snapshots.is_here(session.session_id)
            return None if here else last_kept(session).snapshot
        found = find_checkpoint(session, at)
        if found.snapshot is None:
            raise CheckpointNotKept(
                session.session_id, checkpoint=found.number, reason=found.unkept
            )
        return found.snapshot

    def began_from(self, session_id: str) -> Path | None:
        """Return the checkout that a session started from; None if there was none."""
        base = self.snapshots.base_of(session_id)
        return None if base is None else Path(base.work_tree)


def _brought_home(
    session: SessionContext,
    snapshots: Snapshots,
    plan: Callable[..., Applied],
    files: Sequence[str],
) -> str | None:
    """Return the last snapshot that the checkout's commit fully contains, from an earlier apply.

    The session's later work is a change of that snapshot, not of the session's base.
    """
    from ...repository.apply.apply_plan import ApplyOptions

    kept = [one.snapshot for one in checkpoints(session) if one.snapshot is not None]
    for snapshot in list(dict.fromkeys(reversed(kept)))[:_MOST_TRIED]:
        try:
            found = plan(base=_base(snapshots), result=snapshot, options=ApplyOptions(files=files))
        except RepositoryError:
            continue
        if found.nothing_to_do and not found.already:
            return snapshot
    return None


def _base(snapshots: Snapshots) -> str:
    """Return the commit that the work started from; an empty tree for a session without one."""
    if not snapshots.repository.has_base:
        return snapshots.empty_tree()
    return snapshots.repository.base_commit()
