"""What becomes of sessions that go: deleted, kept in the trash for a time, copied before."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Protocol

from attrs import frozen

from ..durable import FileSystem
from .errors import InvalidPolicy
from .policy import Candidate
from .private_directory import LOCK_TIMEOUT_S


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
        archiver: Keeps a copy of each before; nobody if None.
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
