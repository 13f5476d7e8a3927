"""What other prunes left to be finished: half removed, half restored, and the trash's time over."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import datetime
from functools import partial
from pathlib import Path

from attrs import frozen

from ..durable import FileSystem, try_lock
from ..durable.filesystem import DIRECTORY_FLAGS, close_reader
from .audit_log import AuditLog
from .deleters import Deleters
from .deletion import Deletion
from .environment import Outside, owners_of
from .errors import PruneError, PruneRootUnusable
from .ports import PruneTarget
from .private_directory import (
    COMING,
    GOING,
    PRIVATE,
    TRASH,
    PrivateDirectory,
    going_path,
    hidden_name,
    inode_of,
    open_root,
    refused,
    session_of,
    still_going,
)
from .run_record import Ledger, said
from .trash import Leftovers, TrashRecord, expired_in_trash, forget_record, orphaned_records


def list_strays(
    fs: FileSystem, target: PruneTarget, root_fd: int, hidden: Sequence[str], now: datetime
) -> list[str]:
    """Name what dead processes left half made or half deleted in a root; nothing is changed.

    Args:
        fs: The file system.
        target: The kind of sessions.
        root_fd: The root, open.
        hidden: The names in it that begin with a dot.
        now: The time, aware.
    """
    hidden = [name for name in hidden if target.stray_age(name) is not None]
    if not hidden:
        return []
    with _locked(fs, root_fd) as alone:
        if not alone:
            return []
        return [name for name in sorted(hidden) if is_stray(fs, target, root_fd, name, now)]


def left_half_done(
    target: PruneTarget, *, now: datetime, outside: Outside | None = None
) -> list[str]:
    """Name what dead processes left half made, half deleted or half pruned in a root.

    The next prune of the root finishes it. Nothing is changed, and nothing locked for longer than
    a moment.

    Args:
        target: The kind of sessions and its root.
        now: The time, aware.
        outside: The file system; the real one if None.

    Returns:
        Their names in the root, with those in the private directory.

    Raises:
        PruneRootMissing: There is no such root.
        PruneRootUnusable: It can't be read.
    """
    fs = (outside or Outside()).fs
    root_fd = open_root(fs, target.root)
    try:
        hidden = [name for name in fs.listdir(root_fd) if name.startswith(".")]
        strays = list_strays(fs, target, root_fd, hidden, now)
        going = see_leftovers(fs, target.root, root_fd, now).going
    except OSError as error:
        if isinstance(error, PruneError):
            raise
        raise PruneRootUnusable(target.root, said(error), cause=error) from error
    finally:
        close_reader(fs, root_fd)
    return [*strays, *map(going_path, going)]


def is_stray(fs: FileSystem, target: PruneTarget, root_fd: int, name: str, now: datetime) -> bool:
    """Return whether something was left by a dead process; the root is locked by the caller."""
    age = target.stray_age(name)
    if age is None:
        return False
    try:
        status = fs.stat(name, dir_fd=root_fd)
        if status.st_uid not in owners_of(fs, root_fd):
            return False
        if age and now.timestamp() - status.st_mtime < age.total_seconds():
            return False
        if not stat.S_ISDIR(status.st_mode):
            return True
        fd = fs.open(name, DIRECTORY_FLAGS, dir_fd=root_fd)
        try:
            return try_lock(fs, fd)  # its maker may hold it
        finally:
            close_reader(fs, fd)
    except OSError:
        return False


@contextmanager
def _locked(fs: FileSystem, root_fd: int) -> Iterator[bool]:
    """Hold a root alone if nobody else does: whoever makes or deletes in it locks it meanwhile."""
    fd = fs.open(".", DIRECTORY_FLAGS, dir_fd=root_fd)
    try:
        alone = False
        with suppress(OSError):
            alone = try_lock(fs, fd)
        yield alone
    finally:
        close_reader(fs, fd)


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
        target: The kind of sessions.
        root_fd: The root, open.
        token: A text for names out of sight.
    """

    ledger: Ledger
    private: PrivateDirectory
    audit: AuditLog
    deletion: Deletion
    deleters: Deleters
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
                why = f"the audit log could not be written, so it was kept: {said(error)}"
                for name in names:
                    self.ledger.fail(session_of(name), why)
                return
            out = self._hide_strays(names[:count], going_fd, now)
            names = names[count:]
            jobs = [partial(self.deletion.hidden, going_fd, hidden) for _, hidden in out]
            for (name, hidden), problem in zip(out, self.deleters.all(jobs), strict=True):
                if problem is None:
                    self.ledger.swept(self.audit, name, hidden)
                else:
                    self.ledger.fail(session_of(name), f"{problem}; {still_going(hidden)}")

    def _announce_strays(self, names: Sequence[str]) -> tuple[int, OSError | None]:
        for name in names:
            self.ledger.tell(self.audit, "sweeping", session_of(name))
        return self.audit.announce(len(names))

    def _hide_strays(
        self, names: Sequence[str], going_fd: int, now: datetime
    ) -> list[tuple[str, str]]:
        """Take out of sight what is a stray still; the root is locked for that only."""
        fs = self.deletion.fs
        out = []
        with _locked(fs, self.root_fd) as alone:
            for name in names:
                if not alone or not is_stray(fs, self.target, self.root_fd, name, now):
                    continue
                hidden = hidden_name(name, self.token)
                try:
                    fs.rename(name, hidden, src_dir_fd=self.root_fd, dst_dir_fd=going_fd)
                except OSError as error:
                    self.ledger.fail(session_of(name), said(error))
                else:
                    out.append((name, hidden))
        return out

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
