"""Run code, and return its result even if the session could not record it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from attrs import define, frozen

from ....base.errors import AgentForgeError
from ....base.event_log import get_logger
from ....base.files import WriteError
from ....base.result import Success, attempt
from ....harness import (
    PhaseExecutor,
    PhaseResult,
    SessionConflict,
    SessionContext,
    SessionManager,
)
from .session_access import SessionAccess

_log = get_logger("agentforge.mcp")


@define
class _Remembering:
    """Executor that remembers its result, so that the result survives a failed record."""

    executor: PhaseExecutor
    result: PhaseResult | None = None

    def execute(self, code: str, **limits: Any) -> PhaseResult:
        self.result = self.executor.execute(code, **limits)
        return self.result


@frozen(kw_only=True)
class RecordedRun:
    """One run of code, and whether its session recorded the result.

    Attributes:
        session: The session after the run.
        result: How the code ended.
        error: Why the result could not be recorded, or not safely; or None.
    """

    session: SessionContext
    result: PhaseResult
    error: AgentForgeError | None = None

    @property
    def is_recorded(self) -> bool:
        """Whether the session recorded the result."""
        return self.error is None or (isinstance(self.error, WriteError) and self.error.visible)

    @property
    def problem(self) -> str | None:
        """Why it is not recorded, without a conflict's own advice to repeat the call."""
        error = self.error
        if error is None:
            return None
        reason = str(error)
        if isinstance(error, SessionConflict):
            reason = "while the code ran, another process ended or changed the session: it " + (
                "deleted it."
                if error.actual_revision is None
                else f"saved revision {error.actual_revision} of it, where this call began with "
                f"revision {error.expected_revision}."
            )
        return f"{type(error).__name__}: {reason}"


def run_recorded(
    sessions: SessionAccess,
    session_id: str,
    act: Callable[[SessionManager], PhaseResult],
    *,
    executor: PhaseExecutor,
) -> RecordedRun:
    """Run code with `SessionManager.run_phase`; return its result even if it is not recorded.

    Raises:
        SessionNotFound: There is no such session. As with every other error, no code ran.
    """
    remembering = _Remembering(executor)
    manager, session = sessions.lead(session_id, remembering)
    outcome = attempt(act, manager)
    if isinstance(outcome, Success):
        return RecordedRun(session=session, result=outcome.value)
    if remembering.result is None:
        raise outcome.error
    _log.warning("mcp.result_not_recorded", session_id=session_id, error=outcome.code)
    found = attempt(sessions.store.load, session_id)
    on_disk = found.value if isinstance(found, Success) else None
    return RecordedRun(session=on_disk or session, result=remembering.result, error=outcome.error)
