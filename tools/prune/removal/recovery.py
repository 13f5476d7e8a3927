"""Finishing what other prunes left: strays, half removed and half restored sessions, old trash."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import partial
from pathlib import Path

from attrs import frozen

from ...base.errors import reason_of
from ...base.files import FileSystem, try_lock
from ...base.files.filesystem import DIRECTORY_FLAGS, opened
from ..errors import PruneRootUnusable
from ..ports import PruneTarget
from .environment import PruneEnvironment, owners_of
from .private_directory import (
    COMING,
    GOING,
    TRASH,
    PrivateDirectory,
    going_path,
    hidden_name,
    inode_of,
    opened_as_it_is,
    root_opened,
    session_of,
    still_going,
)
from .run import RemovalWork
from .trash import TrashRecord, expired_in_trash


@frozen(kw_only=True)
class Leftovers:
    """What others left to be finished, by names out of sight.

    Attributes:
        coming: Sessions that were not completely restored.
        going: Sessions that were not completely removed.
        expired: Sessions whose time in the trash is over, with their trash records.
        strays: Names in the root of what was left half made or half deleted.
    """

    coming: Sequence[str]
    going: Sequence[str]
    expired: Sequence[tuple[str, TrashRecord]]
    strays: Sequence[str] = ()


def list_strays(
    fs: FileSystem, target: PruneTarget, root_fd: int, hidden: Sequence[str], now: datetime
) -> list[str]:
    """List what dead processes left half made or half deleted in a root; nothing is changed.

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
    with locked_root(fs, root_fd) as alone:
        if not alone:
            return []
        return [name for name in sorted(hidden) if is_stray(fs, target, root_fd, name, now)]


def left_half_done(
    target: PruneTarget, *, now: datetime, outside: PruneEnvironment | None = None
) -> list[str]:
    """List what dead processes left half made, half deleted or half pruned in a root.

    The next prune of the root finishes it. Nothing is changed, and nothing locked for longer than a
    moment.

    Args:
        target: The kind of sessions and its root.
        now: The time, aware.
        outside: The file system; the real one if None.

    Returns:
        Their names in the root, and those in the private directory.

    Raises:
        PruneRootMissing: There is no such root.
        PruneRootUnusable: It can't be read.
    """
    fs = (outside or PruneEnvironment()).fs
    with root_opened(fs, target.root) as root_fd:
        hidden = [name for name in fs.listdir(root_fd) if name.startswith(".")]
        strays = list_strays(fs, target, root_fd, hidden, now)
        going = see_leftovers(fs, target.root, root_fd, now).going
    return [*strays, *map(going_path, going)]


def is_stray(fs: FileSystem, target: PruneTarget, root_fd: int, name: str, now: datetime) -> bool:
    """Return whether a dead process left this entry; the caller has locked the root."""
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
        with opened(fs, name, DIRECTORY_FLAGS, dir_fd=root_fd) as fd:
            return try_lock(fs, fd)  # its maker may hold it
    except OSError:
        return False


@contextmanager
def locked_root(fs: FileSystem, root_fd: int) -> Iterator[bool]:
    """Lock a root if no other process holds it: processes that make or delete in it lock it."""
    with opened(fs, ".", DIRECTORY_FLAGS, dir_fd=root_fd) as fd:
        alone = False
        with suppress(OSError):
            alone = try_lock(fs, fd)
        yield alone


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
    try:
        with (
            opened_as_it_is(fs, root, root_fd, GOING) as going_fd,
            opened_as_it_is(fs, root, root_fd, TRASH) as trash_fd,
        ):
            return _listed(fs, None, going_fd, trash_fd, now)
    except OSError as error:
        raise PruneRootUnusable(root, reason_of(error)) from error


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
    )


