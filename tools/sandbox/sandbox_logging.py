"""The events of executions and of sandbox sessions, for a structlog logger."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Protocol

from ..event_log import get_logger
from .request import Request
from .result import SandboxResult


class EventLogger(Protocol):
    """What a structlog logger offers and the sessions need."""

    def info(self, event: str, **fields: object) -> object:
        """Log an event of ordinary life."""
        ...

    def warning(self, event: str, **fields: object) -> object:
        """Log an event that needs a look."""
        ...


class SandboxLogger:
    """Logs what happens to executions and sessions, each event with the fields it always has.

    Fields that were bound go into every event, before the event's own. No event holds code,
    output or the content of a file. docs/sandbox-sessions.md has the table of events.
    """

    def __init__(self, logger: EventLogger | None = None, **bound: object) -> None:
        """Wrap a logger.

        Args:
            logger: Anything with structlog's `info` and `warning`; structlog's own if None.
            bound: Fields of every event.
        """
        self._logger: EventLogger = get_logger("agentforge.sandbox") if logger is None else logger
        self._bound = bound

    @classmethod
    def of(cls, logger: SandboxLogger | EventLogger | None) -> SandboxLogger:
        """The logger itself if it is one of these already, else one around it."""
        return logger if isinstance(logger, SandboxLogger) else cls(logger)

    def bind(self, **fields: object) -> SandboxLogger:
        """The same logger with more fields in every event."""
        return type(self)(self._logger, **{**self._bound, **fields})

    def settled(self) -> SandboxLogger:
        """The same logger with its configuration looked up once, for many events in a row."""
        bind = getattr(self._logger, "bind", None)
        return self if bind is None else type(self)(bind(), **self._bound)

    @property
    def logs_info(self) -> bool:
        """Whether events of ordinary life are logged at all, as far as the logger says."""
        is_enabled = getattr(self._logger, "is_enabled_for", None)
        return is_enabled is None or bool(is_enabled(logging.INFO))

    def info(self, event: str, **fields: object) -> None:
        """Log an event of ordinary life."""
        self._logger.info(event, **{**self._bound, **fields})

    def warning(self, event: str, **fields: object) -> None:
        """Log an event that needs a look."""
        self._logger.warning(event, **{**self._bound, **fields})

    def execution_started(self, workspace: Path, request: Request) -> None:
        """An execution has its workspace, and begins."""
        self.info(
            "execution.start",
            workspace=str(workspace),
            code_bytes=request.code_bytes,
            stdin_bytes=len(request.stdin),
            deadline_s=request.deadline_s,
            fuel_budget=request.fuel,
        )

    def execution_completed(self, result: SandboxResult) -> None:
        """An execution ended."""
        self.info(
            "execution.complete",
            workspace=str(result.workspace_path),
            success=result.success,
            exit_code=result.exit_code,
            trapped=result.trapped,
            duration_s=round(result.duration_s, 4),
            fuel_consumed=result.fuel_consumed,
            files_created=len(result.files_created),
            files_modified=len(result.files_modified),
            files_deleted=len(result.files_deleted),
            changes_complete=result.metadata["changes_complete"],
            truncated=result.truncated,
            quota_exceeded=result.metadata["quota_exceeded"],
            lost_writes=len(result.lost_writes),
            tool_calls=len(result.tool_calls),
        )

    def session_created(self, session_id: str, *, workspace_path: str) -> None:
        """A workspace was made for a session."""
        self.info("session.created", session_id=session_id, workspace_path=workspace_path)

    def session_retrieved(self, session_id: str, *, workspace_path: str) -> None:
        """A sandbox was made over a session's workspace."""
        self.info("session.retrieved", session_id=session_id, workspace_path=workspace_path)

    def session_deleted(self, session_id: str) -> None:
        """A session's workspace was deleted."""
        self.info("session.deleted", session_id=session_id)

    def swept(self, workspace_root: str, *, count: int, names: list[str]) -> None:
        """What dead processes had left half made or half deleted in a root was removed."""
        self.info("session.swept", workspace_root=workspace_root, count=count, names=names)

    def metadata_created(self, session_id: str, *, created_at: str) -> None:
        """A session's metadata was written for the first time."""
        self.info("session.metadata.created", session_id=session_id, created_at=created_at)

    def metadata_updated(self, session_id: str, *, updated_at: str) -> None:
        """A session's `updated_at` was moved on."""
        self.info("session.metadata.updated", session_id=session_id, updated_at=updated_at)

    def metadata_repaired(self, session_id: str, *, action: str) -> None:
        """A session's metadata was made anew on request."""
        self.info("session.metadata.repaired", session_id=session_id, action=action)

    def metadata_corrupted(self, session_id: str, *, reason: str) -> None:
        """A session's metadata makes no sense; it was left as it is."""
        self.warning("session.metadata.corrupted", session_id=session_id, reason=reason)

    def metadata_failed(self, session_id: str, *, operation: str, reason: str) -> None:
        """A session's metadata could not be written; the session goes on without."""
        self.warning(
            "session.metadata.failed", session_id=session_id, operation=operation, reason=reason
        )

    def files_listed(self, session_id: str, *, pattern: str | None, count: int) -> None:
        """The files of a session were listed."""
        self.info("session.file.list", session_id=session_id, pattern=pattern, count=count)

    def file_read(self, session_id: str, *, path: str, size_bytes: int) -> None:
        """A file of a session was read."""
        self.info("session.file.read", session_id=session_id, path=path, size_bytes=size_bytes)

    def file_written(self, session_id: str, *, path: str, size_bytes: int) -> None:
        """A file of a session was written."""
        self.info("session.file.write", session_id=session_id, path=path, size_bytes=size_bytes)

    def path_deleted(self, session_id: str, *, path: str, recursive: bool) -> None:
        """A file or directory of a session was deleted."""
        self.info("session.file.delete", session_id=session_id, path=path, recursive=recursive)

    def prune_started(
        self, *, older_than_hours: float | None, workspace_root: str, dry_run: bool
    ) -> None:
        """A prune of session workspaces began."""
        self.info(
            "session.prune.started",
            threshold=older_than_hours,
            workspace_root=workspace_root,
            dry_run=dry_run,
        )

    def prune_candidate(
        self, session_id: str, *, age_hours: float, size_bytes: int, reasons: list[str]
    ) -> None:
        """A session is to be deleted."""
        self.info(
            "session.prune.candidate",
            session_id=session_id,
            age_hours=age_hours,
            size_bytes=size_bytes,
            reasons=reasons,
        )

    def prune_skipped(self, session_id: str, *, reason: str, detail: str) -> None:
        """A session is left alone because it can't be dated or is not ours."""
        self.warning("session.prune.skipped", session_id=session_id, reason=reason, detail=detail)

    def prune_deleted(self, session_id: str, *, size_bytes: int, trashed: bool) -> None:
        """A session was deleted, or is in the trash."""
        self.info(
            "session.prune.deleted", session_id=session_id, size_bytes=size_bytes, trashed=trashed
        )

    def prune_failed(self, session_id: str, *, error: str) -> None:
        """A session was to be deleted, and was not, or not wholly."""
        self.warning("session.prune.failed", session_id=session_id, error=error)

    def prune_completed(
        self,
        *,
        deleted_count: int,
        skipped_count: int,
        error_count: int,
        reclaimed_bytes: int,
        duration: float,
        dry_run: bool,
        **more: object,
    ) -> None:
        """A prune ended."""
        self.info(
            "session.prune.completed",
            deleted_count=deleted_count,
            skipped_count=skipped_count,
            error_count=error_count,
            reclaimed_bytes=reclaimed_bytes,
            duration=duration,
            dry_run=dry_run,
            **more,
        )
