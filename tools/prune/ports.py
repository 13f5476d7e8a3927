"""What the engine asks of a kind of sessions: which are its own, and when each was last used."""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

from attrs import field, frozen

from ..base.files import FileStatus, FileSystem, ReadError
from .domain import Candidate, Decision, Inspection, PruneResult, Reason, Skipped, SkipReason
from .errors import InvalidRetentionPolicy
from .policy import RetentionPolicy

LOCK_TIMEOUT_S: Final = 10.0
"""How long a prune waits for another one of the same root, in seconds."""

_SETTLED_AFTER_NS: Final = 100_000_000
"""Ten times the longest kernel tick; within one tick, a file may change and keep its times."""

_SECOND_NS: Final = 1_000_000_000


@frozen
class Record:
    """The one file that a session is dated by, as it was before it was read.

    Attributes:
        name: Its name in the session's directory.
        status: Its `fstat` result.
    """

    name: str
    status: FileStatus

    def is_settled(self, now_ns: int) -> bool:
        """Return whether any later change of the file will show in its times.

        That is so once its last change is long enough ago, where the file system's times are finer
        than a second; no program can set the time of a change.

        Args:
            now_ns: A time before it was read, in nanoseconds since 1970.
        """
        changed_ns = self.status.st_ctime_ns
        return changed_ns < now_ns - _SETTLED_AFTER_NS and changed_ns % _SECOND_NS != 0

    def is_as_it_was(self, fs: FileSystem, session_fd: int) -> bool:
        """Return whether the name still has the same file, with the same times and size."""
        try:
            status = fs.stat(self.name, dir_fd=session_fd)
        except OSError:
            return False
        before = self.status
        return (
            status.st_ino == before.st_ino
            and status.st_dev == before.st_dev
            and status.st_mode == before.st_mode
            and status.st_size == before.st_size
            and status.st_mtime_ns == before.st_mtime_ns
            and status.st_ctime_ns == before.st_ctime_ns
        )


@frozen(kw_only=True)
class Dated:
    """When a session was last used, or ended.

    Attributes:
        at: The time, aware.
        version: Equal for equal content; a session whose version changed was used meanwhile.
        state: Its state, where its kind has states.
        removable: Whether its kind may be removed in this state.
        record: The file that all of this was read from, if it is a single one; while it is
            unchanged, the session need not be dated again.
    """

    at: datetime
    version: object
    state: str | None = None
    removable: bool = True
    record: Record | None = field(default=None, eq=False)


@frozen
class Undatable:
    """A session that can't be dated, and so is left alone.

    Attributes:
        reason: Why, as one of the known reasons.
        detail: Why, in words.
    """

    reason: SkipReason
    detail: str


_REFUSED: Final = frozenset({errno.ELOOP, errno.ENXIO})
"""System errors for a link and for a socket."""


def undatable(error: ReadError) -> Undatable:
    """Return why an unreadable record gives no date: the system refused, or it is no record."""
    cause = error.cause
    if isinstance(cause, OSError) and cause.errno not in _REFUSED:
        return Undatable(SkipReason.UNREADABLE, str(error))
    return Undatable(SkipReason.CORRUPTED_METADATA, str(error))


def settled(dated: Dated, now_ns: int) -> Record | None:
    """Return the record a session was dated by, if every later change will show in its times.

    Args:
        dated: How it was dated.
        now_ns: A time before it was read, in nanoseconds since 1970.
    """
    record = dated.record
    return record if record is not None and record.is_settled(now_ns) else None


class PruneSource(Protocol):
    """The place of the sessions of one kind, as observers of a prune see it."""

    @property
    def kind(self) -> str:
        """The kind's name: "sandbox", "agent" or "questions"."""
        ...

    @property
    def root(self) -> Path:
        """The directory that holds them, or the store's address instead."""
        ...


@runtime_checkable
class Leaving(Protocol):
    """A kind of sessions that saves something of a session elsewhere before its removal."""

    def leaving(self, fs: FileSystem, session_fd: int, session_id: str) -> None:
        """Save it; the session is open and locked. A failure is logged and keeps no session."""
        ...


@runtime_checkable
class PruneTarget(PruneSource, Protocol):
    """One kind of sessions: directories under one root, each named by its session's id.

    Every implementation must withstand any content of the directories: it opens names only relative
    to the descriptor it is given, follows no link, reads no more than it must, blocks on nothing
    and raises nothing because of their content.
    """

    @property
    def guards(self) -> Sequence[str]:
        """Names in a session's directory that a process at work in it holds an `flock` on.

        The engine also checks for a lock on the directory itself.
        """
        ...

    def owns(self, name: str) -> bool:
        """Return whether a name in the root can be that of a session of this kind."""
        ...

    def stray_age(self, name: str) -> timedelta | None:
        """Return how old a leftover in the root is, by its last change, if its maker is dead.

        This concerns names that begin with a dot, which entries have while they are made or
        deleted; None for any other. A maker whose leftovers count as dead at any age (0) holds an
        `flock` on the root while it works.
        """
        ...

    def date(self, fs: FileSystem, session_fd: int, session_id: str) -> Dated | Undatable | None:
        """Date a session by its directory's content; None if there is no session in it.

        Args:
            fs: The file system.
            session_fd: The session's directory, open.
            session_id: The session.
        """
        ...


