"""The events of sessions, told to the log, each with the fields it always has."""

from __future__ import annotations

from typing import Any

from ..durable import WriteError
from .errors import SessionConflict
from .ports import PersonReply, PhaseResult
from .question_entries import OUTCOMES
from .session_domain import BudgetState, SessionContext, SessionState
from .session_store import UnreadableSession


class SessionEvents:
    """Tells what happens to sessions.

    Args:
        log: A structlog logger.
    """

    def __init__(self, log: Any) -> None:
        self.log = log

    def created(self, session: SessionContext) -> None:
        """A session was begun and saved."""
        self.log.info(
            "session.created",
            session_id=session.session_id,
            workflow_type=session.workflow_type,
            phase=session.current_phase,
            token_budget=session.token_budget.total_budget,
        )

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

    def phase_advanced(self, session: SessionContext, came_from: str | None) -> None:
        """A session went on to another phase."""
        self.log.info(
            "phase.advanced",
            session_id=session.session_id,
            from_phase=came_from,
            to_phase=session.current_phase,
        )
        self.checkpoint(session)

    def phase_retried(self, session: SessionContext) -> None:
        """Another attempt at the phase began."""
        self.log.info(
            "phase.retried",
            session_id=session.session_id,
            phase=session.current_phase,
            attempt=session.attempt_number,
        )

    def phase_started(self, session: SessionContext) -> None:
        """The work of the phase is about to run."""
        self.log.info(
            "phase.started",
            session_id=session.session_id,
            phase=session.current_phase,
            attempt=session.attempt_number,
        )

    def phase_ended(
        self, session: SessionContext, result: PhaseResult, problem: str | None
    ) -> None:
        """The work of the phase has run and its result is recorded."""
        self.log.info(
            "phase.succeeded" if problem is None else "phase.failed",
            session_id=session.session_id,
            phase=session.current_phase,
            attempt=session.attempt_number,
            exit_code=result.exit_code,
            trapped=result.trapped,
            duration_s=round(result.duration_s, 3),
            fuel_consumed=result.fuel_consumed,
            problem=problem,
        )
        self.checkpoint(session)

    def recorded(self, session: SessionContext, action: str, tokens: int) -> None:
        """A step of the phase was recorded."""
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

    def budget_extended(self, session: SessionContext, additional_tokens: int) -> None:
        """More tokens were allotted."""
        self.log.info(
            "budget.extended",
            session_id=session.session_id,
            additional_tokens=additional_tokens,
            total_budget=session.token_budget.total_budget,
        )

    def budget_spent(self, session: SessionContext, before: BudgetState) -> None:
        """Tokens were spent; told only of a mark that was not reached before."""
        budget = session.token_budget
        for crossed, event in (
            (budget.is_warning and not before.is_warning, "session.budget.warning"),
            (budget.is_over_budget and not before.is_over_budget, "session.budget.exceeded"),
        ):
            if crossed:
                self.log.warning(
                    event,
                    session_id=session.session_id,
                    tokens_used=budget.tokens_used,
                    total_budget=budget.total_budget,
                )

    def question_recorded(self, session: SessionContext, question_id: str, *, paused: bool) -> None:
        """A question is in the history and about to be asked."""
        self.log.info(
            "question.recorded",
            session_id=session.session_id,
            question_id=question_id,
            paused=paused,
        )

    def question_ended(self, session_id: str, reply: PersonReply) -> None:
        """What became of a question is recorded."""
        self.log.info(
            OUTCOMES[reply.outcome].replace("_", ".", 1),
            session_id=session_id,
            question_id=reply.question_id,
        )

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
        """Somebody else saved the session first."""
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
