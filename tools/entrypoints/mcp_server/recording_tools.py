"""Tools that record in a session what was done and spent outside the sandbox."""

from __future__ import annotations

from typing import Final

from attrs import frozen

from ...harness import SessionContext, SessionManager
from ...harness.history_events import HistoryEvent, PhaseEnded, PhaseFailed, PhaseSucceeded
from . import arguments as takes
from . import results as gives
from .calls import Call
from .session_tools import SessionTools
from .tool import Answer, Tool

_RESULTS: Final[dict[str, type[PhaseEnded]]] = {
    one.action: one for one in (PhaseSucceeded, PhaseFailed)
}


def _step(action: str, session: SessionContext | None) -> str | HistoryEvent:
    """Return what a client records: how the current attempt ended, or a note."""
    kind = _RESULTS.get(action)
    if kind is None:
        return action
    return kind(attempt=session.attempt_number if session is not None else None)


@frozen
class RecordingTools:
    """Tools that add to the record of a session.

    Attributes:
        sessions: Leads the sessions.
    """

    sessions: SessionTools

    async def record(self, call: Call, given: takes.SessionRecord) -> Answer:
        """Record a step of work with its files and tokens, in one save."""

        def act(manager: SessionManager) -> object:
            return manager.record(
                _step(given.action, manager.current_session),
                given.details,
                tokens=given.tokens or 0,
                artifacts=[(one.path, one.artifact_type) for one in given.artifacts],
            )

        return await self.sessions.state_after(call, given.session_id, act)

    async def record_tokens(self, call: Call, given: takes.SessionRecordTokens) -> Answer:
        """Record tokens spent."""

        def act(manager: SessionManager) -> bool:
            manager.record_tokens(given.tokens)
            return manager.can_continue()

        session, goes_on = await self.sessions.change(call, given.session_id, act)
        state = gives.SessionStateResult.of(session, self.sessions.store)
        return Answer(gives.TokensResult(session=state, can_continue=goes_on), state.line())

    async def checkpoint(self, call: Call, given: takes.SessionOnly) -> Answer:
        """Add a checkpoint to the history."""
        return await self.sessions.state_after(
            call, given.session_id, lambda manager: manager.checkpoint_session()
        )

    def tools(self) -> tuple[Tool, ...]:
        """All of them."""
        return (
            Tool(
                name="session_record",
                title="Record work",
                description=(
                    "Record a step of work that was done outside the sandbox (files edited, tests "
                    "run, a decision made) with its files and tokens, in one save. run_code "
                    "records itself. If anything is wrong with the arguments, nothing is recorded. "
                    "The session must be active or paused."
                ),
                arguments=takes.SessionRecord,
                result=gives.SessionStateResult,
                run=self.record,
            ),
            Tool(
                name="session_record_tokens",
                title="Record tokens",
                description=(
                    "Add tokens that were spent to those of the session's budget; can_continue "
                    "says whether the work can go on. Spending more than the budget is recorded, "
                    "not refused. Don't record tokens again that run_code or session_record were "
                    "given."
                ),
                arguments=takes.SessionRecordTokens,
                result=gives.TokensResult,
                run=self.record_tokens,
            ),
            Tool(
                name="session_checkpoint",
                title="Set a checkpoint",
                description=(
                    "Mark in the session's history that the work is in a good state here. "
                    "Everything recorded before is on disk already; a checkpoint only says so to "
                    "the next worker. The session must be active or paused."
                ),
                arguments=takes.SessionOnly,
                result=gives.SessionStateResult,
                run=self.checkpoint,
            ),
        )