class PruneObserver:
    """Observes what a prune finds and does, in the thread that prunes; this one does nothing.

    What it raises leaves the prune unchanged and ends it; the next prune finishes what is out of
    sight by then.
    """

    def started(self, target: PruneSource, policy: RetentionPolicy, *, dry_run: bool) -> None:
        """A prune started."""

    def skipped(self, skipped: Skipped) -> None:
        """A session is left alone, because it can't be dated or is not ours."""

    def candidate(self, decision: Decision, *, age_hours: float) -> None:
        """A session is to be removed."""

    def deleted(self, session_id: str, *, size_bytes: int, trashed: bool) -> None:
        """A session was removed, or is in the trash."""

    def failed(self, session_id: str, *, error: str) -> None:
        """A session was not, or not completely, removed."""

    def completed(self, result: PruneResult) -> None:
        """A prune ended."""


@frozen(kw_only=True)
class Removed:
    """A session that was removed from a store.

    Attributes:
        archive: The archive that was written of it, or None.
        left: The part of it that could not be deleted from this machine, and why; None if all was.
    """

    archive: str | None = None
    left: str | None = None


class StoredSessions(PruneSource, Protocol):
    """Sessions of one kind that a store holds as rows."""

    def inspect(self, *, now: datetime, before: datetime | None) -> Inspection:
        """Return the sessions that were last used, or ended, before a time; all if it is None.

        Each is dated, measured, and checked for pins and for processes that work in it.

        Raises:
            AgentForgeError: The store does not answer.
        """
        ...

    def remove(
        self, candidate: Candidate, line: Mapping[str, object], *, archiver: Archiver | None
    ) -> Removed | Reason:
        """Delete a session with all that is stored of it, and record a line about it.

        In one transaction, under the session's lock: it is inspected again, archived if there is an
        archiver, and deleted.

        Args:
            candidate: The session, as it was when it was decided.
            line: The fields for the audit log.
            archiver: Archives the session first.

        Returns:
            What was removed; or why the session stays, complete.

        Raises:
            AgentForgeError: The store refused; the session stays.
            OSError: It could not be archived; the session stays.
        """
        ...

    def pinned(self) -> frozenset[str]:
        """Return the ids that no prune removes.

        Raises:
            AgentForgeError: The store does not answer.
        """
        ...

    def pin(self, session_id: str) -> bool:
        """Protect a session from every prune; return whether it was not pinned before.

        Raises:
            AgentForgeError: The store does not answer, or the id is invalid.
        """
        ...

    def unpin(self, session_id: str) -> bool:
        """Let prunes remove a session again; return whether it was pinned.

        Raises:
            AgentForgeError: The store does not answer, or the id is invalid.
        """
        ...


class Archiver(Protocol):
    """Saves a copy of a session before it is removed."""

    def archive(self, fs: FileSystem, session_fd: int, candidate: Candidate) -> Path:
        """Write an archive of an open session, and prove that it can be read back.

        Raises:
            OSError: It could not be written or verified; nothing of it is left.
            PruneError: The same, as an error of the archive.
        """
        ...


@frozen(kw_only=True)
class Disposal:
    """How sessions are removed.

    Attributes:
        grace: How long they can be restored; None removes them at once.
        archiver: Archives each of them first; no archives if None.
        audit_path: The audit log; the root's own if None.
        lock_timeout_s: How long to wait for another prune of the same root, in seconds.
        batch: How many sessions are removed between two syncs; if None, as many as the descriptors
            allow.

    Raises:
        InvalidRetentionPolicy: A value is invalid; the error names every fault.
    """

    grace: timedelta | None = None
    archiver: Archiver | None = None
    audit_path: Path | None = None
    lock_timeout_s: float = LOCK_TIMEOUT_S
    batch: int | None = None

    def __attrs_post_init__(self) -> None:
        faults = []
        if self.grace is not None and self.grace < timedelta(0):
            faults.append(f"grace: expected a time of 0 or more, or None, got {self.grace}")
        if not self.lock_timeout_s >= 0:
            faults.append(f"lock_timeout_s: expected 0 or more, got {self.lock_timeout_s!r}")
        if self.batch is not None and not self.batch >= 1:
            faults.append(f"batch: expected 1 or more, or None, got {self.batch!r}")
        if faults:
            raise InvalidRetentionPolicy(faults)
