"""Removing what was decided, batch after batch.

    lock      lock each, date it again
    announce  audit log, synced
    hide      rename out of sight, date it once more, synced
    begin     empty by descriptor, rmdir, unlock: by several threads, while the next batch is locked
    finish    audit log, observer

For each session the steps come in this order, independently of the others; that order is the
guarantee, so all of them stand in this one module.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Final

from attrs import define, field, frozen

from ...base.errors import reason_of
from ...base.files.tree_removal import put_back
from ..domain import Decision, Reason
from ..errors import PruneError
from ..ports import Disposal, Leaving, PruneTarget
from ..records.audit_log import AuditLog
from ..records.audit_reserve import FULL
from .deletion import Deletion, DeletionPool
from .environment import Outside
from .hidden_names import hidden_name, still_going, token_of
from .inspection import InspectionCache
from .locked_session import LockedSession, SessionLocker, refusal
from .run_record import RunRecord
from .trash import TrashRecord, dated_name, forget_record, write_record

_FULL: Final = os.strerror(errno.ENOSPC)


def _unrecorded(error: OSError) -> str:
    return f"its record in the trash could not be written, so it was kept: {reason_of(error)}"


@frozen(kw_only=True)
class Place:
    """Where sessions are removed.

    Attributes:
        root_fd: The root, open.
        parent_fd: The private directory in it that they go to.
        cache: What was found in the sessions when it was decided.
        prefix: How their names begin there, where that is the root itself.
    """

    root_fd: int
    parent_fd: int
    cache: InspectionCache
    prefix: str = ""


@define(kw_only=True)
class Remover:
    """Removes sessions from one root, a batch at a time; two at most are locked at once."""

    target: PruneTarget
    disposal: Disposal
    place: Place
    audit: AuditLog
    record: RunRecord
    deletion: Deletion
    pool: DeletionPool
    outside: Outside
    _locker: SessionLocker = field(init=False)
    _token: str = field(init=False)
    _deleting: Sequence[LockedSession] = field(init=False, default=())
    _postponed: list[LockedSession] = field(init=False, factory=list)

    def __attrs_post_init__(self) -> None:
        place = self.place
        self._locker = SessionLocker(self.outside.fs, self.target, place.root_fd, place.cache)
        self._token = self.outside.token()

    def remove(self, decisions: Sequence[Decision]) -> None:
        """Take a batch out of sight and begin to delete it; the one before is finished first."""
        held: list[LockedSession] = []
        try:
            now_ns = self.outside.file_clock()
            for decision in decisions:
                one = self._lock(decision, now_ns)
                if one is not None:
                    held.append(one)
            ready: Sequence[LockedSession] = self._archived(held)
            if isinstance(self.target, Leaving):
                for one in ready:
                    self.target.leaving(self.outside.fs, one.fd, one.session_id)
            size = len(ready)  # a disk that is full takes them one at a time, then more
            while ready:
                announced, rest, error = self._announced(ready[:size])
                self._take(announced)
                waiting = [*self._postponed, *rest, *ready[size:]]
                if len(waiting) == len(ready) and not self._deleting:
                    self._refuse(waiting, None if self._postponed else error)
                    break
                if waiting:
                    self.finish()  # what is deleted makes room for more
                full = error is not None or bool(self._postponed)
                size = 1 if full else 2 * size
                self._postponed = []
                ready = waiting
        finally:
            for one in held:
                if not one.deleting:
                    one.unlock(self.outside.fs)

    def _take(self, ready: Sequence[LockedSession]) -> None:
        """Take what was announced out of sight, and begin to delete it."""
        out = list(self._hide(ready))
        if not self._synced(out):
            return
        if self.disposal.grace is not None:
            for one in out:
                self.record.deleted(self.audit, one.candidate, trashed=True)
            return
        self.finish()
        self._deleting = out
        for one in out:
            one.deleting = True
        self.pool.begin([partial(self._delete, one) for one in out])
        if self.pool.alone:
            self.finish()

    def finish(self) -> None:
        """Wait for the batch that is being deleted, and record what became of it."""
        outcomes = self.pool.finish()
        going, self._deleting = self._deleting, ()
        for one, error in zip(going, outcomes, strict=True):
            if error is None:
                self.record.deleted(self.audit, one.candidate, trashed=False)
                continue
            where = still_going(one.hidden) if not self.place.prefix else f"it is {one.hidden} now"
            why = f"{error}; {where}"
            self.record.unfinished(self.audit, one.session_id, hidden=one.hidden, error=error)
            self.record.fail(one.session_id, why)

    def close(self) -> None:
        """Let go of what was to be deleted and was not begun; the deleters must be closed."""
        for one in self._deleting:
            one.unlock(self.outside.fs)

    def _delete(self, one: LockedSession) -> str | None:
        """Delete what is out of sight, maybe in a thread; the last close gives the room back."""
        try:
            names = self.place.cache.names.get(one.session_id)
            return self.deletion.opened(self.place.parent_fd, one.hidden, one.fd, names)
        finally:
            one.unlock(self.outside.fs)

    # -------------------------------------------------------------------------------- lock

    def _lock(self, decision: Decision, now_ns: int) -> LockedSession | None:
        locked = self._locker.lock(decision, now_ns)
        if isinstance(locked, LockedSession):
            locked.hidden = self._hidden_name(locked.session_id, locked.identity)
            return locked
        if isinstance(locked, Reason):
            self.record.keep(decision.candidate, locked)
        else:
            self.record.fail(decision.candidate.session_id, locked)
        return None

    def _hidden_name(self, session_id: str, identity: tuple[int, int]) -> str:
        if (
            self.place.prefix
        ):  # as short as it can be: a longer name may take a block of a full disk
            return f"{self.place.prefix}{identity[1]:x}"
        return hidden_name(session_id, token_of(identity[1], self._token))

    def _archived(self, held: list[LockedSession]) -> list[LockedSession]:
        archiver = self.disposal.archiver
        if archiver is None:
            return held
        kept = []
        for one in held:
            try:
                path = archiver.archive(self.outside.fs, one.fd, one.candidate)
            except (OSError, PruneError) as error:
                why = f"it could not be archived, so it was kept: {reason_of(error)}"
                self.record.fail(one.session_id, why)
            else:
                self.record.archives[one.session_id] = str(path)
                kept.append(one)
        return kept

    # ---------------------------------------------------------------------------- announce

    def _announced(
        self, held: Sequence[LockedSession]
    ) -> tuple[list[LockedSession], Sequence[LockedSession], OSError | None]:
        """Write the audit log before anything happens; without it, nothing does.

        Returns:
            Those that may go now; those that the log had no room for, and why.
        """
        now = self.outside.clock()
        for one in held:
            candidate = one.candidate
            self.audit.add(
                "removing",
                at=now,
                kind=candidate.kind,
                session_id=one.session_id,
                hidden=one.hidden,
                size_bytes=candidate.size_bytes,
                dated_at=candidate.dated_at.astimezone(UTC).isoformat(),
                state=candidate.state,
                reasons=[str(reason) for reason in one.decision.reasons],
                trash=self.disposal.grace is not None,
                archive=self.record.archives.get(one.session_id),
            )
        count, error = self.audit.announce(len(held))
        return self._recorded(held[:count], now), held[count:], error

    def _refuse(self, held: Sequence[LockedSession], error: OSError | None) -> None:
        """Keep what could not be announced, or has no room where it is to go."""
        what = "the audit log could not be written" if error else "it could not be moved"
        why = f"{what}, so it was kept: {reason_of(error) if error else _FULL}"
        if error is not None and error.errno in FULL:
            why += "; put the log on another disk (agentforge prune --audit-log)"
        elif error is None and self.disposal.grace is not None:
            why += "; the trash frees nothing, deleting at once does"
        elif error is None:
            why += "; free some room on that disk by hand"
        for one in held:
            self.record.fail(one.session_id, why)

    def _recorded(self, held: Sequence[LockedSession], now: datetime) -> list[LockedSession]:
        """Write the records of what goes to the trash; what has none is kept."""
        grace = self.disposal.grace
        if grace is None:
            return list(held)
        there: list[LockedSession] = []
        for one in held:
            record = TrashRecord.of(one.candidate, now, grace)
            try:
                write_record(self.outside.fs, self.place.parent_fd, one.hidden, record)
            except OSError as error:
                if error.errno not in FULL:
                    self._keep(one, _unrecorded(error))
                    continue
                one.hidden = dated_name(one.hidden, record)
            there.append(one)
        try:
            if there:
                self.outside.fs.fsync(self.place.parent_fd)
        except OSError as error:
            for one in there:
                self._keep(one, _unrecorded(error))
            return []
        return there

    # -------------------------------------------------------------------------------- hide

    def _hide(self, held: Sequence[LockedSession]) -> Iterator[LockedSession]:
        """Take sessions out of sight, each checked to be the one that is locked."""
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

    def _rename(self, one: LockedSession) -> Reason | str | None:
        """Take a session out of sight; return why it stays where it can't be."""
        try:
            self.outside.fs.rename(
                one.session_id,
                one.hidden,
                src_dir_fd=self.place.root_fd,
                dst_dir_fd=self.place.parent_fd,
            )
        except OSError as error:
            return _FULL if error.errno in FULL else refusal(error)
        return None

    def _postpone(self, one: LockedSession) -> None:
        """Try again, once others are deleted, with what there is no room for where it is to go."""
        self._forget(one)
        self.record.log(self.audit, "kept", one.session_id, hidden=one.hidden, why=_FULL)
        one.hidden = self._hidden_name(one.session_id, one.identity)  # without a record's content
        self._postponed.append(one)

    def _is_swapped(self, one: LockedSession) -> bool:
        """Return whether what was renamed may be something else than what is locked."""
        try:
            there = self.outside.fs.stat(one.hidden, dir_fd=self.place.parent_fd)
        except OSError:
            return True
        return (there.st_dev, there.st_ino) != one.identity

    def _keep_swapped(self, one: LockedSession) -> None:
        """Put back what may be something else than what was locked: no decision is about that."""
        what = "something else was put in its place meanwhile"
        if self._put_back(one, one.session_id):
            self._keep(one, f"{what}, and was left there")
        elif self._put_back(one, one.hidden):
            self._keep(one, f"{what} twice; one is {one.hidden} in the root now")
        else:
            self._lose(one, f"{what} and can't be put back; it is out of sight")

    def _keep_changed(self, one: LockedSession) -> None:
        """Put back what was used in the moment before it was renamed."""
        if self._put_back(one, one.session_id):
            self._keep(one, Reason.CHANGED)
        elif self._put_back(one, one.hidden):
            what = "it was used while it was removed, and something else has its name"
            self._keep(one, f"{what}; it is {one.hidden} in the root now")
        else:
            self._lose(one, "it was used while it was removed and can't be put back")

    def _put_back(self, one: LockedSession, name: str) -> bool:
        return put_back(
            self.outside.fs,
            one.hidden,
            name,
            from_fd=self.place.parent_fd,
            to_fd=self.place.root_fd,
        )

    def _synced(self, out: Sequence[LockedSession]) -> bool:
        """Make the renames durable, or take them back: nothing is deleted on a disk in doubt."""
        if not out:
            return False
        try:
            self.outside.fs.fsync(self.place.parent_fd)
            self.outside.fs.fsync(self.place.root_fd)
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

    def _keep(self, one: LockedSession, why: Reason | str) -> None:
        """Record that a session which was announced is kept after all."""
        self._forget(one)
        self.record.log(self.audit, "kept", one.session_id, hidden=one.hidden, why=str(why))
        if isinstance(why, Reason):
            self.record.keep(one.candidate, why)
        else:
            self.record.fail(one.session_id, why)

    def _forget(self, one: LockedSession) -> None:
        if self.disposal.grace is not None:
            forget_record(self.outside.fs, self.place.parent_fd, one.hidden)

    def _lose(self, one: LockedSession, why: str) -> None:
        """Record that a session is out of sight against our will.

        The trash gives it back, and from elsewhere the next prune removes it.
        """
        self.record.unfinished(self.audit, one.session_id, hidden=one.hidden, why=why)
        self.record.fail(one.session_id, why)
