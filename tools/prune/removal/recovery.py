"""Finishing what other prunes left: strays, half removed and half restored sessions, old trash."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from functools import partial

from attrs import frozen

from ...base.errors import reason_of
from ..ports import PruneTarget
from ..records.audit_log import AuditLog
from .deletion import Deletion, DeletionPool
from .hidden_names import going_path, hidden_name, inode_of, session_of, still_going
from .leftovers import Leftovers, is_stray, locked_root
from .private_directory import COMING, GOING, TRASH, PrivateDirectory
from .run_record import RunRecord
from .trash import TrashRecord, forget_record


@frozen(kw_only=True)
class Recovery:
    """Finishes what other prunes left in one root, which is locked.

    Attributes:
        record: Takes what came of it.
        private: The root's private directory, locked.
        audit: The audit log.
        deletion: How what is out of sight is deleted.
        pool: Deletes several at the same time.
        target: The kind of sessions.
        root_fd: The root, open.
        token: A text for names out of sight.
    """

    record: RunRecord
    private: PrivateDirectory
    audit: AuditLog
    deletion: Deletion
    pool: DeletionPool
    target: PruneTarget
    root_fd: int
    token: str

    def sweep(self, left: Leftovers, now: datetime) -> None:
        """Remove what dead processes left half made or half deleted in the root."""
        names = list(left.strays)
        if not names:
            return
        going_fd = self.private.directory(GOING)
        while names:
            count, error = self._announce_strays(names)
            if error is not None and not count:
                why = f"the audit log could not be written, so it was kept: {reason_of(error)}"
                for name in names:
                    self.record.fail(session_of(name), why)
                return
            out = self._hide_strays(names[:count], going_fd, now)
            names = names[count:]
            jobs = [partial(self.deletion.hidden, going_fd, hidden) for _, hidden in out]
            for (name, hidden), problem in zip(out, self.pool.all(jobs), strict=True):
                if problem is None:
                    self.record.swept(self.audit, name, hidden)
                else:
                    self.record.fail(session_of(name), f"{problem}; {still_going(hidden)}")

    def _announce_strays(self, names: Sequence[str]) -> tuple[int, OSError | None]:
        for name in names:
            self.record.log(self.audit, "sweeping", session_of(name))
        return self.audit.announce(len(names))

    def _hide_strays(
        self, names: Sequence[str], going_fd: int, now: datetime
    ) -> list[tuple[str, str]]:
        """Take out of sight what is a stray still; the root is locked for that only."""
        fs = self.deletion.fs
        out = []
        with locked_root(fs, self.root_fd) as alone:
            for name in names:
                if not alone or not is_stray(fs, self.target, self.root_fd, name, now):
                    continue
                hidden = hidden_name(name, self.token)
                try:
                    fs.rename(name, hidden, src_dir_fd=self.root_fd, dst_dir_fd=going_fd)
                except OSError as error:
                    self.record.fail(session_of(name), reason_of(error))
                else:
                    out.append((name, hidden))
        return out

    def finish(self, left: Leftovers) -> None:
        """Finish the removals that another prune began, and drop half a restored session."""
        if left.coming:
            coming_fd = self.private.directory(COMING)
            self.pool.all([partial(self.deletion.hidden, coming_fd, one) for one in left.coming])
        if not left.going:
            return
        going_fd = self.private.directory(GOING)
        outcomes = self.pool.all([partial(self._finish, going_fd, one) for one in left.going])
        for hidden, problem in zip(left.going, outcomes, strict=True):
            if problem is None:
                self.record.finished(self.audit, session_of(hidden), hidden)
            else:
                self.record.fail(session_of(hidden), problem)
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
        """Return whether a name out of sight has something else than what was being removed."""
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
                reason = reason_of(error)
                why = f"the audit log could not be written, so it stays in the trash: {reason}"
                for _, record in expired:
                    self.record.fail(record.session_id, why)
                break
            jobs = [partial(self._purge, trash_fd, hidden) for hidden, _ in announced]
            outcomes = self.pool.all(jobs)  # it gives the log room
            for (hidden, record), problem in zip(announced, outcomes, strict=True):
                if problem is None:
                    self.record.purged(self.audit, record.session_id, hidden)
                    gone = True
                else:
                    self.record.fail(record.session_id, f"{problem}; it stays in the trash")
        for hidden in left.orphaned:
            forget_record(fs, trash_fd, hidden)
        if gone:
            with suppress(OSError):  # what a crash brings back is purged again
                fs.fsync(trash_fd)

    def _announced(self, expired: Sequence[tuple[str, TrashRecord]]) -> tuple[int, OSError | None]:
        """Write the audit log before anything happens; without it, nothing does."""
        for hidden, record in expired:
            size = record.size_bytes
            self.record.log(
                self.audit, "purging", record.session_id, hidden=hidden, size_bytes=size
            )
        return self.audit.announce(len(expired))

    def _purge(self, trash_fd: int, hidden: str) -> str | None:
        problem = self.deletion.hidden(trash_fd, hidden)
        if problem is None:
            forget_record(self.deletion.fs, trash_fd, hidden)
        return problem
