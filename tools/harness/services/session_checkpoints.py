"""Checkpoints of a manager's session: save the workspace at each, return to one, fork from one.

The snapshot comes first, then the session's save that refers to it: a kill in between leaves an
unreferenced snapshot, which is harmless and is swept. Going back is the other way round: first the
save, in which the session says what its workspace is to be; then the files. After a kill in
between, the next worker restores the files first (`prepare`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

from attrs import define, field

from ...base.clock import Clock
from ...base.errors import ErrorKind
from ...base.files.trees import TreeChanges
from ..domain.history_events import (
    Checkpoint,
    CheckpointTaken,
    InputsPlaced,
    SessionForked,
    SessionRewound,
    WorkspacePrepared,
)
from ..domain.token_budget import TokenBudget
from ..errors import HarnessError
from ..lazy import Lazy
from ..session_domain import SessionContext
from ..session_layout import GUARDS, WORKSPACE
from ..session_ports import SessionPlaces
from ..snapshot_port import SnapshotTaken, WorkspaceSnapshots
from ..views.checkpoints import (
    CheckpointEntry,
    base_snapshot,
    find_checkpoint,
    first_snapshot,
    last_kept,
    last_return,
    phase_beginning,
    snapshots_of,
)
from ..views.conversations import turn_under_way
from .session_recording import SessionChanges

_Checkpoint = TypeVar("_Checkpoint", bound=Checkpoint)
_NOTHING = SnapshotTaken()
_BEFORE: Final = "before going back"


class NoSnapshotKeeper(HarnessError):
    """An operation needs snapshots, and the manager takes none."""

    message = """{operation}() needs snapshots of workspaces, and this manager keeps none; give it
    some: SessionManager(snapshots=...), or bootstrap.build_manager()."""
    operation: str


class CheckpointNotKept(HarnessError):
    """A checkpoint has no snapshot of the workspace; nothing was changed."""

    session_id: str
    checkpoint: int
    reason: str | None

    def __str__(self) -> str:
        why = f": {self.reason}" if self.reason else ", for there was no workspace to keep"
        return (
            f"checkpoint {self.checkpoint} of session {self.session_id} has no snapshot{why}; "
            f"nothing was changed. `agentforge session checkpoints {self.session_id}` shows which "
            "have one."
        )


class WorkspaceNotKept(HarnessError):
    """The workspace can't be saved, so going back would lose it; nothing was changed."""

    message = """session {session_id} was not taken back: what is in its workspace now would be
    lost, for {reason}. Nothing was changed. Remove what is named (agentforge sandbox rm
    --agent-session {session_id} PATH), then go back again."""
    session_id: str
    reason: str


class AgentAtWork(HarnessError, kind=ErrorKind.CONFLICT, retryable=True):
    """An agent seems to be at work on the files that would be changed; nothing was changed."""

    message = """session {session_id} was not taken back: {program} has worked on a prompt, at least
    until {last}, and its turn has not ended. Nothing was changed. Wait for the end of
    the turn; if you ask from within it, or if it was interrupted, add --in-turn."""
    session_id: str
    program: str
    last: str
    """When something was last heard of it."""


class OtherBranch(HarnessError, kind=ErrorKind.REFUSED):
    """The person's folder has another branch than the session's; nothing was changed."""

    message = """session {session_id} was not taken back: its files are those of {branch}, and
    {folder} has {present} checked out. Nothing was changed. Check out the branch of the session, or
    fork the session at the checkpoint."""
    session_id: str
    branch: str
    folder: Path
    present: str


