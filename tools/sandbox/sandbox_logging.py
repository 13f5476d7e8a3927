"""The events of executions and sandbox sessions, for a structlog logger."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Protocol

from ..base.event_log import get_logger
from .request import Request
from .result import SandboxResult


class EventLogger(Protocol):
    """The methods of a structlog logger that the sandbox uses."""

    def info(self, event: str, **fields: object) -> object:
        """Log a routine event."""
        ...

    def warning(self, event: str, **fields: object) -> object:
        """Log an event that needs attention."""
        ...


class SandboxLogger:
    """A structlog logger with fields that precede every event's own.

    No event contains code, output or file content. docs/sandbox.md has the table of
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
        """Return the logger itself if it is a `SandboxLogger`, else wrap it."""
        return logger if isinstance(logger, SandboxLogger) else cls(logger)

    def bind(self, **fields: object) -> SandboxLogger:
        """Return a logger with more fields in every event."""
        return type(self)(self._logger, **{**self._bound, **fields})

    def settled(self) -> SandboxLogger:
        """Return a logger with its configuration looked up once, for many events in a row."""
        bind = getattr(self._logger, "bind", None)
        return self if bind is None else type(self)(bind(), **self._bound)

    @property
    def logs_info(self) -> bool:
        """Whether routine events are logged at all, as far as the logger reveals it."""
        is_enabled = getattr(self._logger, "is_enabled_for", None)
        return is_enabled is None or bool(is_enabled(logging.INFO))

    def info(self, event: str, **fields: object) -> None:
        """Log a routine event."""
        self._logger.info(event, **{**self._bound, **fields})

    def warning(self, event: str, **fields: object) -> None:
        """Log an event that needs attention."""
        self._logger.warning(event, **{**self._bound, **fields})

    def execution_started(self, workspace: Path, request: Request) -> None:
        """Log that an execution holds its workspace and starts."""
        self.info(
            "execution.start",
            workspace=str(workspace),
            code_bytes=request.code_bytes,
            stdin_bytes=len(request.stdin),
            deadline_s=request.deadline_s,
            fuel_budget=request.fuel,
        )

    def execution_completed(self, result: SandboxResult) -> None:
        """Log that an execution ended."""
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
