"""The locks of a session: a process that works in it locks its directory, or a guard in it.

A session that is locked for removal is unchanged since the decision, and stays so.

A look takes the same locks as a removal, so that both find the same sessions in use. Looks of
several processes may meet at one lock, for a moment: a lock that is held for longer means in use.
"""

from __future__ import annotations

import errno
import os
import resource
import stat
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from attrs import define, field, frozen

from ...base.errors import reason_of
from ...base.files import FileSystem, Patience, try_lock
from ...base.files.file_lock import has_name
from ...base.files.filesystem import DIRECTORY_FLAGS, READ_FLAGS, close_reader
from ..domain import Candidate, Decision, Reason
from ..ports import Dated, PruneTarget, Record, settled
from .deletion import NO_DIRECTORY

MOMENT_S: Final = 0.05
"""How long another look may hold a lock, in seconds."""
_NO_GUARD: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})
"""Errors for a missing guard or a link, which no worker of ours would hold."""


def is_in_use(fs: FileSystem, session_fd: int, guards: Collection[str]) -> bool:
    """Return whether a process holds a session's directory, or one of its guards, locked.

    This locks the directory against work in it until its descriptor is closed; close it at once,
    since other processes may be looking too.
    """
    held = hold(fs, session_fd, guards)
    for fd in held or ():
        close_reader(fs, fd)
    return held is None


def _lock(fs: FileSystem, fd: int) -> bool:
    """Take an exclusive lock; return False if another holds it for longer than a look takes."""
    if try_lock(fs, fd):  # nearly always
        return True
    patience = Patience(MOMENT_S)
    while not try_lock(fs, fd):
        if not patience.pause():
            return False
    return True


def _unlockable(error: OSError) -> OSError:
    """Return the meaning of a failed lock; over NFS, for example, it is EBADF."""
    why = error.strerror or error
    return OSError(error.errno, f"nobody can tell whether it is in use, it can't be locked ({why})")


def hold(fs: FileSystem, session_fd: int, guards: Collection[str]) -> list[int] | None:
    """Lock a session's directory and guards against work in it.

    Returns:
        The descriptors that hold the guards, for the caller to close; None if it is in use.

    Raises:
        OSError: The file system has no such locks.
    """
    held: list[int] = []
    free = False
    try:
        free = _lock(fs, session_fd)
        guarding = _guards(fs, session_fd, guards)
        while free and (fd := next(guarding, None)) is not None:
            held.append(fd)
            free = _lock(fs, fd)
    except OSError as error:
        free = False
        if error.errno != errno.EACCES:  # else a guard that we may not open
            raise _unlockable(error) from error
    finally:
        if not free:
            for fd in held:
                close_reader(fs, fd)
    return held if free else None


def _guards(fs: FileSystem, session_fd: int, guards: Collection[str]) -> Iterator[int]:
    """Open the existing guards, one after another."""
    for name in guards:
        try:
            mode = fs.stat(name, dir_fd=session_fd).st_mode
            if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
                continue  # opening a device may have an effect
            fd = fs.open(name, READ_FLAGS, dir_fd=session_fd)
        except OSError as error:
            if error.errno in _NO_GUARD:
                continue
            raise
        yield fd


def batch_size(guards: int = 0, *, at_once: int = 1, largest: int = 1024) -> int:
    """Return the size of a batch, whose sessions are held open with half of the free descriptors.

    A batch is synced as one, so larger ones wait less for the disk.

    Args:
        guards: How many guards each may have.
        at_once: How many batches are held open at the same time.
        largest: The maximum.
    """
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return largest
    try:
        taken = len(os.listdir("/dev/fd"))
    except OSError:
        taken = soft // 2
    return max(1, min(largest, (soft - taken) // (2 * at_once * (1 + guards))))


@define
class SessionToRemove:
    """A session that is locked and about to be removed.

    Attributes:
        decision: Why it is removed.
        fd: Its directory, locked.
        identity: The device and the inode of that directory.
        descriptors: That one and those of its guards, until it is unlocked.
        record: The record it was dated by, if a later change of that shows in its times.
        hidden: Its name out of sight.
        deleting: Whether its deletion has started, which unlocks it as well.
    """

    decision: Decision
    fd: int
    identity: tuple[int, int]
    descriptors: list[int]
    record: Record | None
    hidden: str = ""
    deleting: bool = False
    candidate: Candidate = field(init=False)
    session_id: str = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.candidate = self.decision.candidate
        self.session_id = self.candidate.session_id

    def unlock(self, fs: FileSystem) -> None:
        """Unlock it; a second call does nothing."""
        descriptors, self.descriptors = self.descriptors, []
        for fd in descriptors:
            close_reader(fs, fd)


def refusal(error: OSError) -> Reason | str:
    """Return why a session can't be opened or renamed: removed, replaced, or an error."""
    if error.errno == errno.ENOENT:
        return Reason.GONE
    return Reason.CHANGED if error.errno in NO_DIRECTORY else reason_of(error)


@frozen
class SessionLocker:
    """Locks sessions of one root for removal.

    Attributes:
        fs: The file system.
        target: The kind of sessions.
        root_fd: The root, open.
        records: The records they were dated by at the time of the decision.
    """

    fs: FileSystem
    target: PruneTarget
    root_fd: int
    records: Mapping[str, Record]

    def lock(self, decision: Decision, now_ns: int) -> SessionToRemove | Reason | str:
        """Lock a session if no process works in it and it is unchanged since the decision.

        Args:
            decision: The decision to remove it.
            now_ns: The time by the clock of the file systems' time stamps.

        Returns:
            The session, or why it stays.
        """
        fs, candidate = self.fs, decision.candidate
        opened: list[int] = []
        try:
            fd = fs.open(candidate.session_id, DIRECTORY_FLAGS, dir_fd=self.root_fd)
            opened.append(fd)
            guards = hold(fs, fd, self.target.guards)
            if guards is None:  # perhaps its removal holds it
                still = has_name(fs, fd, candidate.session_id, dir_fd=self.root_fd)
                return Reason.IN_USE if still else Reason.CHANGED
            opened += guards
            record = self.records.get(candidate.session_id)
            if record is None or not record.is_as_it_was(fs, fd):
                dated = self._dated_alike(fd, candidate)
                if dated is None:
                    return Reason.CHANGED
                record = settled(dated, now_ns)
            status = fs.fstat(fd)
            identity = (status.st_dev, status.st_ino)
            locked = SessionToRemove(decision, fd, identity, opened, record)
            opened = []
        except OSError as error:
            return refusal(error)
        else:
            return locked
        finally:
            for left in opened:
                close_reader(fs, left)

    def was_used(self, one: SessionToRemove) -> bool:
        """Return whether a session changed since it was locked."""
        if one.record is not None and one.record.is_as_it_was(self.fs, one.fd):
            return False
        return self._dated_alike(one.fd, one.candidate) is None

    def _dated_alike(self, fd: int, candidate: Candidate) -> Dated | None:
        """Date a session; return None if it changed since the decision."""
        dated = self.target.date(self.fs, fd, candidate.session_id)
        alike = isinstance(dated, Dated) and (dated.at, dated.version, dated.state) == (
            candidate.dated_at,
            candidate.version,
            candidate.state,
        )
        return dated if isinstance(dated, Dated) and alike else None
