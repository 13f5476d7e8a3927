"""Removing what was decided, batch after batch.

    hold      lock each, date it again
    announce  audit log, synced
    hide      rename out of sight, date it once more, synced
    begin     empty by descriptor, rmdir, unlock: by several threads, while the next batch is held
    finish    audit log, observer

For each session the steps come in this order, whatever becomes of the others.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Final

from attrs import define, frozen

from ..durable import FileSystem
from ..durable.filesystem import DIRECTORY_FLAGS, close_reader
from .audit_log import AuditLog
from .audit_reserve import FULL
from .deleters import Deleters
from .deletion import NO_DIRECTORY, Deletion
from .disposal import Disposal
from .environment import Outside
from .errors import PruneError
from .inspection import Seen, hold
from .policy import Candidate, Decision, Reason
from .ports import Dated, PruneTarget, Record, settled
from .private_directory import hidden_name, still_going, token_of
from .run_record import Ledger, said
from .trash import TrashRecord, dated_name, forget_record, write_record


@define
class _Held:
    """A session that is locked and about to go.

    Attributes:
        decision: Why it goes.
        fd: Its directory, locked.
        identity: Which directory that is.
        hidden: Its name out of sight.
        open: Its descriptor and those of its guards, until it is let go.
        record: What it was dated by, where a later change of that shows in its times.
        given: Whether its deletion has begun, which lets it go as well.
    """

    decision: Decision
    fd: int
    identity: tuple[int, int]
    hidden: str
    open: list[int]
    record: Record | None
    given: bool = False

    @property
    def candidate(self) -> Candidate:
        return self.decision.candidate

    @property
    def session_id(self) -> str:
        return self.decision.candidate.session_id

    def let_go(self, fs: FileSystem) -> None:
        """Unlock it; does nothing the second time."""
        open_fds, self.open = self.open, []
        for fd in open_fds:
            close_reader(fs, fd)


_FULL: Final = os.strerror(errno.ENOSPC)


def _after(now: datetime, grace: timedelta) -> datetime:
    """Say when a time of grace is over."""
    try:
        return now + grace
    except OverflowError:  # longer than there are dates
        return datetime.max.replace(tzinfo=UTC)


def _refused(error: OSError) -> Reason | str:
    """Say why a session can't be opened or renamed: somebody removed or replaced it, or else."""
    if error.errno == errno.ENOENT:
        return Reason.GONE
    return Reason.CHANGED if error.errno in NO_DIRECTORY else said(error)


def _unrecorded(error: OSError) -> str:
    return f"its record in the trash could not be written, so it was kept: {said(error)}"


@frozen(kw_only=True)
class Place:
    """Where sessions are removed.

    Attributes:
        root_fd: The root, open.
        parent_fd: The private directory in it that they go to.
        seen: What was found in the sessions when it was decided.
        prefix: How their names begin there, where that is the root itself.
    """

    root_fd: int
    parent_fd: int
    seen: Seen
    prefix: str = ""


