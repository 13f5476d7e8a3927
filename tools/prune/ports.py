"""What the engine asks of a kind of sessions: whose they are, and when they were last used."""

from __future__ import annotations

import errno
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final, Protocol, runtime_checkable

from attrs import field, frozen

from ..base.files import FileStatus, FileSystem, ReadError
from .domain import Candidate, Decision, Inspection, PruneResult, Reason, Skipped, SkipReason
from .errors import InvalidPolicy
from .policy import RetentionPolicy

LOCK_TIMEOUT_S: Final = 10.0
"""How long a prune waits for another one of the same root, in seconds."""

_SETTLED_AFTER_NS: Final = 100_000_000
"""Ten times the longest tick of a kernel; within one, a file may change and its times may not."""

_SECOND_NS: Final = 1_000_000_000


@frozen
class Record:
    """The one file that a session is dated by, as it was before it was read.

    Attributes:
        name: Its name in the session's directory.
        status: What `fstat` said of it.
    """

    name: str
    status: FileStatus

    def is_settled(self, now_ns: int) -> bool:
        """Return whether any later change of the file shows in its times.

        That is so once its last change is long enough ago, where the file system's times are finer
        than a second; no program can set the time of a change.

        Args:
            now_ns: When it was not read yet, in nanoseconds since 1970.
        """
        changed_ns = self.status.st_ctime_ns
        return changed_ns < now_ns - _SETTLED_AFTER_NS and changed_ns % _SECOND_NS != 0

    def is_as_it_was(self, fs: FileSystem, session_fd: int) -> bool:
        """Return whether the name has the same file still, with the same times and size."""
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
        record: The file that all of this was read from, where that is one; as long as it is as it
            was, a session need not be dated again.
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
"""What the system answers for a link and for a socket."""


def undatable(error: ReadError) -> Undatable:
    """Return why a record that can't be read gives no date: the system refused, or it is none."""
    cause = error.cause
    if isinstance(cause, OSError) and cause.errno not in _REFUSED:
        return Undatable(SkipReason.UNREADABLE, str(error))
    return Undatable(SkipReason.CORRUPTED_METADATA, str(error))


def settled(dated: Dated, now_ns: int) -> Record | None:
    """Return what a session was dated by, if every later change of that shows in its times.

    Args:
        dated: How it was dated.
        now_ns: When it was not read yet, in nanoseconds since 1970.
    """
    record = dated.record
    return record if record is not None and record.is_settled(now_ns) else None


class PruneSource(Protocol):
    """Where sessions of one kind are, as those who observe a prune know it."""

    @property
    def kind(self) -> str:
        """What the sessions are called: "sandbox", "harness" or "questions"."""
        ...

    @property
    def root(self) -> Path:
        """The directory that they are in, or the store's address in its place."""
        ...


@runtime_checkable
class Leaving(Protocol):
    """A kind of sessions of which something is kept elsewhere before they are removed."""

    def leaving(self, fs: FileSystem, session_fd: int, session_id: str) -> None:
        """Keep it; the session is open and locked. What fails is logged, and keeps no session."""
        ...


@runtime_checkable
class PruneTarget(PruneSource, Protocol):
    """One kind of sessions: directories under one root, each named by its session's id.

    Every implementation must withstand any content of the directories: it opens names only
    relative to the descriptor it is given, follows no link, reads no more than it must, blocks on
    nothing and raises nothing for what it finds.
    """

    @property
    def guards(self) -> Sequence[str]:
        """Names in a session's directory that a process at work in it holds an `flock` on.

        The directory itself is asked for as well.
        """
        ...

    def owns(self, name: str) -> bool:
        """Return whether a name in the root is one of a session of this kind."""
        ...

    def stray_age(self, name: str) -> timedelta | None:
        """Return how old something in the root is, by its last change, when its maker is dead.

        For names, beginning with a dot, that things have while they are made or deleted; None for
        any other. Whoever makes one that is dead at any age (0) holds an `flock` on the root
        meanwhile.
        """
        ...

    def date(self, fs: FileSystem, session_fd: int, session_id: str) -> Dated | Undatable | None:
        """Date a session by what its directory holds; None if there is no session in it.

        Args:
            fs: The file system.
            session_fd: The session's directory, open.
            session_id: The session.
        """
        ...


