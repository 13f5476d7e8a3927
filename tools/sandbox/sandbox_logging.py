"""The events of executions and of sandbox sessions, for a structlog logger."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Protocol

from ..base.event_log import get_logger
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
    """A structlog logger with fields that go into every event, before the event's own.

    No event holds code, output or the content of a file. docs/sandbox-sessions.md has the table of
    events.
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
