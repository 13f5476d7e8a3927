"""Recreate a sandbox session's metadata from the times of the files in its workspace."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import Final, Literal

from attrs import frozen

from ...base.clock import Clock, utc_now
from ...base.files import FileSystem
from ..errors import CorruptedMetadata, UnreadableMetadata
from ..sandbox_logging import EventLogger, SandboxLogger
from .session_directory import (
    DEFAULT_ROOT,
    OS_FILES,
    SessionFileSystem,
    open_session,
    walk_files,
)
from .session_metadata import SessionMetadata, encode_metadata, parse_metadata
from .session_metadata_file import load_metadata, publish_metadata

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TICK: Final = timedelta(microseconds=1)


@frozen(kw_only=True)
class RepairResult:
    """What a repair did, or would do.

    Attributes:
        session_id: The session.
        action: "none" if the metadata was valid, "created" if there was none, "replaced" if it was
            invalid.
        metadata: The metadata the session has now, or would have.
        reason: What was wrong, or None.
        dry_run: True if nothing was written.
    """

    session_id: str
    action: Literal["none", "created", "replaced"]
    metadata: SessionMetadata
    reason: str | None
    dry_run: bool


def repair_session_metadata(
    session_id: str,
    workspace_root: str | os.PathLike[str] = DEFAULT_ROOT,
    dry_run: bool = False,
    logger: SandboxLogger | EventLogger | None = None,
    *,
    clock: Clock = utc_now,
    fs: SessionFileSystem = OS_FILES,
) -> RepairResult:
    """Create a sandbox session's metadata if it has none, or none that is valid.

    The times come from the files in the workspace: the oldest modification becomes the creation,
    the newest the last use; a workspace without files uses its own modification time for both.
    Times in the future count as now. Valid metadata is not changed. The content of an invalid file
    is lost.

    Args:
        session_id: The session.
        workspace_root: The directory the sessions' workspaces are in.
        dry_run: Only return what would be done.
        logger: Logs `session.metadata.repaired` when something was written.
        clock: Returns the time.
        fs: The file system.

    Raises:
        InvalidSessionId: The id cannot name a workspace.
        SessionWorkspaceMissing: There is no such session.
        PathEscapesWorkspace: The workspace's path is a symbolic link.
        CorruptedMetadata: A later release wrote it; this one must not replace it.
        UnreadableMetadata: It could not be read and may be valid; it was not changed.
        FileExistsError: Another process created metadata at the same time; it was not replaced.
        OSError: The system refused; a directory in the file's place is not removed.
    """
    with open_session(session_id, workspace_root, fs=fs) as session:
        reason = None
        action: Literal["created", "replaced"] = "created"
        try:
            content = load_metadata(fs, session.fd, session_id)
            if content is not None:
                return RepairResult(
                    session_id=session_id,
                    action="none",
                    metadata=parse_metadata(session_id, content),
                    reason=None,
                    dry_run=dry_run,
                )
        except CorruptedMetadata as error:
            if error.newer or isinstance(error, UnreadableMetadata):
                raise
            action, reason = "replaced", error.reason
        metadata = _dated_by_files(fs, session.fd, session_id, clock().astimezone(UTC))
        if not dry_run:
            content = encode_metadata(metadata)
            publish_metadata(fs, session, content, replace=action == "replaced")
    if not dry_run:
        SandboxLogger.of(logger).info(
            "session.metadata.repaired", session_id=session_id, action=action
        )
    return RepairResult(
        session_id=session_id, action=action, metadata=metadata, reason=reason, dry_run=dry_run
    )


def _dated_by_files(
    fs: FileSystem, session_fd: int, session_id: str, now: datetime
) -> SessionMetadata:
    stamps = [status.st_mtime_ns for _, status in walk_files(fs, session_fd)]
    stamps = stamps or [fs.fstat(session_fd).st_mtime_ns]
    latest = (now - _EPOCH) // _TICK
    first, last = (min(max(stamp // 1000, 0), latest) for stamp in (min(stamps), max(stamps)))
    return SessionMetadata(
        session_id=session_id, created_at=_EPOCH + first * _TICK, updated_at=_EPOCH + last * _TICK
    )
