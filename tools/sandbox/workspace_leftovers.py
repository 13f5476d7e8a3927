"""Sweeping what dead processes left half made or half deleted in a workspace root."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Final

from ..clock import Clock
from ..durable import DirectoryLock, DurableError, FileSystem, OsFileSystem, sweep_discarded
from ..durable.tree_removal import DISCARDED_PREFIX, is_discarded
from .sandbox_logging import SandboxLogger
from .session_files import ABANDONED_AFTER, INCOMING_PREFIX

EVERY_S: Final = 60.0
"""How often updates of one process look through a root, in seconds; it may hold many sessions."""

_MOST_ROOTS: Final = 1024
_looked_at: dict[Path, float] = {}


def sweep_root(
    fs: FileSystem,
    root_fd: int,
    root: Path,
    *,
    now: datetime,
    token: Callable[[], str],
    log: SandboxLogger,
) -> None:
    """Finish what dead processes left, and tell `session.swept`; what resists stays.

    Args:
        fs: The file system.
        root_fd: The workspace root, open and locked by the caller.
        root: Its path, for messages.
        now: The time, aware.
        token: Gives a fresh random text for names out of sight.
        log: Told what is gone.
    """
    found: list[str] = []
    with suppress(OSError, DurableError):
        abandoned = (now - ABANDONED_AFTER).timestamp()
        for name in fs.listdir(root_fd):
            if is_discarded(name):
                found.append(name)
            elif name.startswith(INCOMING_PREFIX) and (
                fs.stat(name, dir_fd=root_fd).st_mtime < abandoned
            ):
                hidden = f"{DISCARDED_PREFIX}{token()}"
                fs.rename(name, hidden, src_dir_fd=root_fd, dst_dir_fd=root_fd)
                found.append(name)
        left = sweep_discarded(fs, root_fd, parent=root) if found else []
        if len(found) > len(left):
            log.swept(str(root), count=len(found) - len(left), names=sorted(found))


def sweep_now_and_then(
    root: Path,
    *,
    clock: Clock,
    token: Callable[[], str],
    log: SandboxLogger,
    monotonic: Callable[[], float] = time.monotonic,
) -> None:
    """Sweep a workspace root unless this process did within `EVERY_S`, or somebody works in it.

    Args:
        root: The workspace root.
        clock: Gives the time, aware.
        token: Gives a fresh random text for names out of sight.
        log: Told what is gone.
        monotonic: The clock that the interval is read from.
    """
    at = monotonic()
    before = _looked_at.get(root)
    if before is not None and at - before < EVERY_S:
        return
    if len(_looked_at) >= _MOST_ROOTS:
        _looked_at.clear()
    _looked_at[root] = at
    fs = OsFileSystem()
    with (
        suppress(OSError, DurableError),
        DirectoryLock(fs, root, timeout_s=0, follow=True) as lock,
    ):
        sweep_root(fs, lock.fd, root, now=clock(), token=token, log=log)