@define(eq=False)
class SessionCheckpoints:
    """The checkpoints of the sessions of one store.

    Args:
        snapshots: Saves the workspaces; opened on first use. None: no snapshots are taken.
        places: Where the sessions' directories are, and their locks.
        changes: Saves the sessions.
        clock: The time.
    """

    _opened: Lazy[WorkspaceSnapshots] | None = field(alias="snapshots")
    _places: SessionPlaces = field(kw_only=True)
    _changes: SessionChanges = field(kw_only=True)
    _clock: Clock = field(kw_only=True)

    @property
    def _snapshots(self) -> WorkspaceSnapshots | None:
        return None if self._opened is None else self._opened()

    def prepare(self, session: SessionContext) -> None:
        """Make the workspace match the session, finishing what a killed worker started.

        Raises:
            SessionConflict: Another worker saved the session meanwhile.
            WriteError: It could not be saved.
            AgentForgeError: The workspace could not be made; the error says what to do.
        """
        snapshots = self._snapshots
        if snapshots is None:
            return
        back = last_return(session)
        position, event = (None, None) if back is None else back
        parent_id = event.parent_id if isinstance(event, SessionForked) else None
        more = snapshots_of(session) if parent_id is not None else ()
        snapshots.take_up(
            session.session_id, last_kept(session), mark=position, parent_id=parent_id, more=more
        )
        if position is not None and event is not None:
            snapshots.settle(
                session.session_id, event.snapshot, mark=position, parent_id=parent_id, more=more
            )
            return
        if any(entry.event_type is WorkspacePrepared for entry in session.history):
            return
        prepared = snapshots.prepare(session.session_id)
        if prepared is None:
            return
        with self._changes.changing(session):
            session.add_event(prepared, now=self._clock())

    def take(self, session: SessionContext, label: str) -> SnapshotTaken:
        """Take a snapshot of a session's workspace, before the save of its checkpoint."""
        if self._snapshots is None:
            return _NOTHING
        named = f"{label} {session.current_phase or ''} attempt {session.attempt_number}"
        return self._snapshots.take(session.session_id, named)

    def with_snapshot(self, session: SessionContext, event: _Checkpoint) -> _Checkpoint:
        """Return a checkpoint's event with a snapshot taken for it now."""
        if event.snapshot is not None or event.unkept is not None:
            return event
        taken = self.take(session, event.action)
        if taken == _NOTHING:
            return event
        return replace(event, snapshot=taken.snapshot, unkept=taken.unkept)

    def with_inputs(self, session: SessionContext, event: InputsPlaced) -> InputsPlaced:
        """Return the event with a snapshot of the workspace, if another machine may need it."""
        if self._snapshots is None or not self._snapshots.travels:
            return event
        return replace(event, snapshot=self.take(session, event.action).snapshot)

    def changes(
        self,
        session: SessionContext,
        before: str | int | None,
        after: str | int | None,
        *,
        patch: bool,
        paths: Sequence[str],
    ) -> TreeChanges:
        """Compare two checkpoints; see `SessionManager.diff`."""
        snapshots = self._require("diff")
        first = None if before is None else self._kept(session, before).snapshot
        if before is None:
            is_in_place = snapshots.work_tree(session.session_id) is not None
            first = first_snapshot(session) if is_in_place else base_snapshot(session)
        second = None if after is None else self._kept(session, after).snapshot
        if after is None and not snapshots.is_here(session.session_id):
            second = last_kept(session).snapshot
        return snapshots.changes(session.session_id, first, second, patch=patch, paths=paths)

    def rewind(self, session: SessionContext, to: str | int, *, in_turn: bool) -> CheckpointEntry:
        """Restore a session and its workspace to a checkpoint; see `SessionManager.rewind`."""
        snapshots = self._require("rewind")
        snapshots.require_branch(session.session_id, session.tags)
        if not in_turn and snapshots.work_tree(session.session_id) is not None:
            one = turn_under_way(session.history, self._clock())
            if one is not None:
                last = f"{one.last:%H:%M:%S} UTC"
                raise AgentAtWork(session.session_id, program=one.program, last=last)
        with self._places.idle(session.session_id, GUARDS):
            target = self._kept(session, to)
            event = SessionRewound(**_reached(target))
            self._go_back(snapshots, session, event, phase=target.phase)
        return target

    def begin_again(self, session: SessionContext, phase: str) -> bool:
        """Restore a session and its files to the start of a phase.

        The caller holds the session's run lock.

        Returns:
            Whether it was done; False if there is no snapshot of the files at that point.

        Raises:
            SessionInUse: Something is at work in the workspace.
            WorkspaceNotKept: The current workspace can't be saved; nothing was changed.
            WriteError: The file system refused.
        """
        snapshots = self._snapshots
        found = phase_beginning(session, phase)
        if snapshots is None or found is None:
            return False
        with self._places.idle(session.session_id, (WORKSPACE,)):
            snapshot = found.snapshot
            if not found.checkpoint:
                snapshot = snapshots.empty(session.session_id).snapshot
            if snapshot is None:
                return False
            event = SessionRewound(
                checkpoint=found.checkpoint, position=found.position, snapshot=snapshot
            )
            self._go_back(snapshots, session, event, phase=phase)
        return True

    def _go_back(
        self,
        snapshots: WorkspaceSnapshots,
        session: SessionContext,
        event: SessionRewound,
        *,
        phase: str | None,
    ) -> None:
        snapshots.require(session.session_id, event.snapshot)
        self.prepare(session)
        saved = self._leave(snapshots, session)
        if snapshots.work_tree(session.session_id) is not None:
            # Nobody prepares a person's folder: what is in it is recorded before it is touched, and
            # the session is back once the files are.
            if saved is not None:
                with self._changes.changing(session):
                    session.add_event(saved, details=_BEFORE, now=self._clock())
            snapshots.bring_back(session.session_id, event.snapshot)
            saved = None
        with self._changes.changing(session):
            if saved is not None:
                session.add_event(saved, details=_BEFORE, now=self._clock())
            session.go_back(event, phase=phase, now=self._clock())
        self.prepare(session)

    def _leave(
        self, snapshots: WorkspaceSnapshots, session: SessionContext
    ) -> CheckpointTaken | None:
        """Return a checkpoint of the present files, or None if the session has it."""
        left = snapshots.take(session.session_id, _BEFORE)
        if left.unkept is not None:
            raise WorkspaceNotKept(session.session_id, reason=left.unkept)
        is_new = left.snapshot is not None and left.snapshot not in snapshots_of(session)
        return CheckpointTaken(snapshot=left.snapshot) if is_new else None

    def bring(self, session: SessionContext, to: str | int) -> CheckpointEntry:
        """Bring an agent's work tree to a checkpoint's files; see `SessionManager.bring`."""
        snapshots = self._require("bring")
        snapshots.require_branch(session.session_id, session.tags)
        with self._places.idle(session.session_id, GUARDS):
            target = self._kept(session, to)
            saved = self._leave(snapshots, session)
            to_be = CheckpointTaken(snapshot=target.snapshot)
            details = f"the files of checkpoint {target.number} are to be brought"
            with self._changes.changing(session):  # after a kill, the last one is brought again
                if saved is not None:
                    session.add_event(saved, details=_BEFORE, now=self._clock())
                session.add_event(to_be, details=details, now=self._clock())
            snapshots.bring_back(session.session_id, target.snapshot or "")
        return target

    def fork(
        self, parent: SessionContext, at: str | int, *, token_budget: int | None
    ) -> SessionContext:
        """Return a new, unsaved session that starts at a checkpoint of another one."""
        snapshots = self._require("fork")
        target = self._kept(parent, at)
        snapshots.require(parent.session_id, target.snapshot or "")
        now = self._clock()
        spent = parent.token_budget
        fork = SessionContext.create(
            parent.workflow_type,
            target.phase,
            spent.total_budget,
            goal=parent.goal,
            title=parent.title,
            tags=parent.tags,
            metadata=parent.metadata,
            workflow_state=parent.workflow_state,
            parent_id=parent.session_id,
            now=now,
        )
        fork.token_budget = TokenBudget(
            total_budget=spent.total_budget if token_budget is None else token_budget,
            tokens_used=spent.tokens_used if token_budget is None else 0,
        )
        fork.history = list(parent.history[: target.position + 1])
        fork.artifacts = [one for one in parent.artifacts if one.timestamp <= target.at]
        event = SessionForked(
            **_reached(target), parent_id=parent.session_id, parent_entries=len(parent.history)
        )
        fork.go_back(event, phase=target.phase, now=now)
        return fork

    def sweep(self, session: SessionContext) -> None:
        """Remove a session's unreferenced snapshots, and pack the others."""
        if self._snapshots is not None:
            self._snapshots.sweep(session.session_id, snapshots_of(session))

    def disk_bytes(self, session: SessionContext) -> int:
        """Return the disk usage of a session's snapshots, in bytes."""
        return 0 if self._snapshots is None else self._snapshots.disk_bytes(session.session_id)

    def forget_deleted(self) -> None:
        """Remove data stored elsewhere for sessions that no longer exist."""
        if self._snapshots is not None:
            self._snapshots.forget_deleted()

    def _kept(self, session: SessionContext, named: str | int) -> CheckpointEntry:
        found = find_checkpoint(session, named)
        if found.snapshot is None:
            raise CheckpointNotKept(
                session.session_id, checkpoint=found.number, reason=found.unkept
            )
        return found

    def _require(self, operation: str) -> WorkspaceSnapshots:
        if self._snapshots is None:
            raise NoSnapshotKeeper(operation)
        return self._snapshots


def _reached(target: CheckpointEntry) -> dict[str, Any]:
    """Return a checkpoint's fields for an event of returning to it."""
    return {
        "checkpoint": target.number,
        "position": target.position,
        "attempt": target.attempt,
        "succeeded": target.succeeded,
        "snapshot": target.snapshot or "",
    }