class PruneObserver:
    """Observes what a prune finds and does, in the thread that prunes; this one does nothing.

    What it raises comes out of the prune as it is and ends it: what is out of sight by then is
    finished by the next one.
    """

    def started(self, target: PruneSource, policy: RetentionPolicy, *, dry_run: bool) -> None:
        """A prune began."""

    def skipped(self, skipped: Skipped) -> None:
        """Something is left alone, because it can't be dated or is not ours."""

    def candidate(self, decision: Decision, *, age_hours: float) -> None:
        """A session is to go."""

    def deleted(self, session_id: str, *, size_bytes: int, trashed: bool) -> None:
        """A session was removed, or is in the trash."""

    def failed(self, session_id: str, *, error: str) -> None:
        """A session was not, or not wholly, removed."""

    def completed(self, result: PruneResult) -> None:
        """A prune ended."""


@frozen(kw_only=True)
class Removed:
    """A session that was removed from a store.

    Attributes:
        archive: The archive that was written of it, or None.
        left: What of it could not be deleted from this machine, and why; None where nothing was.
    """

    archive: str | None = None
    left: str | None = None


class StoredSessions(PruneSource, Protocol):
    """Sessions of one kind that a store has as rows."""

    def inspect(self, *, now: datetime, before: datetime | None) -> Inspection:
        """Return the sessions that were last used, or ended, before a time; all if it is None.

        Each is dated, measured, and looked at for pins and for who works in it.

        Raises:
            AgentForgeError: The store does not answer.
        """
        ...

    def remove(
        self, candidate: Candidate, line: Mapping[str, object], *, archiver: Archiver | None
    ) -> Removed | Reason:
        """Delete a session with all that is stored of it, and keep a line about it.

        In one transaction, under the session's lock: it is looked at again, archived if there is
        an archiver, and deleted.

        Args:
            candidate: The session, as it was when it was decided.
            line: What the audit log is to say.
            archiver: Keeps a copy of it before.

        Returns:
            What was removed; or why the session was kept, with all of it.

        Raises:
            AgentForgeError: The store refused; the session was kept.
            OSError: It could not be archived; the session was kept.
        """
        ...

    def pinned(self) -> frozenset[str]:
        """Return the ids that no prune removes.

        Raises:
            AgentForgeError: The store does not answer.
        """
        ...

    def pin(self, session_id: str) -> bool:
        """Keep a session from every prune; return whether it was not pinned before.

        Raises:
            AgentForgeError: The store does not answer, or it is no id.
        """
        ...

    def unpin(self, session_id: str) -> bool:
        """Let prunes remove a session again; return whether it was pinned.

        Raises:
            AgentForgeError: The store does not answer, or it is no id.
        """
        ...


class Archiver(Protocol):
    """Keeps a copy of a session before it goes."""

    def archive(self, fs: FileSystem, session_fd: int, candidate: Candidate) -> Path:
        """Write an archive of an open session, and prove that it can be read back.

        Raises:
            OSError: It could not be written or verified; nothing of it is left.
            PruneError: The same, in the archive's own words.
        """
        ...


@frozen(kw_only=True)
class Disposal:
    """What becomes of sessions that go.

    Attributes:
        grace: How long they can be brought back; None removes them at once.
        archiver: Keeps a copy of each before; none is kept if None.
        audit_path: Where the audit log is; None for the root's own.
        lock_timeout_s: How long to wait for another prune of the same root, in seconds.
        batch: How many sessions go between two syncs; None for what the descriptors allow.

    Raises:
        InvalidPolicy: A value makes no sense; it names every fault.
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
            raise InvalidPolicy(faults)