class Remover:
    """Removes sessions from one root, a batch at a time; two at most are held at once."""

    def __init__(
        self,
        target: PruneTarget,
        disposal: Disposal,
        place: Place,
        *,
        audit: AuditLog,
        ledger: Ledger,
        deletion: Deletion,
        deleters: Deleters,
        outside: Outside,
    ) -> None:
        self._target = target
        self._disposal = disposal
        self._root_fd = place.root_fd
        self._parent_fd = place.parent_fd
        self._seen = place.seen
        self._prefix = place.prefix
        self._audit = audit
        self._ledger = ledger
        self._deletion = deletion
        self._deleters = deleters
        self._fs = outside.fs
        self._clock = outside.clock
        self._file_clock = outside.file_clock
        self._token = outside.token()
        self._going: Sequence[_Held] = ()
        self._postponed: list[_Held] = []

    def remove(self, decisions: Sequence[Decision]) -> None:
        """Take a batch out of sight and begin to delete it; the one before is finished first."""
        held: list[_Held] = []
        try:
            now_ns = self._file_clock()
            for decision in decisions:
                one = self._hold(decision, now_ns)
                if one is not None:
                    held.append(one)
            ready: Sequence[_Held] = self._archived(held)
            size = len(ready)  # a disk that is full takes them one at a time, then more
            while ready:
                announced, rest, error = self._announced(ready[:size])
                self._take(announced)
                waiting = [*self._postponed, *rest, *ready[size:]]
                if len(waiting) == len(ready) and not self._going:
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
                if not one.given:
                    one.let_go(self._fs)

    def _take(self, ready: Sequence[_Held]) -> None:
        """Take what was announced out of sight, and begin to delete it."""
        out = list(self._hide(ready))
        if not self._synced(out):
            return
        if self._disposal.grace is not None:
            for one in out:
                self._ledger.deleted(self._audit, one.candidate, trashed=True)
            return
        self.finish()
        self._going = out
        for one in out:
            one.given = True
        self._deleters.begin([partial(self._delete, one) for one in out])
        if self._deleters.alone:
            self.finish()

    def finish(self) -> None:
        """Wait for the batch that is being deleted, and tell what became of it."""
        outcomes = self._deleters.finish()
        going, self._going = self._going, ()
        for one, error in zip(going, outcomes, strict=True):
            if error is None:
                self._ledger.deleted(self._audit, one.candidate, trashed=False)
                continue
            where = still_going(one.hidden) if not self._prefix else f"it is {one.hidden} now"
            why = f"{error}; {where}"
            self._ledger.unfinished(self._audit, one.session_id, hidden=one.hidden, error=error)
            self._ledger.fail(one.session_id, why)

    def close(self) -> None:
        """Let go of what was to be deleted and was not begun; the deleters must be closed."""
        for one in self._going:
            one.let_go(self._fs)

    def _delete(self, one: _Held) -> str | None:
        """Delete what is out of sight, maybe in a thread; the last close gives the room back."""
        try:
            names = self._seen.names.get(one.session_id)
            return self._deletion.opened(self._parent_fd, one.hidden, one.fd, names)
        finally:
            one.let_go(self._fs)

    # -------------------------------------------------------------------------------- hold

    def _hold(self, decision: Decision, now_ns: int) -> _Held | None:
        """Lock a session, and see that it is still as it was when it was decided."""
        session_id = decision.candidate.session_id
        opened: list[int] = []
        try:
            why: Reason | str
            try:
                fd = self._fs.open(session_id, DIRECTORY_FLAGS, dir_fd=self._root_fd)
                opened.append(fd)
                guards = hold(self._fs, fd, self._target.guards)
                if guards is None:
                    why = Reason.IN_USE
                else:
                    opened += guards
                    why = Reason.CHANGED
                    unchanged, record = self._dated_again(fd, decision.candidate, now_ns)
                    if unchanged:
                        status = self._fs.fstat(fd)
                        identity = (status.st_dev, status.st_ino)
                        hidden = self._hidden_name(session_id, identity)
                        one = _Held(decision, fd, identity, hidden, opened, record)
                        opened = []
                        return one
            except OSError as error:
                why = _refused(error)
        finally:
            for left in opened:
                close_reader(self._fs, left)
        if isinstance(why, Reason):
            self._ledger.keep(decision.candidate, why)
        else:
            self._ledger.fail(session_id, why)
        return None

    def _hidden_name(self, session_id: str, identity: tuple[int, int]) -> str:
        if self._prefix:  # as short as it can be: a longer name may take a block of a full disk
            return f"{self._prefix}{identity[1]:x}"
        return hidden_name(session_id, token_of(identity[1], self._token))

    def _dated_again(
        self, fd: int, candidate: Candidate, now_ns: int
    ) -> tuple[bool, Record | None]:
        """Return whether a session is as it was when it was decided, and what tells so later."""
        record = self._seen.records.get(candidate.session_id)
        if record is not None and record.is_as_it_was(self._fs, fd):
            return True, record
        dated = self._dated_alike(fd, candidate)
        return dated is not None, None if dated is None else settled(dated, now_ns)

    def _dated_alike(self, fd: int, candidate: Candidate) -> Dated | None:
        """Date a session; return None unless it is dated as it was when it was decided."""
        dated = self._target.date(self._fs, fd, candidate.session_id)
        if isinstance(dated, Dated) and (dated.at, dated.version, dated.state) == (
            candidate.dated_at,
            candidate.version,
            candidate.state,
        ):
            return dated
        return None

    def _was_used(self, one: _Held) -> bool:
        """Return whether a session is not as it was when it was locked."""
        if one.record is not None and one.record.is_as_it_was(self._fs, one.fd):
            return False
        return self._dated_alike(one.fd, one.candidate) is None

    def _archived(self, held: list[_Held]) -> list[_Held]:
        archiver = self._disposal.archiver
        if archiver is None:
            return held
        kept = []
        for one in held:
            try:
                path = archiver.archive(self._fs, one.fd, one.candidate)
            except (OSError, PruneError) as error:
                why = f"it could not be archived, so it was kept: {said(error)}"
                self._ledger.fail(one.session_id, why)
            else:
                self._ledger.archives[one.session_id] = str(path)
                kept.append(one)
        return kept

    # ---------------------------------------------------------------------------- announce

    def _announced(
        self, held: Sequence[_Held]
    ) -> tuple[list[_Held], Sequence[_Held], OSError | None]:
        """Write the audit log before anything happens; without it, nothing does.

        Returns:
            Those that may go now; those that the log had no room for, and why.
        """
        now = self._clock()
        for one in held:
            candidate = one.candidate
            self._audit.add(
                "removing",
                at=now,
                kind=candidate.kind,
                session_id=one.session_id,
                hidden=one.hidden,
                size_bytes=candidate.size_bytes,
                dated_at=candidate.dated_at.astimezone(UTC).isoformat(),
                state=candidate.state,
                reasons=[str(reason) for reason in one.decision.reasons],
                trash=self._disposal.grace is not None,
                archive=self._ledger.archives.get(one.session_id),
            )
        count, error = self._audit.announce(len(held))
        return self._recorded(held[:count], now), held[count:], error

    def _refuse(self, held: Sequence[_Held], error: OSError | None) -> None:
        """Keep what could not be announced, or has no room where it is to go."""
        what = "the audit log could not be written" if error else "it could not be moved"
        why = f"{what}, so it was kept: {said(error) if error else _FULL}"
        if error is not None and error.errno in FULL:
            why += "; put the log on another disk (agentforge prune --audit-log)"
        elif error is None and self._disposal.grace is not None:
            why += "; the trash frees nothing, deleting at once does"
        elif error is None:
            why += "; free some room on that disk by hand"
        for one in held:
            self._ledger.fail(one.session_id, why)

    def _recorded(self, held: Sequence[_Held], now: datetime) -> list[_Held]:
        """Write the records of what goes to the trash; what has none is kept."""
        grace = self._disposal.grace
        if grace is None:
            return list(held)
        until = _after(now, grace)
        there: list[_Held] = []
        for one in held:
            record = TrashRecord(
                session_id=one.session_id,
                kind=one.candidate.kind,
                trashed_at=now,
                purge_after=until,
                size_bytes=one.candidate.size_bytes,
            )
            try:
                write_record(self._fs, self._parent_fd, one.hidden, record)
            except OSError as error:
                if error.errno not in FULL:
                    self._keep(one, _unrecorded(error))
                    continue
                one.hidden = dated_name(one.hidden, record)
            there.append(one)
        try:
            if there:
                self._fs.fsync(self._parent_fd)
        except OSError as error:
            for one in there:
                self._keep(one, _unrecorded(error))
            return []
        return there

    # -------------------------------------------------------------------------------- hide

    def _hide(self, held: Sequence[_Held]) -> Iterator[_Held]:
        """Take sessions out of sight, each checked to be the one that is locked."""
        for one in held:
            why = self._rename(one)
            if why == _FULL:
                self._postpone(one)
            elif why is not None:
                self._keep(one, why)
            elif self._is_swapped(one):
                self._keep_swapped(one)
            elif self._was_used(one):
                self._keep_changed(one)
            else:
                yield one

    def _rename(self, one: _Held) -> Reason | str | None:
        """Take a session out of sight; say why it stays where it can't be."""
        try:
            self._fs.rename(
                one.session_id, one.hidden, src_dir_fd=self._root_fd, dst_dir_fd=self._parent_fd
            )
        except OSError as error:
            return _FULL if error.errno in FULL else _refused(error)
        return None

    def _postpone(self, one: _Held) -> None:
        """Try again, once others are gone, with what there is no room for where it is to go."""
        self._forget(one)
        self._ledger.tell(self._audit, "kept", one.session_id, hidden=one.hidden, why=_FULL)
        one.hidden = self._hidden_name(one.session_id, one.identity)  # without a record's content
        self._postponed.append(one)

    def _is_swapped(self, one: _Held) -> bool:
        """Tell whether what was renamed may be something else than what is locked."""
        try:
            there = self._fs.stat(one.hidden, dir_fd=self._parent_fd)
        except OSError:
            return True
        return (there.st_dev, there.st_ino) != one.identity

    def _keep_swapped(self, one: _Held) -> None:
        """Put back what may be something else than what was locked; nobody decided that it goes."""
        what = "something else was put in its place meanwhile"
        if self._put_back(one, one.session_id):
            self._keep(one, f"{what}, and was left there")
        elif self._put_back(one, one.hidden):
            self._keep(one, f"{what} twice; one is {one.hidden} in the root now")
        else:
            self._lose(one, f"{what} and can't be put back; it is out of sight")

    def _keep_changed(self, one: _Held) -> None:
        """Put back what somebody used in the moment before it was renamed."""
        if self._put_back(one, one.session_id):
            self._keep(one, Reason.CHANGED)
        elif self._put_back(one, one.hidden):
            what = "it was used while it was removed, and something else has its name"
            self._keep(one, f"{what}; it is {one.hidden} in the root now")
        else:
            self._lose(one, "it was used while it was removed and can't be put back")

    def _put_back(self, one: _Held, name: str) -> bool:
        """Give what was renamed its name back (or another), unless somebody has it already."""
        try:
            self._fs.stat(name, dir_fd=self._root_fd)
        except FileNotFoundError:
            with suppress(OSError):
                self._fs.rename(
                    one.hidden, name, src_dir_fd=self._parent_fd, dst_dir_fd=self._root_fd
                )
                return True
        except OSError:
            pass
        return False

    def _synced(self, out: Sequence[_Held]) -> bool:
        """Make the renames durable, or take them back: nothing is deleted on a disk in doubt."""
        if not out:
            return False
        try:
            self._fs.fsync(self._parent_fd)
            self._fs.fsync(self._root_fd)
        except OSError as error:
            reason = said(error)
        else:
            return True
        for one in out:
            if self._put_back(one, one.session_id):
                self._keep(one, f"fsync of the root: {reason}; it was kept")
            else:
                self._lose(one, f"fsync of the root: {reason}; it is out of sight")
        return False

    # --------------------------------------------------------------------------- after all

    def _keep(self, one: _Held, why: Reason | str) -> None:
        """Say that a session which was announced is kept after all."""
        self._forget(one)
        self._ledger.tell(self._audit, "kept", one.session_id, hidden=one.hidden, why=str(why))
        if isinstance(why, Reason):
            self._ledger.keep(one.candidate, why)
        else:
            self._ledger.fail(one.session_id, why)

    def _forget(self, one: _Held) -> None:
        if self._disposal.grace is not None:
            forget_record(self._fs, self._parent_fd, one.hidden)

    def _lose(self, one: _Held, why: str) -> None:
        """Say that a session is out of sight against our will.

        The trash gives it back, and from elsewhere the next prune removes it.
        """
        self._ledger.unfinished(self._audit, one.session_id, hidden=one.hidden, why=why)
        self._ledger.fail(one.session_id, why)
