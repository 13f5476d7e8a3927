"""Question sessions for the prune engine: which they are and how old, and their clean-up by it."""

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
from ...prune import Dated, Outside, PruneRootMissing, RetentionPolicy, SkipReason, Undatable, prune
from ...prune.ports import undatable
from ..domain import CleanupResult, is_session_id
from ..session_status import SessionStatus
from .documents import ANSWERS_FILE, STATUS_FILE
from .json_form import WireError
from .session_files import DEFAULT_BASE_DIR, MAX_FILE_BYTES, STAGING_GRACE_S, STAGING_PREFIX
from .wire import read_status

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

    from ...prune import Decision, PruneResult, PruneSource, Skipped
    from ..rules import QuestionsConfig

KIND: Final = "questions"

_log = get_logger("agentforge.questions")
_STAGING: Final = re.compile(rf"{re.escape(STAGING_PREFIX)}[0-9a-f]{{1,32}}")


@frozen
class QuestionTarget:
    """The question sessions under a base. Implements `prune.PruneTarget`.

    One whose status can't be read is left alone, and one that somebody is changing stays.

    Attributes:
        root: The base.
        waiting_too: Whether sessions that wait for an answer may go.
    """

    root: Path = DEFAULT_BASE_DIR
    waiting_too: bool = False
    kind: str = KIND
    guards: Sequence[str] = ()

    def owns(self, name: str) -> bool:
        """Return whether a name is a question session's id."""
        return is_session_id(name)

    def stray_age(self, name: str) -> timedelta | None:
        """Return how old something half made or half deleted is when its maker is dead."""
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
        if status is SessionStatus.PENDING and _is_there(fs, session_fd, ANSWERS_FILE):
            status = SessionStatus.COMPLETED
        return Dated(
            at=max(record.created_at, record.last_modified),
            version=data,
            state=status.value,
            removable=self.waiting_too or status.is_terminal,
        )

    def _without_status(self, fs: FileSystem, session_fd: int) -> Dated | Undatable | None:
        """An empty directory is what is left of a session; anything else is none of ours."""
        try:
            if fs.listdir(session_fd):
                return None
            changed = fs.fstat(session_fd).st_mtime
        except OSError as error:
            return Undatable(SkipReason.UNREADABLE, error.strerror or str(error))
        return Dated(at=datetime.fromtimestamp(changed, UTC), version=changed)


def _is_there(fs: FileSystem, session_fd: int, name: str) -> bool:
    try:
        fs.stat(name, dir_fd=session_fd)
    except OSError:
        return False
    return True


class _CleanUpEvents:
    """Logs the events of a clean-up. A `prune.PruneObserver`."""

    def __init__(self, log: FilteringBoundLogger) -> None:
        self._log = log

    def started(self, target: PruneSource, policy: RetentionPolicy, *, dry_run: bool) -> None:
        """A clean-up began."""

    def skipped(self, skipped: Skipped) -> None:
        """A session can't be dated, or is not ours."""
        self._log.warning(
            "question.cleanup_failed", session_id=skipped.session_id, error=skipped.detail
        )

    def candidate(self, decision: Decision, *, age_hours: float) -> None:
        """A session is to go."""

    def deleted(self, session_id: str, *, size_bytes: int, trashed: bool) -> None:
        """A session was removed."""
        self._log.info(
            "question.deleted", session_id=session_id, size_bytes=size_bytes, trashed=trashed
        )

    def failed(self, session_id: str, *, error: str) -> None:
        """A session could not be removed, or not whole."""
        self._log.warning("question.cleanup_failed", session_id=session_id, error=error)

    def completed(self, result: PruneResult) -> None:
        """A clean-up ended."""


def cleanup(base_dir: Path, config: QuestionsConfig, outside: Outside) -> CleanupResult:
    """Delete the sessions that changed longer ago than `config.retention_s`, waiting ones too.

    Args:
        base_dir: Where the sessions are.
        config: Says how old is old; with `retention_s` 0 no session is deleted.
        outside: Time, chance and the file system.

    Raises:
        prune.PruneError: The base can't be used, or another prune works on it.
    """
    target = QuestionTarget(base_dir, waiting_too=True)
    hours = config.retention_s / 3600 if config.retention_s > 0 else None
    try:
        done = prune(
            target,
            RetentionPolicy(max_age_hours=hours),
            observer=_CleanUpEvents(_log),
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
