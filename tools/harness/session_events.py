"""The log of sessions: each event with the fields that it always has."""

from __future__ import annotations

from typing import Any

from ..durable import WriteError
from .errors import SessionConflict
from .event_codec import logged
from .history_events import BudgetCrossed, HistoryEvent
from .session_domain import BudgetState, SessionContext, SessionState
from .session_head import UnreadableSession


class SessionEvents:
    """Logs what happens to sessions.

    Args:
        log: A structlog logger.
    """

    def __init__(self, log: Any) -> None:
        self.log = log

    def happened(self, session: SessionContext, event: HistoryEvent) -> None:
        """An event is recorded in a session's history.

        Args:
            session: The session, with the event.
            event: What happened.
        """
        fields = {"session_id": session.session_id, "phase": session.current_phase}
        write = self.log.warning if isinstance(event, BudgetCrossed) else self.log.info
        write(event.log_name, **fields, **logged(event))

    def created(self, session: SessionContext) -> None:
        """A session was begun and saved."""
        created = session.history[0].event
        if created is not None:
            self.happened(session, created)

    def loaded(self, session: SessionContext) -> None:
        """A session was made the current one."""
        self.log.info(
            "session.loaded",
            session_id=session.session_id,
            state=session.state.value,
            phase=session.current_phase,
            revision=session.revision,
        )

    def unreadable(self, found: UnreadableSession) -> None:
        """A session was passed over because it can't be read."""
        self.log.warning("session.unreadable", session_id=found.session_id, error=str(found.error))

    def state_changed(
        self, session: SessionContext, operation: str, came_from: SessionState, reason: str | None
    ) -> None:
        """A session went from one state to another."""
        self.log.info(
            "session.state_changed",
            session_id=session.session_id,
            operation=operation,
            from_state=came_from.value,
            to_state=session.state.value,
            reason=reason,
        )

    def phase_started(self, session: SessionContext) -> None:
        """The work of the phase is about to run."""
        self.log.info(
            "phase.started",
            session_id=session.session_id,
            phase=session.current_phase,
            attempt=session.attempt_number,
        )

    def recorded(self, session: SessionContext, action: str, tokens: int) -> None:
        """A caller's note was recorded with its tokens and files."""
        self.log.info(
            "session.recorded",
            session_id=session.session_id,
            action=action,
            phase=session.current_phase,
            attempt=session.attempt_number,
            tokens=tokens,
        )

    def checkpoint(self, session: SessionContext) -> None:
        """A session is saved at a place that is worth going back to."""
        self.log.info(
            "session.checkpoint",
            session_id=session.session_id,
            phase=session.current_phase,
            revision=session.revision,
        )

    def budget_spent(self, session: SessionContext, before: BudgetState) -> None:
        """Tokens were spent; logged where they crossed a line of the budget."""
        for event in session.token_budget.crossings(before):
            self.happened(session, event)

    def question_not_withdrawn(
        self, session: SessionContext, question_id: str, error: Exception
    ) -> None:
        """A question of a session that has ended could not be ended with it."""
        self.log.warning(
            "question.not_withdrawn",
            session_id=session.session_id,
            question_id=question_id,
            error=str(error),
        )

    def conflict(self, session: SessionContext, error: SessionConflict) -> None:
        """Another worker saved the session first."""
        self.log.warning(
            "session.conflict",
            session_id=session.session_id,
            expected_revision=error.expected_revision,
            actual_revision=error.actual_revision,
        )

    def save_failed(self, session: SessionContext, error: WriteError) -> None:
        """A session could not be saved."""
        self.log.error(
            "session.save_failed",
            session_id=session.session_id,
            path=str(error.path),
            operation=error.operation,
            errno=error.errno,
        )

    def cleaned_up(self, *, days: float, dry_run: bool, count: int) -> None:
        """Old sessions were deleted, or would have been."""
        self.log.info("sessions.cleaned_up", days=days, dry_run=dry_run, count=count)
