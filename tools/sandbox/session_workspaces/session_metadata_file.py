"""When a sandbox session was created and last used: `.metadata.json` in its workspace.

The file is advisory: nothing fails because it is missing or invalid. It is replaced atomically but
not synced. It is the host's alone: a guest does not see it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from ...base.clock import Clock, utc_now
from ...base.files import (
    DurableError,
    FileStatus,
    FileSystem,
    Patience,
    ReadError,
    read_regular_file,
    try_lock,
    unlock,
)
from ...base.files.file_lock import has_name
from ...base.files.filesystem import READ_FLAGS
from ..errors import CorruptedMetadata, SandboxError, SessionWorkspaceMissing, UnreadableMetadata
from ..guest_paths import HIDDEN_NAME
from ..sandbox_logging import EventLogger, SandboxLogger
from .session_directory import (
    DEFAULT_ROOT,
    OS_FILES,
    SessionDirectory,
    SessionFileSystem,
    close_quietly,
    open_session,
    stage_file,
    write_new_file,
)
from .session_metadata import (
    MAX_METADATA_BYTES,
    MOST_AS_WRITTEN,
    ExecutionRecord,
    SessionMetadata,
    decode_fields,
    encode_fields,
    encode_metadata,
    format_time,
    interpret_fields,
    parse_metadata,
    parse_times_as_written,
)
from .session_paths import validate_session_id

METADATA_NAME: Final = HIDDEN_NAME
"""The host's own file at the top of a sandbox session's workspace."""

UPDATE_LOCK_TIMEOUT_S: Final = 1.0
"""How long an update waits for another of the same session, in seconds."""

_FAILED: Final = "session.metadata.failed"
_NO_FILE: Final = frozenset({errno.ELOOP, errno.ENXIO})
"""The system's errors for a link and for a socket in the file's place."""
_TICK: Final = timedelta(microseconds=1)


def read_times(
    fs: FileSystem, session_fd: int, session_id: str
) -> tuple[datetime, datetime, FileStatus | None] | None:
    """Read when a session was created and last used, from its open workspace.

    A file exactly as written here is read without a parser: a scan of ten thousand sessions reads
    ten thousand files.

    Args:
        fs: The file system.
        session_fd: The workspace, open.
        session_id: The session, a UUID.

    Returns:
        `created_at`, `updated_at`, and, of a file exactly as written here, its `fstat` result from
        before the read; None if there is no metadata.

    Raises:
        CorruptedMetadata: The file exists but is invalid or can't be read.
    """
    try:
        fd = fs.open(METADATA_NAME, READ_FLAGS, dir_fd=session_fd)
        try:
            status = fs.fstat(fd)
            text = fs.pread(fd, MOST_AS_WRITTEN, 0).decode("ascii")
        finally:
            close_quietly(fs, fd)
        found = parse_times_as_written(session_id, text)
        if found is not None:
            return (*found, status)
    except (OSError, ValueError):
        pass  # the full read below reports what is there
    content = load_metadata(fs, session_fd, session_id)
    if content is None:
        return None
    metadata = parse_metadata(session_id, content)
    return metadata.created_at, metadata.updated_at, None


def load_metadata(fs: FileSystem, session_fd: int, session_id: str) -> bytes | None:
    """Read the metadata file of an open workspace; None if there is none.

    Raises:
        CorruptedMetadata: It is not a regular file, or too large.
        UnreadableMetadata: The system refused to read it.
    """
    try:
        return read_regular_file(
            fs,
            METADATA_NAME,
            path=Path(METADATA_NAME),
            max_bytes=MAX_METADATA_BYTES,
            directory_fd=session_fd,
        )
    except ReadError as error:
        cause = error.cause
        if isinstance(cause, OSError) and cause.errno not in _NO_FILE:
            raise UnreadableMetadata(session_id, cause) from error
        raise CorruptedMetadata(session_id, str(error)) from None


def read_session_metadata(
    session_id: str,
    workspace_root: str | os.PathLike[str] = DEFAULT_ROOT,
    *,
    fs: SessionFileSystem = OS_FILES,
) -> SessionMetadata | None:
    """Read a sandbox session's metadata.

    Args:
        session_id: The session.
        workspace_root: The directory the sessions' workspaces are in.
        fs: The file system.

    Returns:
        The metadata, or None for a session that has none.

    Raises:
        InvalidSessionId: The id cannot name a workspace.
        SessionWorkspaceMissing: There is no such session.
        PathEscapesWorkspace: The workspace's path is a symbolic link.
        CorruptedMetadata: The file exists but is invalid or cannot be read.
    """
    with open_session(session_id, workspace_root, fs=fs) as session:
        content = load_metadata(fs, session.fd, session_id)
    return None if content is None else parse_metadata(session_id, content)


def create_metadata(
    fs: SessionFileSystem, directory_fd: int, session_id: str, *, now: datetime
) -> SessionMetadata:
    """Write a new session's metadata into its workspace, which has no name yet.

    Raises:
        OSError: The system's error; there is no file then.
    """
    metadata = SessionMetadata(session_id=session_id, created_at=now, updated_at=now)
    write_new_file(fs, directory_fd, METADATA_NAME, encode_metadata(metadata))
    return metadata


def touch_session_metadata(
    session_id: str,
    workspace_root: str | os.PathLike[str],
    *,
    logger: SandboxLogger | EventLogger | None = None,
    clock: Clock = utc_now,
    fs: SessionFileSystem = OS_FILES,
    lock_timeout_s: float = UPDATE_LOCK_TIMEOUT_S,
    execution: ExecutionRecord | None = None,
) -> datetime | None:
    """Advance a sandbox session's `updated_at`; every other field keeps its value.

    The new time is later than the old one, whatever the clock says. Updates of one session wait for
    each other. Invalid metadata and system errors are logged, never raised. A session without
    metadata is silently skipped, and gets none.

    Args:
        session_id: The session.
        workspace_root: The directory the sessions' workspaces are in.
        logger: Logs `session.metadata.updated`, or a warning.
        clock: Returns the time.
        fs: The file system.
        lock_timeout_s: How long to wait for another update, in seconds.
        execution: Added to `execution_count`, `total_fuel_consumed` and `last_error`; a failed one
            leaves `updated_at` unchanged. None counts nothing.

    Returns:
        The new time (or the old one, after a failed execution), or None if nothing was written.

    Raises:
        InvalidSessionId: The id cannot name a workspace.
    """
    validate_session_id(session_id)
    log = SandboxLogger.of(logger)
    try:
        moment = _touch(session_id, Path(workspace_root), clock, fs, lock_timeout_s, execution)
    except UnreadableMetadata as error:
        log.warning(_FAILED, session_id=session_id, operation="update", reason=error.reason)
        return None
    except CorruptedMetadata as error:
        log.warning("session.metadata.corrupted", session_id=session_id, reason=error.reason)
        return None
    except SessionWorkspaceMissing:
        return None
    except (OSError, DurableError, SandboxError, OverflowError, RecursionError) as error:
        log.warning(_FAILED, session_id=session_id, operation="update", reason=_words(error))
        return None
    if moment is not None:
        log.info("session.metadata.updated", session_id=session_id, updated_at=format_time(moment))
    return moment


def _touch(
    session_id: str,
    root: Path,
    clock: Clock,
    fs: SessionFileSystem,
    lock_timeout_s: float,
    execution: ExecutionRecord | None,
) -> datetime | None:
    with (
        open_session(session_id, root, fs=fs) as session,
        _updating(fs, session.fd, lock_timeout_s),
    ):
        content = load_metadata(fs, session.fd, session_id)
        if content is None:
            return None
        fields = decode_fields(session_id, content)
        known = interpret_fields(session_id, fields)
        moment = known.updated_at
        if execution is None or execution.success:
            moment = max(clock().astimezone(UTC), known.updated_at + _TICK, known.created_at)
            fields["updated_at"] = format_time(moment)
        if execution is not None:
            execution.add_to(fields)
        publish_metadata(fs, session, encode_fields(fields), replace=True)
    return moment


@contextmanager
def _updating(fs: SessionFileSystem, session_fd: int, timeout_s: float) -> Iterator[None]:
    """Exclude other updates of a session's metadata; do nothing if there is no file.

    The lock is on the file, not on the workspace, which an execution may hold for its full
    duration.
    """
    fd = _lock_file(fs, session_fd, timeout_s)
    try:
        yield
    finally:
        if fd >= 0:
            unlock(fs, fd)
            fs.close_later(fd)  # probably replaced: this frees the old file


def _lock_file(fs: FileSystem, session_fd: int, timeout_s: float) -> int:
    patience = Patience(timeout_s)
    while True:
        try:
            fd = fs.open(METADATA_NAME, READ_FLAGS, dir_fd=session_fd)
        except OSError:
            return -1  # reading it reports what is there
        locked = there = False
        try:
            locked = try_lock(fs, fd)
            there = locked and has_name(fs, fd, METADATA_NAME, dir_fd=session_fd)
        finally:
            if not there:
                close_quietly(fs, fd)
        if there:
            return fd
        if not locked and not patience.pause():
            raise TimeoutError(errno.ETIMEDOUT, "another update holds the metadata")


def publish_metadata(
    fs: SessionFileSystem,
    session: SessionDirectory,
    content: bytes,
    *,
    replace: bool,
) -> None:
    """Move metadata into place; it is written in the root, so no guest sees it incomplete."""
    incoming = stage_file(fs, session.root_fd, content, mode=0o600, owner_fd=session.fd)
    put, renamed = (fs.rename if replace else fs.link), False
    try:
        put(incoming, METADATA_NAME, src_dir_fd=session.root_fd, dst_dir_fd=session.fd)
        renamed = replace
    finally:
        if not renamed:
            with suppress(OSError):
                fs.unlink(incoming, dir_fd=session.root_fd)


def _words(error: Exception) -> str:
    cause = getattr(error, "cause", None) or error
    return getattr(cause, "strerror", None) or str(cause)
