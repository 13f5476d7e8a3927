"""What other prunes left to be finished: half removed, half restored, and the trash's time over."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

from attrs import frozen

from ...base.errors import reason_of
from ...base.files import FileSystem, try_lock
from ...base.files.filesystem import DIRECTORY_FLAGS, close_reader
from ..errors import PruneRootUnusable
from ..ports import PruneTarget
from .environment import Outside, owners_of
from .hidden_names import going_path
from .private_directory import COMING, GOING, TRASH, PrivateDirectory, opened_as_it_is, root_opened
from .trash import TrashRecord, expired_in_trash, orphaned_records


@frozen(kw_only=True)
class Leftovers:
    """What others left to be finished, by names out of sight.

    Attributes:
        coming: Sessions that were not all restored.
        going: Sessions that were not all removed.
        expired: What was in the trash for its time, with its records.
        orphaned: Records in the trash without their session.
        strays: Names in the root of what was left half made or half deleted.
    """

    coming: Sequence[str]
    going: Sequence[str]
    expired: Sequence[tuple[str, TrashRecord]]
    orphaned: Sequence[str]
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
    target: PruneTarget, *, now: datetime, outside: Outside | None = None
) -> list[str]:
    """List what dead processes left half made, half deleted or half pruned in a root.

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
    with root_opened(fs, target.root) as root_fd:
        hidden = [name for name in fs.listdir(root_fd) if name.startswith(".")]
        strays = list_strays(fs, target, root_fd, hidden, now)
        going = see_leftovers(fs, target.root, root_fd, now).going
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
def locked_root(fs: FileSystem, root_fd: int) -> Iterator[bool]:
    """Lock a root if no other process holds it: those that make or delete in it lock it."""
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
        orphaned=() if trash_fd is None else orphaned_records(fs, trash_fd),
    )
