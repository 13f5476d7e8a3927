"""When a session was made and last used: `.metadata.json` at the top of its workspace.

The file is advisory. Nothing fails because it is missing or makes no sense, it is replaced
atomically but not synced, and it is the host's alone: a guest does not see it.
"""

from __future__ import annotations

import errno
import json
import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal, Never

from attrs import field, frozen

from ..clock import Clock, utc_now
from ..durable import (
    DurableError,
    FileStatus,
    FileSystem,
    Patience,
    ReadError,
    read_regular_file,
    try_lock,
    unlock,
)
from ..durable.file_lock import has_name
from ..durable.filesystem import READ_FLAGS
from ..errors import shown
from .errors import SandboxError
from .sandbox_logging import EventLogger, SandboxLogger
from .session_files import (
    DEFAULT_ROOT,
    METADATA_NAME,
    OS_FILES,
    SessionDirectory,
    SessionFileSystem,
    SessionWorkspaceMissing,
    close_quietly,
    open_session,
    random_token,
    stage_file,
    validate_session_id,
    walk_files,
    write_new_file,
)

METADATA_VERSION: Final = 1
"""The version of the file that is written and understood."""

MAX_METADATA_BYTES: Final = 64 << 10
"""The largest metadata file that is read."""

UPDATE_LOCK_TIMEOUT_S: Final = 1.0
"""How long an update waits for another one of the same session, in seconds."""

_MOST_ERROR: Final = 500
_NO_FILE: Final = frozenset({errno.ELOOP, errno.ENXIO})
"""What the system answers for a link and for a socket in the file's place."""
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TICK: Final = timedelta(microseconds=1)
_FIELDS: Final = ("session_id", "created_at", "updated_at", "version")


class CorruptedMetadata(SandboxError, ValueError):
    """A session's metadata is there and makes no sense; it was left as it is.

    Attributes:
        session_id: The session.
        reason: What is wrong with it.
        newer: Whether a later version of the file seems to be all that is wrong.
    """

    def __init__(self, session_id: str, reason: str, *, newer: bool = False) -> None:
        self.session_id = session_id
        self.reason = reason
        self.newer = newer
        remedy = (
            "use the release that wrote it" if newer else "repair_session_metadata makes it anew"
        )
        super().__init__(
            f"the metadata of session {session_id} cannot be used: {reason}. "
            f"It was left as it is; {remedy}"
        )


class UnreadableMetadata(CorruptedMetadata):
    """The system would not read a session's metadata; nobody knows what is in it.

    Attributes:
        errno: What the system answered.
    """

    retryable = True

    def __init__(self, session_id: str, cause: OSError) -> None:
        super().__init__(session_id, f"its file cannot be read ({cause.strerror or cause})")
        self.errno = cause.errno

    def __str__(self) -> str:
        return (
            f"the metadata of session {self.session_id} cannot be used: {self.reason}. "
            "It was left as it is; let this user read it, or look after the disk"
        )


@frozen(kw_only=True)
class SessionMetadata:
    """What is known of a session.

    Attributes:
        session_id: The session, which is also the name of its workspace.
        created_at: When its workspace was made, in UTC.
        updated_at: When code last ran to success in it, in UTC.
        version: The version of the file's form.
        extra: Fields that are not ours, kept as they were.
    """

    session_id: str
    created_at: datetime
    updated_at: datetime
    version: int = METADATA_VERSION
    extra: Mapping[str, object] = field(factory=dict, hash=False)


@frozen(kw_only=True)
class RepairResult:
    """What a repair did, or would do.

    Attributes:
        session_id: The session.
        action: "none" where the metadata was in order, "created" where there was none, "replaced"
            where it made no sense.
        metadata: The metadata the session has now, or would have.
        reason: What was wrong, or None.
        dry_run: True when nothing was written.
    """

    session_id: str
    action: Literal["none", "created", "replaced"]
    metadata: SessionMetadata
    reason: str | None
    dry_run: bool


@frozen(kw_only=True)
class ExecutionRecord:
    """What an execution adds to the metadata of a session that keeps count of them.

    Attributes:
        success: Whether it succeeded.
        fuel: The WebAssembly instructions it took.
        error: What went wrong, in one line; None where nothing did.
    """

    success: bool
    fuel: int
    error: str | None = None

    def add_to(self, fields: dict[str, object]) -> None:
        """Count it in a file's fields; a count that makes no sense begins anew."""
        fields["execution_count"] = _counted(fields, "execution_count") + 1
        fields["total_fuel_consumed"] = _counted(fields, "total_fuel_consumed") + self.fuel
        if self.error is not None or "last_error" not in fields:
            fields["last_error"] = self.error and self.error[:_MOST_ERROR]


