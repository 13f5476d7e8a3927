"""Question sessions for the prune engine: which names and ages they have, and their clean-up."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from attrs import frozen

from ...base.event_log import get_logger
from ...base.files import FileSystem, ReadError, read_regular_file
from ...base.files.tree_removal import is_discarded
from ...prune import (
    Dated,
    PruneEnvironment,
    PruneObserver,
    PruneRootMissing,
    RetentionPolicy,
    SkipReason,
    Undatable,
    prune,
)
from ...prune.ports import undatable
from ..domain import CleanupResult, is_session_id
from ..session_status import SessionStatus
from .documents import ANSWERS_FILE, STATUS_FILE
from .session_files import (
    DEFAULT_BASE_DIR,
    MAX_FILE_BYTES,
    STAGING_GRACE_S,
    STAGING_PREFIX,
    is_there,
)
from .wire import WireError, read_status

if TYPE_CHECKING:
    from ...prune import Skipped
    from ..rules import QuestionsConfig

KIND: Final = "questions"

_log = get_logger("agentforge.questions")
_STAGING: Final = re.compile(rf"{re.escape(STAGING_PREFIX)}[0-9a-f]{{1,32}}")


@frozen
class QuestionTarget:
    """The question sessions under a base. Implements `prune.PruneTarget`.

    One whose status can't be read is left alone, and one that is being changed stays.

    Attributes:
        root: The base.
        waiting_too: Whether sessions that wait for an answer may be removed.
    """

    root: Path = DEFAULT_BASE_DIR
    waiting_too: bool = False
    kind: str = KIND
    guards: Sequence[str] = ()

    def owns(self, name: str) -> bool:
        """Return whether a name is a question session's id."""
        return is_session_id(name)

    def stray_age(self, name: str) -> timedelta | None:
        """Return the age of something half made or half deleted whose maker is dead."""
        if is_discarded(name):
            return timedelta(0)
        return timedelta(seconds=STAGING_GRACE_S) if _STAGING.fullmatch(name) else None

    def date(self, fs: FileSystem, session_fd: int, session_id: str) -> Dated | Undatable | None:
        """Date a session by the last change in its status."""
        path = Path(session_id) / STATUS_FILE
        try:
            data = read_regular_file(
                fs, STATUS_FILE, path=path, max_bytes=MAX_FILE_BYTES, directory_fd=session_fd
            )
            if data is None:
                return self._without_status(fs, session_fd)
            record = read_status(data)
        except ReadError as error:
            return undatable(error)
        except WireError as error:
            return Undatable(SkipReason.CORRUPTED_METADATA, str(error))
        if record.session_id != session_id:
            detail = f"its status is that of session {record.session_id!r}"
            return Undatable(SkipReason.CORRUPTED_METADATA, detail)
        status = record.status
        if status is SessionStatus.PENDING and is_there(fs, session_fd, ANSWERS_FILE):
            status = SessionStatus.COMPLETED
        return Dated(
            at=max(record.created_at, record.last_modified),
            version=data,
            state=status.value,
            removable=self.waiting_too or status.is_terminal,
        )

    def _without_status(self, fs: FileSystem, session_fd: int) -> Dated | Undatable | None:
        """Date an empty directory, a session's remains; None for any other, which is not ours."""
        try:
            if fs.listdir(session_fd):
                return None
            changed = fs.fstat(session_fd).st_mtime
        except OSError as error:
            return Undatable(SkipReason.UNREADABLE, error.strerror or str(error))
        return Dated(at=datetime.fromtimestamp(changed, UTC), version=changed)


class _CleanUpEvents(PruneObserver):
    """Logs the events of a clean-up."""

    def skipped(self, skipped: Skipped) -> None:
        """A session can't be dated, or is not ours."""
        _log.warning("question.cleanup_failed", session_id=skipped.session_id, error=skipped.detail)

    def deleted(self, session_id: str, *, size_bytes: int, trashed: bool) -> None:
        """A session was removed."""
        _log.info("question.deleted", session_id=session_id, size_bytes=size_bytes, trashed=trashed)

    def failed(self, session_id: str, *, error: str) -> None:
        """A session could not be removed, or not completely."""
        _log.warning("question.cleanup_failed", session_id=session_id, error=error)


def cleanup(base_dir: Path, config: QuestionsConfig, outside: PruneEnvironment) -> CleanupResult:
    """Delete the sessions that changed longer ago than `config.retention_s`, waiting ones too.

    Args:
        base_dir: The directory of the sessions.
        config: Sets the retention; with `retention_s` 0 no session is deleted.
        outside: Time, randomness and the file system.

    Raises:
        prune.PruneError: The base can't be used, or another prune works on it.
    """
    target = QuestionTarget(base_dir, waiting_too=True)
    hours = config.retention_s / 3600 if config.retention_s > 0 else None
    try:
        done = prune(
            target,
            RetentionPolicy(max_age_hours=hours),
            observer=_CleanUpEvents(),
            outside=outside,
        )
    except PruneRootMissing:
        return CleanupResult()
    failed = [(one.session_id, one.detail) for one in done.skipped]
    failed += list(done.errors.items())
    result = CleanupResult(
        deleted=done.deleted_sessions,
        kept=sum(1 for one in done.decisions if not one.remove),
        failed=sorted(failed),
    )
    _log.info(
        "questions.cleaned_up",
        deleted=len(result.deleted),
        kept=result.kept,
        failed=len(result.failed),
    )
    return result


__all__ = ["KIND", "QuestionTarget", "cleanup"]
