"""Folders for one command: made fresh, filled with a workspace's files, and removed with all.

Those that killed processes left behind are removed by later ones.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from ...base.clock import Clock, utc_now
from ...base.event_log import get_logger
from ...base.files import OsFileSystem, empty_directory
from ...base.files.errors import LockTimeout, WriteError
from ...base.files.file_lock import DirectoryLock
from ...base.files.filesystem import DIRECTORY_FLAGS, FileSystem
from ...base.files.safe_path import Missing, directory_beneath
from ...base.files.tree_copy import TreeTooLarge, copy_tree
from ...base.files.tree_removal import remove_directory
from ...base.files.tree_walk import Entry
from ...workflows.gate_port import GateUnavailable

GIT: Final = ".git"
PREFIX: Final = "agentforge-gate-"

ABANDONED_AFTER: Final = timedelta(hours=1)
"""When a directory that no process locks counts as abandoned; its process locks it at once."""

_log = get_logger("agentforge.gates")


@contextmanager
def gate_directory() -> Iterator[Path]:
    """A new directory in the system's temporary one; it is removed when the block is left.

    It is locked meanwhile, so `remove_abandoned` of another process leaves it alone.
    """
    with (
        tempfile.TemporaryDirectory(prefix=PREFIX) as scratch,
        DirectoryLock(OsFileSystem(), Path(scratch)),
    ):
        yield Path(scratch)


def remove_abandoned(
    parent: Path, *, fs: FileSystem | None = None, clock: Clock = utc_now
) -> list[Path]:
    """Remove the directories of gates whose process was killed.

    Only a directory of this user with such a name goes that no process holds locked and that was
    made more than `ABANDONED_AFTER` ago. What can't be removed is logged and left.

    Args:
        parent: The directory that they are in.
        fs: The file system; the operating system's if None.
        clock: Gives the time.

    Returns:
        The paths of those that are removed.
    """
    fs = fs if fs is not None else OsFileSystem()
    removed: list[Path] = []
    try:
        names = sorted(name for name in os.listdir(parent) if name.startswith(PREFIX))
    except OSError:
        return removed  # where nothing can be listed, no gate can be run either, and that says so
    for name in names:
        path = parent / name
        try:
            if _removed(fs, path, before=clock() - ABANDONED_AFTER):
                removed.append(path)
        except (FileNotFoundError, LockTimeout):
            continue  # it ended, or is at work
        except (OSError, WriteError) as error:
            _log.warning("gates.leftover_kept", path=str(path), error=str(error))
    return removed


def _removed(fs: FileSystem, path: Path, *, before: datetime) -> bool:
    with ExitStack() as held:
        fd = held.enter_context(DirectoryLock(fs, path, timeout_s=0)).fd
        seen = fs.fstat(fd)
        if seen.st_uid != os.geteuid() or datetime.fromtimestamp(seen.st_mtime, UTC) > before:
            return False
        parent_fd = fs.open(str(path.parent), DIRECTORY_FLAGS & ~os.O_NOFOLLOW)
        held.callback(fs.close, parent_fd)
        left = remove_directory(fs, parent_fd, path.name, fd)
        if left:
            _log.warning("gates.leftover_kept", path=str(path), error=str(left[0].cause))
        return not left


@contextmanager
def scratch_folder() -> Iterator[tuple[Path, int]]:
    """A new folder, with its descriptor; it is removed when the block is left, however deep it is.

    That of a process that was killed is removed by a later one.
    """
    with gate_directory() as scratch:
        workspace = scratch / "workspace"
        workspace.mkdir(mode=0o700)
        root = os.open(workspace, DIRECTORY_FLAGS)
        try:
            yield workspace, root
        finally:
            try:
                empty_directory(OsFileSystem(), root)
            finally:
                os.close(root)


def copy_workspace(
    folder: Path, target_fd: int, *, left_out: Callable[[str], bool] = lambda _path: False
) -> None:
    """Copy a workspace's files, but for what a `.git` of any spelling holds.

    Args:
        folder: The workspace.
        target_fd: The folder that takes them, open and empty.
        left_out: Whether a path is passed over.

    Raises:
        GateUnavailable: It holds too much.
        OSError: The system refused.
    """

    def passed_over(entry: Entry) -> bool:
        return is_git(entry.name) or left_out("/".join(entry.names))

    source = os.open(folder, DIRECTORY_FLAGS)
    try:
        copy_tree(OsFileSystem(), source, target_fd, left_out=passed_over)
    except TreeTooLarge as error:
        raise GateUnavailable(f"the workspace {folder} {error.problem}") from error
    finally:
        os.close(source)


def is_git(name: str) -> bool:
    """Return whether a name is git's own, in a spelling that some system takes for it."""
    return name.lower() == GIT


def put_file(root_fd: int, path: str, content: bytes) -> None:
    """Write a file of a scratch folder, over no link."""
    fs = OsFileSystem()
    *above, name = path.split("/")
    with directory_beneath(fs, root_fd, above, missing=Missing.MADE) as fd:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(fs.open(name, flags, 0o644, dir_fd=fd), "wb") as file:
            file.write(content)
