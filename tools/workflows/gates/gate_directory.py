"""The directory that a gate runs in, and the removal of those that killed processes left behind."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from ...base.clock import utc_now
from ...base.event_log import get_logger
from ...base.files.errors import LockTimeout, WriteError
from ...base.files.file_lock import DirectoryLock
from ...base.files.filesystem import DIRECTORY_FLAGS, FileSystem, OsFileSystem
from ...base.files.tree_removal import remove_directory

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
    parent: Path, *, fs: FileSystem | None = None, clock: Callable[[], datetime] = utc_now
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