@frozen(kw_only=True)
class Recovery:
    """Finishes what other prunes left in one root, which is locked.

    Attributes:
        work: The root's audit log, deleters and run.
        private: The root's private directory, locked.
    """

    work: RemovalWork
    private: PrivateDirectory

    def finish(self, left: Leftovers) -> None:
        """Finish everything that is listed."""
        if left.strays:
            self._sweep(left.strays)
        if left.coming:
            coming_fd = self.private.directory(COMING)
            hidden = self.work.deletion.hidden
            self.work.pool.all([partial(hidden, coming_fd, one) for one in left.coming])
        if left.going:
            self._finish_going(left.going)
        if left.expired:
            self._purge(left.expired)

    def _sweep(self, strays: Sequence[str]) -> None:
        """Remove what dead processes left half made or half deleted in the root."""
        work, record = self.work, self.work.run.record
        going_fd = self.private.directory(GOING)
        pieces = work.announced(
            "sweeping", strays, lambda name: {"session_id": session_of(name)}, kept="it was kept"
        )
        for names in pieces:
            out = self._hide_strays(names, going_fd)
            jobs = [partial(work.deletion.hidden, going_fd, hidden) for _, hidden in out]
            for (name, hidden), problem in zip(out, work.pool.all(jobs), strict=True):
                if problem is None:
                    record.swept.append(session_of(name))
                    work.log("swept", session_of(name), hidden=hidden)
                else:
                    record.fail(session_of(name), f"{problem}; {still_going(hidden)}")

    def _hide_strays(self, names: Sequence[str], going_fd: int) -> list[tuple[str, str]]:
        """Take out of sight the names that are still strays; only that needs the root's lock."""
        work, fs = self.work, self.work.deletion.fs
        token = work.run.outside.token()
        out = []
        with locked_root(fs, work.root_fd) as alone:
            for name in names:
                if not alone or not is_stray(fs, work.target, work.root_fd, name, work.run.now):
                    continue
                hidden = hidden_name(name, token)
                try:
                    fs.rename(name, hidden, src_dir_fd=work.root_fd, dst_dir_fd=going_fd)
                except OSError as error:
                    work.run.record.fail(session_of(name), reason_of(error))
                else:
                    out.append((name, hidden))
        return out

    def _finish_going(self, going: Sequence[str]) -> None:
        """Finish the removals that another prune started."""
        work, record = self.work, self.work.run.record
        going_fd = self.private.directory(GOING)
        outcomes = work.pool.all([partial(self._finish_one, going_fd, one) for one in going])
        for hidden, problem in zip(going, outcomes, strict=True):
            if problem is None:
                record.finished.append(session_of(hidden))
                work.log("finished", session_of(hidden), hidden=hidden)
            else:
                record.fail(session_of(hidden), problem)
        if None in outcomes:
            with suppress(OSError):  # a crash may bring them back; they are then finished again
                work.audit.write()
                work.deletion.fs.fsync(going_fd)

    def _finish_one(self, going_fd: int, hidden: str) -> str | None:
        if self._is_stray(going_fd, hidden):
            return (
                f"something else was put in its place while it was removed; it is "
                f"{going_path(hidden)} now, and nothing of it was deleted. Move it where it belongs"
            )
        problem = self.work.deletion.hidden(going_fd, hidden)
        return problem and f"{problem}; {still_going(hidden)}"

    def _is_stray(self, going_fd: int, hidden: str) -> bool:
        """Return whether a name out of sight has something other than what was being removed."""
        inode = inode_of(hidden)
        if inode is None:
            return False
        try:
            status = self.work.deletion.fs.stat(hidden, dir_fd=going_fd)
        except OSError:
            return False
        return status.st_ino != inode and not stat.S_ISLNK(status.st_mode)  # a link holds nothing

    def _purge(self, expired: Sequence[tuple[str, TrashRecord]]) -> None:
        """Delete the sessions whose time in the trash is over."""
        work, record = self.work, self.work.run.record
        trash_fd = self.private.directory(TRASH)
        purged = False
        pieces = work.announced("purging", expired, _about, kept="it stays in the trash")
        for piece in pieces:
            jobs = [partial(work.deletion.hidden, trash_fd, hidden) for hidden, _ in piece]
            outcomes = work.pool.all(jobs)  # frees room for the log
            for (hidden, one), problem in zip(piece, outcomes, strict=True):
                if problem is None:
                    record.purged.append(one.session_id)
                    work.log("purged", one.session_id, hidden=hidden)
                    purged = True
                else:
                    record.fail(one.session_id, f"{problem}; it stays in the trash")
        if purged:
            with suppress(OSError):  # a crash may bring them back; they are then purged again
                work.deletion.fs.fsync(trash_fd)


def _about(expired: tuple[str, TrashRecord]) -> dict[str, object]:
    hidden, record = expired
    return {"session_id": record.session_id, "hidden": hidden, "size_bytes": record.size_bytes}