def _counted(fields: Mapping[str, object], name: str) -> int:
    value = fields.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else 0


def format_time(moment: datetime) -> str:
    """A time as the file has it: ISO 8601 in UTC, six digits of a second, `Z`."""
    plain = moment.astimezone(UTC).replace(tzinfo=None)
    return plain.isoformat(timespec="microseconds") + "Z"


def encode_metadata(metadata: SessionMetadata) -> bytes:
    """The content of the file for a session's metadata."""
    return _encode(
        {
            "session_id": metadata.session_id,
            "created_at": format_time(metadata.created_at),
            "updated_at": format_time(metadata.updated_at),
            "version": metadata.version,
            **metadata.extra,
        }
    )


def _encode(fields: Mapping[str, object]) -> bytes:
    content = (json.dumps(fields, indent=2, allow_nan=False) + "\n").encode("ascii")
    if len(content) > MAX_METADATA_BYTES:  # what somebody added takes less room like this
        with suppress(UnicodeEncodeError):
            text = json.dumps(fields, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
            content = text.encode("utf-8")
    if len(content) > MAX_METADATA_BYTES:
        raise OSError(errno.EFBIG, f"it would have more than {MAX_METADATA_BYTES:,} bytes")
    return content


def parse_metadata(session_id: str, content: bytes) -> SessionMetadata:
    """The metadata in the content of a file.

    Times without a zone count as UTC.

    Args:
        session_id: The session whose workspace the file is in.
        content: What the file holds.

    Raises:
        CorruptedMetadata: The content is no metadata of this session.
    """
    return _interpret(session_id, _decode(session_id, content))


def _decode(session_id: str, content: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(
            content.decode("utf-8"),
            object_pairs_hook=_unique,
            parse_constant=_no_constant,
            parse_float=_finite,
        )
    except UnicodeDecodeError:
        raise CorruptedMetadata(session_id, "it is no UTF-8") from None
    except (ValueError, RecursionError) as error:
        raise CorruptedMetadata(session_id, f"it is no JSON ({error})") from None
    if not isinstance(fields, dict):
        raise CorruptedMetadata(session_id, f"it is no object but {type(fields).__name__}")
    return fields


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    fields = dict(pairs)
    if len(fields) != len(pairs):
        raise ValueError("a name occurs twice")
    return fields


def _no_constant(name: str) -> Never:
    raise ValueError(f"{name} is no number")


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("a number is too large")
    return number


def _interpret(session_id: str, fields: Mapping[str, object]) -> SessionMetadata:
    missing = [name for name in _FIELDS if name not in fields]
    if missing:
        raise CorruptedMetadata(session_id, f"it lacks {', '.join(missing)}")
    version = fields["version"]
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise CorruptedMetadata(session_id, f"its version is {shown(version)}")
    if version > METADATA_VERSION:
        raise CorruptedMetadata(
            session_id, f"its version is {shown(version)}, not {METADATA_VERSION}", newer=True
        )
    if fields["session_id"] != session_id:
        raise CorruptedMetadata(session_id, f"its session_id is {shown(fields['session_id'])}")
    return SessionMetadata(
        session_id=session_id,
        created_at=_time(session_id, "created_at", fields["created_at"]),
        updated_at=_time(session_id, "updated_at", fields["updated_at"]),
        version=version,
        extra={name: value for name, value in fields.items() if name not in _FIELDS},
    )


_TIME_CHARACTERS: Final = len("2026-01-31T23:59:59.000000Z")
_BETWEEN_TIMES: Final = '",\n  "updated_at": "'
_AFTER_TIMES: Final = '",\n  "version": 1\n}\n'
_UPDATED: Final = slice(-len(_AFTER_TIMES) - _TIME_CHARACTERS, -len(_AFTER_TIMES))
_CREATED: Final = slice(
    _UPDATED.start - len(_BETWEEN_TIMES) - _TIME_CHARACTERS, _UPDATED.start - len(_BETWEEN_TIMES)
)
_MOST_AS_WRITTEN: Final = 512


def read_times(
    fs: FileSystem, session_fd: int, session_id: str
) -> tuple[datetime, datetime, FileStatus | None] | None:
    """Read when a session was made and last used, of one whose workspace is open.

    A file that is exactly as it is written here takes no parser: whoever looks through ten thousand
    sessions reads ten thousand of them.

    Args:
        fs: The file system.
        session_fd: The workspace, open.
        session_id: The session, a UUID: nothing in it needs an escape in JSON.

    Returns:
        `created_at` and `updated_at`, and of a file that is as it is written here what `fstat` said
        of it before it was read; None if there is no metadata.

    Raises:
        CorruptedMetadata: There is a file, and it makes no sense or can't be read.
    """
    try:
        fd = fs.open(METADATA_NAME, READ_FLAGS, dir_fd=session_fd)
        try:
            status = fs.fstat(fd)
            text = fs.pread(fd, _MOST_AS_WRITTEN, 0).decode("ascii")
        finally:
            close_quietly(fs, fd)
        created, updated = text[_CREATED], text[_UPDATED]
        as_written = (
            f'{{\n  "session_id": "{session_id}",\n  "created_at": "{created}'
            f"{_BETWEEN_TIMES}{updated}{_AFTER_TIMES}"
        )
        if text == as_written and created[-1:] == updated[-1:] == "Z":
            at = datetime.fromisoformat(updated)
            return (at if created == updated else datetime.fromisoformat(created)), at, status
    except (OSError, ValueError):
        pass  # what is there instead is told below
    content = load_metadata(fs, session_fd, session_id)
    if content is None:
        return None
    metadata = parse_metadata(session_id, content)
    return metadata.created_at, metadata.updated_at, None


def _time(session_id: str, name: str, value: object) -> datetime:
    if isinstance(value, str):
        try:
            moment = datetime.fromisoformat(value)
            return (moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment).astimezone(UTC)
        except (ValueError, OverflowError):
            pass
    raise CorruptedMetadata(session_id, f"its {name} is {shown(value)}, which is no time")


def load_metadata(fs: FileSystem, session_fd: int, session_id: str) -> bytes | None:
    """Read the file of a session whose workspace is open; None if it has none.

    Raises:
        CorruptedMetadata: Something else has its name, or it is too large.
        UnreadableMetadata: The system would not read it.
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
    """Read a session's metadata.

    Args:
        session_id: The session.
        workspace_root: The directory the sessions' workspaces are in.
        fs: The file system.

    Returns:
        The metadata, or None for a session that has none.

    Raises:
        InvalidSessionId: The id cannot name a workspace.
        SessionWorkspaceMissing: There is no such session.
        PathEscapesWorkspace: A symbolic link stands in the workspace's place.
        CorruptedMetadata: There is a file, and it makes no sense or cannot be read.
    """
    with open_session(session_id, workspace_root, fs=fs) as session:
        content = load_metadata(fs, session.fd, session_id)
    return None if content is None else parse_metadata(session_id, content)


def create_metadata(
    fs: SessionFileSystem, directory_fd: int, session_id: str, *, now: datetime
) -> SessionMetadata:
    """Write the metadata of a new session into its workspace, which nobody sees yet.

    Raises:
        OSError: As the system answered; there is no file then.
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
    token: Callable[[], str] = random_token,
    fs: SessionFileSystem = OS_FILES,
    lock_timeout_s: float = UPDATE_LOCK_TIMEOUT_S,
    execution: ExecutionRecord | None = None,
) -> datetime | None:
    """Move a session's `updated_at` on; every other field keeps its value.

    The new time is later than the old one, whatever the clock says. Updates of one session wait
    for each other. Never raises for what it finds or what the system answers: it is told to the
    logger. A session without metadata is passed over in silence, and gets none.

    Args:
        session_id: The session.
        workspace_root: The directory the sessions' workspaces are in.
        logger: Told `session.metadata.updated`, or a warning.
        clock: Gives the time.
        token: Gives a fresh random text for the name on the way.
        fs: The file system.
        lock_timeout_s: How long to wait for another update, in seconds.
        execution: Is added to the counts in `execution_count`, `total_fuel_consumed` and
            `last_error`; after a failed one `updated_at` keeps its value. None counts nothing.

    Returns:
        The new time (or the old one, after a failed execution), or None if nothing was written.

    Raises:
        InvalidSessionId: The id cannot name a workspace.
    """
    validate_session_id(session_id)
    log = SandboxLogger.of(logger)
    try:
        moment = _touch(
            session_id, Path(workspace_root), clock, token, fs, lock_timeout_s, execution
        )
    except UnreadableMetadata as error:
        log.metadata_failed(session_id, operation="update", reason=error.reason)
        return None
    except CorruptedMetadata as error:
        log.metadata_corrupted(session_id, reason=error.reason)
        return None
    except SessionWorkspaceMissing:
        return None
    except (OSError, DurableError, SandboxError, OverflowError, RecursionError) as error:
        log.metadata_failed(session_id, operation="update", reason=_words(error))
        return None
    if moment is not None:
        log.metadata_updated(session_id, updated_at=format_time(moment))
    return moment


def _touch(
    session_id: str,
    root: Path,
    clock: Clock,
    token: Callable[[], str],
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
        fields = _decode(session_id, content)
        known = _interpret(session_id, fields)
        moment = known.updated_at
        if execution is None or execution.success:
            moment = max(clock().astimezone(UTC), known.updated_at + _TICK, known.created_at)
            fields["updated_at"] = format_time(moment)
        if execution is not None:
            execution.add_to(fields)
        _publish(fs, session, _encode(fields), token, replace=True)
    return moment


@contextmanager
def _updating(fs: SessionFileSystem, session_fd: int, timeout_s: float) -> Iterator[None]:
    """Hold a session's metadata alone among updates; nothing is held if there is no file.

    The lock is on the file, not on the workspace: an execution may hold that for its whole time.
    """
    fd = _lock_file(fs, session_fd, timeout_s)
    try:
        yield
    finally:
        if fd >= 0:
            unlock(fs, fd)
            fs.close_later(fd)  # most likely it was replaced and is the last of its file


def _lock_file(fs: FileSystem, session_fd: int, timeout_s: float) -> int:
    patience = Patience(timeout_s)
    while True:
        try:
            fd = fs.open(METADATA_NAME, READ_FLAGS, dir_fd=session_fd)
        except OSError:
            return -1  # reading it will tell what there is instead
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


def _publish(
    fs: SessionFileSystem,
    session: SessionDirectory,
    content: bytes,
    token: Callable[[], str],
    *,
    replace: bool,
) -> None:
    """Put metadata in place; it is made in the root, so that no guest ever sees it half done."""
    incoming = stage_file(
        fs, session.root_fd, content, mode=0o600, token=token, owner_fd=session.fd
    )
    put = fs.rename if replace else fs.link
    try:
        put(incoming, METADATA_NAME, src_dir_fd=session.root_fd, dst_dir_fd=session.fd)
    except BaseException:
        with suppress(OSError):
            fs.unlink(incoming, dir_fd=session.root_fd)
        raise
    if not replace:
        with suppress(OSError):
            fs.unlink(incoming, dir_fd=session.root_fd)


def repair_session_metadata(
    session_id: str,
    workspace_root: str | os.PathLike[str] = DEFAULT_ROOT,
    dry_run: bool = False,
    logger: SandboxLogger | EventLogger | None = None,
    *,
    clock: Clock = utc_now,
    token: Callable[[], str] = random_token,
    fs: SessionFileSystem = OS_FILES,
) -> RepairResult:
    """Give a session metadata that has none, or none that makes sense.

    The times come from the files in the workspace: the oldest modification is taken for the
    creation, the newest for the last use; a workspace without files has its own modification time
    for both. Times in the future count as now. Metadata in order is left alone, to the byte. What
    a file in disorder held is lost.

    Args:
        session_id: The session.
        workspace_root: The directory the sessions' workspaces are in.
        dry_run: Only tell what would be done.
        logger: Told `session.metadata.repaired` when something was written.
        clock: Gives the time.
        token: Gives a fresh random text for the name on the way.
        fs: The file system.

    Raises:
        InvalidSessionId: The id cannot name a workspace.
        SessionWorkspaceMissing: There is no such session.
        PathEscapesWorkspace: A symbolic link stands in the workspace's place.
        CorruptedMetadata: A later release wrote it; it is not for this one to replace.
        UnreadableMetadata: It could not be read, and may be in order; it was left as it is.
        FileExistsError: Somebody else made metadata at the same time; theirs was kept.
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
            _publish(fs, session, content, token, replace=action == "replaced")
    if not dry_run:
        SandboxLogger.of(logger).metadata_repaired(session_id, action=action)
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


def _words(error: Exception) -> str:
    cause = getattr(error, "cause", None) or error
    return getattr(cause, "strerror", None) or str(cause)


__all__ = [
    "MAX_METADATA_BYTES",
    "METADATA_NAME",
    "METADATA_VERSION",
    "CorruptedMetadata",
    "ExecutionRecord",
    "RepairResult",
    "SessionMetadata",
    "UnreadableMetadata",
    "create_metadata",
    "encode_metadata",
    "format_time",
    "load_metadata",
    "parse_metadata",
    "read_session_metadata",
    "read_times",
    "repair_session_metadata",
    "touch_session_metadata",
    "utc_now",
]
