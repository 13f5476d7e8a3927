"""Removing what was decided, batch after batch.

    lock      lock each, date it again
    announce  audit log, synced
    hide      rename out of sight, date it once more, synced
    begin     empty by descriptor, rmdir, unlock: by several threads, while the next batch is locked
    finish    audit log, observer

For each session the steps come in this order, independently of the others; that order is the
guarantee, so this one module holds them all.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from attrs import define, field

from ...base.errors import reason_of
from ...base.files import FileSystem
from ...base.files.tree_removal import put_back
from ..audit_reserve import FULL
from ..domain import Decision, Reason
from ..errors import PruneError
from ..ports import Leaving
from .private_directory import hidden_name, still_going, token_of
from .run import RemovalWork, RunRecord
from .session_lock import SessionLocker, SessionToRemove, refusal
from .trash import dated_name

_FULL: Final = os.strerror(errno.ENOSPC)


@define(kw_only=True)
class Remover:
    """Removes sessions from one root, a batch at a time; at most two batches are locked at once.

    Attributes:
        work: The root's audit log, deleters and run.
        parent_fd: The private directory in the root that sessions are moved to.
        prefix: The prefix of their names there, if that is the root itself.
    """

    work: RemovalWork
    parent_fd: int
    prefix: str = ""
    _fs: FileSystem = field(init=False)
    _record: RunRecord = field(init=False)
    _grace: timedelta | None = field(init=False)
    _locker: SessionLocker = field(init=False)
    _token: str = field(init=False)
    _deleting: Sequence[SessionToRemove] = field(init=False, default=())
    _postponed: list[SessionToRemove] = field(init=False, factory=list)

    def __attrs_post_init__(self) -> None:
        work, run = self.work, self.work.run
        self._fs, self._record, self._grace = run.outside.fs, run.record, run.disposal.grace
        self._locker = SessionLocker(self._fs, work.target, work.root_fd, work.cache.records)
        self._token = run.outside.token()

    def remove(self, decisions: Sequence[Decision]) -> None:
        """Take a batch out of sight and start to delete it; the one before is finished first."""
        held: list[SessionToRemove] = []
        try:
            now_ns = self.work.run.outside.file_clock()
            for decision in decisions:
                one = self._lock(decision, now_ns)
                if one is not None:
                    held.append(one)
            ready: Sequence[SessionToRemove] = self._archived(held)
            if isinstance(self.work.target, Leaving):
                for one in ready:
                    self.work.target.leaving(self._fs, one.fd, one.session_id)
            size = len(ready)  # on a full disk one at a time, then more
            while ready:
                announced, rest, error = self._announced(ready[:size])
                self._take(announced)
                waiting = [*self._postponed, *rest, *ready[size:]]
                if len(waiting) == len(ready) and not self._deleting:
                    self._refuse(waiting, None if self._postponed else error)
                    break
                if waiting:
                    self.finish()  # the deletions make room for more
                full = error is not None or bool(self._postponed)
                size = 1 if full else 2 * size
                self._postponed = []
                ready = waiting
        finally:
            for one in held:
                if not one.deleting:
                    one.unlock(self._fs)

    def _take(self, ready: Sequence[SessionToRemove]) -> None:
        """Take announced sessions out of sight, and start to delete them."""
        out = list(self._hide(ready))
        if not self._synced(out):
            return
        if self._grace is not None:
            for one in out:
                self._note_deleted(one)
            return
        self.finish()
        self._deleting = out
        for one in out:
            one.deleting = True
        self.work.pool.begin([partial(self._delete, one) for one in out])
        if self.work.pool.alone:
            self.finish()

    def finish(self) -> None:
        """Wait for the batch that is being deleted, and record the outcomes."""
        outcomes = self.work.pool.finish()
        going, self._deleting = self._deleting, ()
        for one, error in zip(going, outcomes, strict=True):
            if error is None:
                self._note_deleted(one)
                continue
            where = still_going(one.hidden) if not self.prefix else f"it is {one.hidden} now"
            why = f"{error}; {where}"
            self._note_unfinished(one, why, error=error)

    def close(self) -> None:
        """Stop the deleters, and unlock the sessions whose deletion has not started."""
        self.work.pool.close()
        for one in self._deleting:
            one.unlock(self._fs)

    def _delete(self, one: SessionToRemove) -> str | None:
        """Delete a session out of sight, maybe in a thread; the last close frees the room."""
        try:
            names = self.work.cache.names.get(one.session_id)
            return self.work.deletion.opened(self.parent_fd, one.hidden, one.fd, names)
        finally:
            one.unlock(self._fs)

    # -------------------------------------------------------------------------------- lock

    def _lock(self, decision: Decision, now_ns: int) -> SessionToRemove | None:
        locked = self._locker.lock(decision, now_ns)
        if isinstance(locked, SessionToRemove):
            return locked
        if isinstance(locked, Reason):
            self._record.keep(decision.candidate, locked)
        else:
            self._record.fail(decision.candidate.session_id, locked)
        return None

    def _archived(self, held: list[SessionToRemove]) -> list[SessionToRemove]:
        archiver = self.work.run.disposal.archiver
        if archiver is None:
            return held
        kept = []
        for one in held:
            try:
                path = archiver.archive(self._fs, one.fd, one.candidate)
            except (OSError, PruneError) as error:
                why = f"it could not be archived, so it was kept: {reason_of(error)}"
                self._record.fail(one.session_id, why)
            else:
                self._record.archives[one.session_id] = str(path)
                kept.append(one)
        return kept

    # ---------------------------------------------------------------------------- announce

    def _announced(
        self, held: Sequence[SessionToRemove]
    ) -> tuple[Sequence[SessionToRemove], Sequence[SessionToRemove], OSError | None]:
        """Write the audit log before anything happens; without it, nothing happens.

        Returns:
            Those that may be removed now; those that the log had no room for, and why.
        """
        now = self.work.run.outside.clock()
        for one in held:
            one.hidden = self._hidden_name(one, now)
            self.work.audit.add(
                "removing",
                at=now,
                hidden=one.hidden,
                **one.decision.logged(),
                trash=self._grace is not None,
                archive=self._record.archives.get(one.session_id),
            )
        count, error = self.work.audit.announce(len(held))
        return held[:count], held[count:], error

    def _refuse(self, held: Sequence[SessionToRemove], error: OSError | None) -> None:
        """Keep sessions that could not be announced, or for which there is no room out of sight."""
        what = "the audit log could not be written" if error else "it could not be moved"
        why = f"{what}, so it was kept: {reason_of(error) if error else _FULL}"
        if error is not None and error.errno in FULL:
            why += "; put the log on another disk (agentforge prune --audit-log)"
        elif error is None and self._grace is not None:
            why += "; the trash frees nothing, deleting at once does"
        elif error is None:
            why += "; free some room on that disk by hand"
        for one in held:
            self._record.fail(one.session_id, why)

    def _hidden_name(self, one: SessionToRemove, now: datetime) -> str:
        inode = one.identity[1]
        if self.prefix:  # the shortest name: a longer one may take a block of a full disk
            return f"{self.prefix}{inode:x}"
        hidden = hidden_name(one.session_id, token_of(inode, self._token))
        if self._grace is None:
            return hidden
        return dated_name(hidden, one.candidate, now, self._grace)

    # -------------------------------------------------------------------------------- hide

    def _hide(self, held: Sequence[SessionToRemove]) -> Iterator[SessionToRemove]:
        """Take sessions out of sight; check that each is the one that is locked."""
        for one in held:
            why = self._rename(one)
            if why == _FULL:
                self._postpone(one)
            elif why is not None:
                self._keep(one, why)
            elif self._is_swapped(one):
                self._keep_swapped(one)
            elif self._locker.was_used(one):
                self._keep_changed(one)
            else:
                yield one

    def _rename(self, one: SessionToRemove) -> Reason | str | None:
        """Take a session out of sight; return why it stays if that fails."""
        try:
            self._fs.rename(
                one.session_id,
                one.hidden,
                src_dir_fd=self.work.root_fd,
                dst_dir_fd=self.parent_fd,
            )
        except OSError as error:
            return _FULL if error.errno in FULL else refusal(error)
        return None

    def _postpone(self, one: SessionToRemove) -> None:
        """Set a session aside for lack of room, to be tried again once others are deleted."""
        self.work.log("kept", one.session_id, hidden=one.hidden, why=_FULL)
        self._postponed.append(one)

    def _is_swapped(self, one: SessionToRemove) -> bool:
        """Return whether what was renamed may be something other than what is locked."""
        try:
            there = self._fs.stat(one.hidden, dir_fd=self.parent_fd)
        except OSError:
            return True
        return (there.st_dev, there.st_ino) != one.identity

    def _keep_swapped(self, one: SessionToRemove) -> None:
        """Put back what may not be the locked session: no decision is about that."""
        what = "something else was put in its place meanwhile"
        if self._put_back(one, one.session_id):
            self._keep(one, f"{what}, and was left there")
        elif self._put_back(one, one.hidden):
            self._keep(one, f"{what} twice; one is {one.hidden} in the root now")
        else:
            self._lose(one, f"{what} and can't be put back; it is out of sight")

    def _keep_changed(self, one: SessionToRemove) -> None:
        """Put back a session that was used in the moment before it was renamed."""
        if self._put_back(one, one.session_id):
            self._keep(one, Reason.CHANGED)
        elif self._put_back(one, one.hidden):
            what = "it was used while it was removed, and something else has its name"
            self._keep(one, f"{what}; it is {one.hidden} in the root now")
        else:
            self._lose(one, "it was used while it was removed and can't be put back")

    def _put_back(self, one: SessionToRemove, name: str) -> bool:
        return put_back(
            self._fs,
            one.hidden,
            name,
            from_fd=self.parent_fd,
            to_fd=self.work.root_fd,
        )

    def _synced(self, out: Sequence[SessionToRemove]) -> bool:
        """Make the renames durable, or undo them: nothing is deleted on an unreliable disk."""
        if not out:
            return False
        try:
            self._fs.fsync(self.parent_fd)
            self._fs.fsync(self.work.root_fd)
        except OSError as error:
            reason = reason_of(error)
        else:
            return True
        for one in out:
            if self._put_back(one, one.session_id):
                self._keep(one, f"fsync of the root: {reason}; it was kept")
            else:
                self._lose(one, f"fsync of the root: {reason}; it is out of sight")
        return False

    # --------------------------------------------------------------------------- after all

    def _keep(self, one: SessionToRemove, why: Reason | str) -> None:
        """Record that an announced session stays after all."""
        self.work.log("kept", one.session_id, hidden=one.hidden, why=str(why))
        if isinstance(why, Reason):
            self._record.keep(one.candidate, why)
        else:
            self._record.fail(one.session_id, why)

    def _lose(self, one: SessionToRemove, why: str) -> None:
        """Record that a session is out of sight against our will.

        The trash gives it back; from anywhere else the next prune removes it.
        """
        self._note_unfinished(one, why, why=why)

    def _note_deleted(self, one: SessionToRemove) -> None:
        trashed = self._grace is not None
        self.work.log("trashed" if trashed else "removed", one.session_id)
        self._record.removed(one.candidate, trashed=trashed)

    def _note_unfinished(self, one: SessionToRemove, problem: str, **fields: str) -> None:
        self._record.unfinished.append(one.session_id)
        self.work.log("unfinished", one.session_id, hidden=one.hidden, **fields)
        self._record.fail(one.session_id, problem)
