"""Temporary folders for one command: created, filled with a workspace, removed with all files.

A later process removes the folders of processes that were killed.
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
from ...base.files.tree_removal import remove_directory
from ...base.files.trees import Entry, TreeTooLarge, copy_tree
from ...workflows.gate_port import GateUnavailable

GIT: Final = ".git"
PREFIX: Final = "agentforge-gate-"

ABANDONED_AFTER: Final = timedelta(minutes=1)
"""The age at which an unlocked directory counts as abandoned; its process locks it at once."""

_log = get_logger("agentforge.gates")


@contextmanager
def gate_directory() -> Iterator[Path]:
    """Yield a new directory in the system's temporary one; it is removed when the block ends.

    It is locked meanwhile, so that `remove_abandoned` in another process skips it.
    """
    with (
        tempfile.TemporaryDirectory(prefix=PREFIX) as scratch,
        DirectoryLock(OsFileSystem(), Path(scratch)),
    ):
        yield Path(scratch)


def remove_abandoned(
    parent: Path, *, fs: FileSystem | None = None, clock: Clock = utc_now
) -> list[Path]:
    """Remove the gate directories of killed processes.

    A directory is removed only if its name is that of a gate directory, it belongs to this user, no
    process has it locked, and it was created more than `ABANDONED_AFTER` ago. A directory that
    can't be removed is logged and left in place.


    Args:
        parent: The directory that contains them.
        fs: The file system; the operating system's if None.
        clock: Gives the time.

    Returns:
        The paths of the removed directories.
    """
    fs = fs if fs is not None else OsFileSystem()
    removed: list[Path] = []
    try:
        names = sorted(name for name in os.listdir(parent) if name.startswith(PREFIX))
    except OSError:
        return removed  # if nothing can be listed, no gate can run either, and that is reported
    for name in names:
        path = parent / name
        try:
            if _removed(fs, path, before=clock() - ABANDONED_AFTER):
                removed.append(path)
        except (FileNotFoundError, LockTimeout):
            continue  # it was removed meanwhile, or is in use
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
    """Yield a new folder and its descriptor; at the end of the block it is removed at any depth.

    The folders of killed processes are removed first.
    """
    remove_abandoned(Path(tempfile.gettempdir()))
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
    """Copy a workspace's files, except the contents of any `.git` in any spelling.

    Args:
        folder: The workspace.
        target_fd: The target folder, open and empty.
        left_out: Returns whether to skip a path.

    Raises:
        GateUnavailable: The workspace is too large.
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
    """Return whether some system takes this name for `.git`."""
    return name.lower() == GIT


def put_file(root_fd: int, path: str, content: bytes, *, mode: int = 0o644) -> None:
    """Write a file of a scratch folder; links are not followed."""
    fs = OsFileSystem()
    *above, name = path.split("/")
    with directory_beneath(fs, root_fd, above, missing=Missing.MADE) as fd:
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(fs.open(name, flags, mode, dir_fd=fd), "wb") as file:
            file.write(content)
