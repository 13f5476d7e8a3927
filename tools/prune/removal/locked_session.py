"""Sessions locked to be removed: each as it was when that was decided, and still the same later."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from attrs import define, field, frozen

from ...base.errors import reason_of
from ...base.files import FileSystem
from ...base.files.file_lock import has_name
from ...base.files.filesystem import DIRECTORY_FLAGS, close_reader
from ..domain import Candidate, Decision, Reason
from ..ports import Dated, PruneTarget, Record, settled
from .deletion import NO_DIRECTORY
from .session_lock import hold

if TYPE_CHECKING:
    from .inspection import InspectionCache


@define
class LockedSession:
    """A session that is locked and about to go.

    Attributes:
        decision: Why it goes.
        fd: Its directory, locked.
        identity: The device and the inode of that directory.
        descriptors: That one and those of its guards, until it is unlocked.
        record: What it was dated by, where a later change of that shows in its times.
        hidden: Its name out of sight.
        deleting: Whether its deletion has begun, which unlocks it as well.
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
        """Unlock it; does nothing the second time."""
        descriptors, self.descriptors = self.descriptors, []
        for fd in descriptors:
            close_reader(fs, fd)


def refusal(error: OSError) -> Reason | str:
    """Return why a session can't be opened or renamed: it was removed or replaced, or else."""
    if error.errno == errno.ENOENT:
        return Reason.GONE
    return Reason.CHANGED if error.errno in NO_DIRECTORY else reason_of(error)


@frozen
class SessionLocker:
    """Locks sessions of one root that are to go.

    Attributes:
        fs: The file system.
        target: The kind of sessions.
        root_fd: The root, open.
        cache: What was found in them when it was decided.
    """

    fs: FileSystem
    target: PruneTarget
    root_fd: int
    cache: InspectionCache

    def lock(self, decision: Decision, now_ns: int) -> LockedSession | Reason | str:
        """Lock a session if no process works in it and it is as it was when it was decided.

        Args:
            decision: What was decided.
            now_ns: The time by the clock that file systems stamp changes with.

        Returns:
            The session, or why it stays.
        """
        fs, candidate = self.fs, decision.candidate
        opened: list[int] = []
        try:
            fd = fs.open(candidate.session_id, DIRECTORY_FLAGS, dir_fd=self.root_fd)
            opened.append(fd)
            guards = hold(fs, fd, self.target.guards)
            if guards is None:  # by its removal, perhaps
                still = has_name(fs, fd, candidate.session_id, dir_fd=self.root_fd)
                return Reason.IN_USE if still else Reason.CHANGED
            opened += guards
            record = self.cache.records.get(candidate.session_id)
            if record is None or not record.is_as_it_was(fs, fd):
                dated = self._dated_alike(fd, candidate)
                if dated is None:
                    return Reason.CHANGED
                record = settled(dated, now_ns)
            status = fs.fstat(fd)
            identity = (status.st_dev, status.st_ino)
            locked = LockedSession(decision, fd, identity, opened, record)
            opened = []
        except OSError as error:
            return refusal(error)
        else:
            return locked
        finally:
            for left in opened:
                close_reader(fs, left)

    def was_used(self, one: LockedSession) -> bool:
        """Return whether a session is not as it was when it was locked."""
        if one.record is not None and one.record.is_as_it_was(self.fs, one.fd):
            return False
        return self._dated_alike(one.fd, one.candidate) is None

    def _dated_alike(self, fd: int, candidate: Candidate) -> Dated | None:
        """Date a session; return None unless it is dated as it was when it was decided."""
        dated = self.target.date(self.fs, fd, candidate.session_id)
        alike = isinstance(dated, Dated) and (dated.at, dated.version, dated.state) == (
            candidate.dated_at,
            candidate.version,
            candidate.state,
        )
        return dated if isinstance(dated, Dated) and alike else None
