"""Delete workspaces of sandbox sessions, and leftovers of processes that died half-way."""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from datetime import datetime
from pathlib import Path
from typing import Final

from ...base.clock import Clock, utc_now
from ...base.files import (
    DirectoryLock,
    DurableError,
    FileSystem,
    OsFileSystem,
    discard_tree,
    sweep_discarded,
)
from ...base.files.tree_removal import DISCARDED_PREFIX, is_discarded
from ..errors import PathEscapesWorkspace, WorkspaceError
from ..sandbox_logging import EventLogger, SandboxLogger
from ..workspaces.workspace_lock import claim
from .session_directory import (
    ABANDONED_AFTER,
    DEFAULT_ROOT,
    INCOMING_PREFIX,
    LOCK_TIMEOUT_S,
    OS_FILES,
    SessionFileSystem,
    random_token,
)
from .session_paths import validate_session_id

_GONE: Final = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ELOOP})

EVERY_S: Final = 60.0
"""How often updates of one process sweep a root, in seconds; it may have many sessions."""

_MOST_ROOTS: Final = 1024
_looked_at: dict[Path, float] = {}


def delete_session_workspace(
    session_id: str,
    workspace_root: str | os.PathLike[str] = DEFAULT_ROOT,
    logger: SandboxLogger | EventLogger | None = None,
    *,
    busy_timeout_s: float = LOCK_TIMEOUT_S,
    clock: Clock = utc_now,
    fs: SessionFileSystem = OS_FILES,
) -> None:
    """Delete a sandbox session's workspace and its content; do nothing without one.

    Waits for an execution running in the workspace, in this process or another, and blocks new
    ones. The workspace is first renamed out of sight, so it never appears half-deleted. Links in it
    are deleted, never followed. Also sweeps the workspace root of leftovers from processes that
    died half-way.

    Args:
        session_id: The session.
        workspace_root: The directory the sessions' workspaces are in.
        logger: Logs `session.deleted` if there was a workspace, and `session.swept`.
        busy_timeout_s: How long to wait for an execution, in seconds; 0 does not wait.
        clock: Returns the time.
        fs: The file system.

    Raises:
        InvalidSessionId: The id cannot name a workspace; the file system was not accessed.
        PathEscapesWorkspace: The workspace's path is a symbolic link; it was not removed.
        NotADirectoryError: The path is a file; it was not removed.
        WorkspaceBusy: An execution ran in it for the full wait; nothing was deleted.
        WorkspaceError: It cannot be opened or locked; nothing was deleted.
        DurableError: It could not be deleted, or only in part; the error says which.
    """
    validate_session_id(session_id)
    log = SandboxLogger.of(logger)
    root = Path(workspace_root)
    existed: bool | None = None
    while existed is None:
        with ExitStack() as held:
            claimed = _claim_existing(held, fs, root / session_id, busy_timeout_s)
            lock = DirectoryLock(fs, root, timeout_s=LOCK_TIMEOUT_S, follow=True)
            try:
                held.enter_context(lock)
            except FileNotFoundError:
                return
            existed = _discard(fs, lock.fd, root, session_id, claimed)
            if existed is not None:
                sweep_root(fs, lock.fd, root, now=clock(), log=log)
    if existed:
        log.info("session.deleted", session_id=session_id)


def _claim_existing(
    held: ExitStack, fs: FileSystem, workspace: Path, timeout_s: float
) -> os.stat_result | None:
    """Claim a workspace for deletion and return its status; None if there is none."""
    try:
        if not stat.S_ISDIR(fs.stat(str(workspace)).st_mode):
            return None
    except OSError:
        return None  # reported once the root is locked
    try:
        fd = held.enter_context(claim(workspace, timeout_s=timeout_s))
    except WorkspaceError as error:
        if isinstance(error.__cause__, OSError) and error.__cause__.errno in _GONE:
            return None
        raise
    return None if fd is None else os.fstat(fd)


def _discard(
    fs: FileSystem,
    root_fd: int,
    root: Path,
    session_id: str,
    claimed: os.stat_result | None,
) -> bool | None:
    """Delete the workspace; return whether there was one, None if it is not the claimed one."""
    try:
        found = fs.stat(session_id, dir_fd=root_fd)
    except FileNotFoundError:
        return False
    mode = found.st_mode
    if stat.S_ISLNK(mode):
        raise PathEscapesWorkspace(session_id, "a symbolic link stands in the workspace's place")
    if not stat.S_ISDIR(mode):
        raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), session_id)
    if claimed is None or not os.path.samestat(found, claimed):
        return None
    discard_tree(fs, root_fd, session_id, parent=root, token=random_token)
    return True


def sweep_root(
    fs: FileSystem,
    root_fd: int,
    root: Path,
    *,
    now: datetime,
    log: SandboxLogger,
) -> None:
    """Delete what dead processes left, and log `session.swept`; skip what cannot be deleted.

    Args:
        fs: The file system.
        root_fd: The workspace root, open and locked by the caller.
        root: Its path, for messages.
        now: The time, with a zone.
        log: Logs `session.swept`.
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
                hidden = f"{DISCARDED_PREFIX}{random_token()}"
                fs.rename(name, hidden, src_dir_fd=root_fd, dst_dir_fd=root_fd)
                found.append(name)
        left = sweep_discarded(fs, root_fd, parent=root) if found else []
        if len(found) > len(left):
            log.info(
                "session.swept",
                workspace_root=str(root),
                count=len(found) - len(left),
                names=sorted(found),
            )


def sweep_now_and_then(
    root: Path,
    *,
    clock: Clock,
    log: SandboxLogger,
    monotonic: Callable[[], float] = time.monotonic,
) -> None:
    """Sweep a root unless this process did within `EVERY_S`, or its lock is taken.

    Args:
        root: The workspace root.
        clock: Returns the time, with a zone.
        log: Logs `session.swept`.
        monotonic: The clock for the interval.
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
        sweep_root(fs, lock.fd, root, now=clock(), log=log)
