"""Agent sessions for the prune engine: only ended ones, dated by when they ended."""

from __future__ import annotations

import stat
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Final

from attrs import frozen

from ..base.event_log import get_logger
from ..base.files import FileSystem, ReadError, read_regular_file
from ..base.files.filesystem import READ_FLAGS, close_reader
from ..base.files.tree_removal import is_discarded
from ..base.identifiers import is_session_id
from ..prune import (
    Dated,
    PruneEnvironment,
    PruneObserver,
    PruneRootMissing,
    RetentionPolicy,
    Skipped,
    SkipReason,
    Undatable,
    prune,
)
from ..prune.ports import Record, undatable
from .errors import SessionCorrupted
from .events.receiver_files import keep_untold
from .format.session_codec import decode_session
from .session_domain import SessionContext
from .session_layout import DEFAULT_BASE_PATH, GUARDS, KIND, MAX_FILE_BYTES, SESSION_FILE
from .store.session_reader import read_head
from .store.sessions_place import OwnSessions
from .views.session_head import SessionHead

_HOURS_A_DAY: Final = 24


@frozen
class HarnessTarget:
    """The agent sessions under a base. Implements `prune.PruneTarget`.

    An active or paused session is never removable, whatever the policy. One that can't be read is
    left alone. A directory without a session file is not a session.
    """

    root: Path = DEFAULT_BASE_PATH
    kind: str = KIND
    guards: Sequence[str] = GUARDS

    def owns(self, name: str) -> bool:
        """Return whether a name is a session id."""
        return is_session_id(name)

    def stray_age(self, name: str) -> timedelta | None:
        """Return the age from which a partly created or deleted directory counts as abandoned."""
        return timedelta(0) if is_discarded(name) else None

    def leaving(self, fs: FileSystem, session_fd: int, session_id: str) -> None:
        """Save the events that receivers have not received of a session about to be removed."""
        keep_untold(
            self.root,
            fs,
            session_fd,
            is_own=lambda: OwnSessions(self.root).has(session_id),
            load=lambda: _whole(fs, session_fd, session_id),
        )

    def date(self, fs: FileSystem, session_fd: int, session_id: str) -> Dated | Undatable | None:
        """Return when a session ended, from the head of its file."""
        try:
            fd = fs.open(SESSION_FILE, READ_FLAGS, dir_fd=session_fd)
        except FileNotFoundError:
            return None
        except OSError as error:
            return undatable(ReadError(path=Path(SESSION_FILE), cause=error))
        try:
            status = fs.fstat(fd)
            if not stat.S_ISREG(status.st_mode):
                detail = f"{SESSION_FILE} is no regular file"
                return Undatable(SkipReason.CORRUPTED_METADATA, detail)
            head = None
            if status.st_size <= MAX_FILE_BYTES:
                head = read_head(fs, fd, session_id, status.st_size)
        except OSError as error:
            return Undatable(SkipReason.UNREADABLE, f"{SESSION_FILE}: {error.strerror or error}")
        finally:
            close_reader(fs, fd)
        if head is not None:
            return _dated(head, Record(SESSION_FILE, status))
        whole = _careful(fs, session_fd, session_id)
        return _dated(whole, None) if isinstance(whole, SessionHead) else whole


def _dated(head: SessionHead, record: Record | None) -> Dated:
    return Dated(
        at=head.completed_at or head.updated_at,
        version=head.revision,
        state=head.state.value,
        removable=head.state.is_terminal,
        record=record,
    )


def _whole(fs: FileSystem, session_fd: int, session_id: str) -> SessionContext | None:
    path = Path(session_id) / SESSION_FILE
    data = read_regular_file(
        fs, SESSION_FILE, path=path, max_bytes=MAX_FILE_BYTES, directory_fd=session_fd
    )
    return None if data is None else decode_session(data, path=path)


def _careful(fs: FileSystem, session_fd: int, session_id: str) -> SessionHead | Undatable | None:
    try:
        session = _whole(fs, session_fd, session_id)
    except ReadError as error:
        return undatable(error)
    except SessionCorrupted as error:
        return Undatable(SkipReason.CORRUPTED_METADATA, str(error))
    if session is None:
        return None
    if session.session_id != session_id:
        detail = f"its file is that of session {session.session_id}"
        return Undatable(SkipReason.CORRUPTED_METADATA, detail)
    return SessionHead.of(session)


def clean_up(base: Path, *, days: float, dry_run: bool, outside: PruneEnvironment) -> list[str]:
    """Delete the sessions that ended more than `days` ago; see `SessionManager`.

    Args:
        base: The sessions' directory.
        days: The minimum time since they ended, in days.
        dry_run: Delete nothing, only return what would be deleted.
        outside: The file system, the clock, the source of random texts.

    Returns:
        The ids of the sessions that were, or would be, deleted, oldest first.

    Raises:
        PruneRootUnusable: The base can't be read or written; nothing was deleted.
    """
    try:
        result = prune(
            HarnessTarget(base),
            RetentionPolicy(max_age_hours=days * _HOURS_A_DAY),
            dry_run=dry_run,
            observer=CleanUpEvents(),
            outside=outside,
        )
    except PruneRootMissing:
        return []
    removed = {*result.deleted_sessions, *result.unfinished_sessions}
    planned = (one.candidate.session_id for one in result.decisions)
    return [session_id for session_id in planned if session_id in removed]


class CleanUpEvents(PruneObserver):
    """Logs the events of a clean-up."""

    def __init__(self) -> None:
        self._log = get_logger("agentforge.session")

    def skipped(self, skipped: Skipped) -> None:
        """A session can't be read, or is not a session of ours."""
        self._log.warning("session.unreadable", session_id=skipped.session_id, error=skipped.detail)

    def deleted(self, session_id: str, *, size_bytes: int, trashed: bool) -> None:
        """A session was deleted."""
        self._log.info(
            "session.deleted", session_id=session_id, size_bytes=size_bytes, trashed=trashed
        )

    def failed(self, session_id: str, *, error: str) -> None:
        """A session could not be deleted, or only in part."""
        self._log.warning("session.delete_failed", session_id=session_id, error=error)


__all__ = [
    "KIND",
    "CleanUpEvents",
    "HarnessTarget",
    "clean_up",
]
