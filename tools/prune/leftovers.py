"""What other prunes left to be finished: half removed, half restored, and the trash's time over."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from datetime import datetime
from functools import partial
from pathlib import Path

from attrs import frozen

from tools.durable import FileSystem
from tools.durable.filesystem import DIRECTORY_FLAGS, close_reader
from tools.prune.audit import AuditLog
from tools.prune.deleters import Deleters
from tools.prune.deletion import Deletion
from tools.prune.errors import PruneRootUnusable
from tools.prune.ledger import Ledger, said
from tools.prune.private import (
    COMING,
    GOING,
    PRIVATE,
    TRASH,
    PrivateDirectory,
    going_path,
    inode_of,
    refused,
    session_of,
    still_going,
)
from tools.prune.trash import TrashRecord, expired_in_trash, forget_record, orphaned_records


@frozen(kw_only=True)
class Leftovers:
    """What others left to be finished, by names out of sight.

    Attributes:
        coming: Sessions that were not all restored.
        going: Sessions that were not all removed.
        expired: What was in the trash for its time, with its records.
        orphaned: Records in the trash without their session.
    """

    coming: Sequence[str]
    going: Sequence[str]
    expired: Sequence[tuple[str, TrashRecord]]
    orphaned: Sequence[str]


def list_leftovers(fs: FileSystem, private: PrivateDirectory, now: datetime) -> Leftovers:
    """List what others left to be finished; nothing is changed.

    Raises:
        OSError: A directory can't be listed.
        PruneRootUnusable: Something else has its name.
    """
    coming_fd, going_fd, trash_fd = map(private.existing, (COMING, GOING, TRASH))
    return _listed(fs, coming_fd, going_fd, trash_fd, now)


def see_leftovers(fs: FileSystem, root: Path, root_fd: int, now: datetime) -> Leftovers:
    """List what others left to be finished in a root; nothing is made or locked.

    Raises:
        OSError: A directory can't be listed.
        PruneRootUnusable: One can't be opened, or something else has its name.
    """
    with ExitStack() as opened:

        def existing(name: str, parent_fd: int | None) -> int | None:
            if parent_fd is None:
                return None
            try:
                fd = fs.open(name, DIRECTORY_FLAGS, dir_fd=parent_fd)
            except FileNotFoundError:
                return None
            except OSError as error:
                path = root / PRIVATE if name == PRIVATE else root / PRIVATE / name
                raise PruneRootUnusable(root, refused(path, error)) from error
            opened.callback(close_reader, fs, fd)
            return fd

        private_fd = existing(PRIVATE, root_fd)
        going_fd, trash_fd = existing(GOING, private_fd), existing(TRASH, private_fd)
        return _listed(fs, None, going_fd, trash_fd, now)


def _listed(
    fs: FileSystem,
    coming_fd: int | None,
    going_fd: int | None,
    trash_fd: int | None,
    now: datetime,
) -> Leftovers:
    return Leftovers(
        coming=() if coming_fd is None else fs.listdir(coming_fd),
        going=() if going_fd is None else sorted(fs.listdir(going_fd)),
        expired=() if trash_fd is None else list(expired_in_trash(fs, trash_fd, now=now)),
        orphaned=() if trash_fd is None else orphaned_records(fs, trash_fd),
    )


@frozen(kw_only=True)
class Finisher:
    """Finishes what others left.

    Attributes:
        ledger: Is told what came of it.
        private: The root's private directory, locked.
        audit: The audit log.
        deletion: How what is out of sight is deleted.
        deleters: Delete at the same time.
    """

    ledger: Ledger
    private: PrivateDirectory
    audit: AuditLog
    deletion: Deletion
    deleters: Deleters

    def finish(self, left: Leftovers) -> None:
        """Finish the removals that another prune began, and drop half a restored session."""
        if left.coming:
            coming_fd = self.private.directory(COMING)
            self.deleters.all(
                [partial(self.deletion.hidden, coming_fd, one) for one in left.coming]
            )
        if not left.going:
            return
        going_fd = self.private.directory(GOING)
        outcomes = self.deleters.all([partial(self._finish, going_fd, one) for one in left.going])
        for hidden, problem in zip(left.going, outcomes, strict=True):
            if problem is None:
                self.ledger.finished(self.audit, session_of(hidden), hidden)
            else:
                self.ledger.fail(session_of(hidden), problem)
        if None in outcomes:
            with suppress(OSError):  # what a crash brings back is finished again
                self.audit.write()
                self.deletion.fs.fsync(going_fd)

    def _finish(self, going_fd: int, hidden: str) -> str | None:
        if self._is_stray(going_fd, hidden):
            return (
                f"something else was put in its place while it was removed; it is "
                f"{going_path(hidden)} now, and nothing of it was deleted. Move it where it belongs"
            )
        problem = self.deletion.hidden(going_fd, hidden)
        return problem and f"{problem}; {still_going(hidden)}"

    def _is_stray(self, going_fd: int, hidden: str) -> bool:
        """Tell whether a name out of sight has something else than what was being removed."""
        inode = inode_of(hidden)
        if inode is None:
            return False
        try:
            status = self.deletion.fs.stat(hidden, dir_fd=going_fd)
        except OSError:
            return False
        return status.st_ino != inode and not stat.S_ISLNK(status.st_mode)  # a link holds nothing

    def purge(self, left: Leftovers) -> None:
        """Remove what was in the trash for its time."""
        if not left.expired and not left.orphaned:
            return
        fs, trash_fd = self.deletion.fs, self.private.directory(TRASH)
        gone = False
        expired = left.expired
        while expired:
            count, error = self._announced(expired)
            announced, expired = expired[:count], expired[count:]
            if error is not None and not announced:
                why = f"the audit log could not be written, so it stays in the trash: {said(error)}"
                for _, record in expired:
                    self.ledger.fail(record.session_id, why)
                break
            jobs = [partial(self._purge, trash_fd, hidden) for hidden, _ in announced]
            outcomes = self.deleters.all(jobs)  # it gives the log room
            for (hidden, record), problem in zip(announced, outcomes, strict=True):
                if problem is None:
                    self.ledger.purged(self.audit, record.session_id, hidden)
                    gone = True
                else:
                    self.ledger.fail(record.session_id, f"{problem}; it stays in the trash")
        for hidden in left.orphaned:
            forget_record(fs, trash_fd, hidden)
        if gone:
            with suppress(OSError):  # what a crash brings back is purged again
                fs.fsync(trash_fd)

    def _announced(self, expired: Sequence[tuple[str, TrashRecord]]) -> tuple[int, OSError | None]:
        """Write the audit log before anything happens; without it, nothing does."""
        for hidden, record in expired:
            size = record.size_bytes
            self.ledger.tell(
                self.audit, "purging", record.session_id, hidden=hidden, size_bytes=size
            )
        return self.audit.announce(len(expired))

    def _purge(self, trash_fd: int, hidden: str) -> str | None:
        problem = self.deletion.hidden(trash_fd, hidden)
        if problem is None:
            forget_record(self.deletion.fs, trash_fd, hidden)
        return problem
