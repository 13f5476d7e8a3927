"""Tools that record in a session the work and tokens spent outside the sandbox."""

from __future__ import annotations

from typing import Annotated, Final

from attrs import frozen
from pydantic import Field

from ....harness import SessionContext, SessionManager
from ....harness.domain.history_events import HistoryEvent, PhaseEnded, PhaseFailed, PhaseSucceeded
from ....harness.session_domain import MAX_COUNT
from .. import results
from ..arguments import Action, ArtifactArgument, SessionId, Tokens
from ..calls import Call
from ..tool import tool
from .session_access import SessionAccess

_RESULTS: Final[dict[str, type[PhaseEnded]]] = {
    one.action: one for one in (PhaseSucceeded, PhaseFailed)
}


def _step(action: str, session: SessionContext | None) -> str | HistoryEvent:
    """Return a client's record: the end of the current attempt, or a note."""
    kind = _RESULTS.get(action)
    if kind is None:
        return action
    return kind(attempt=session.attempt_number if session is not None else None)


@frozen
class RecordingTools:
    """Tools that add to a session's record.

    Attributes:
        sessions: The calls' access to sessions.
    """

    sessions: SessionAccess

    @tool("Record work")
    async def session_record(
        self,
        call: Call,
        session_id: SessionId,
        action: Action,
        details: Annotated[str | None, Field(max_length=20_000)] = None,
        artifacts: Annotated[list[ArtifactArgument], Field(max_length=500)] = [],  # noqa: B006 (part of the schema, and never changed)
        tokens: Tokens = None,
    ) -> results.SessionStateResult:
        """Record a step of work that was done outside the sandbox, in one save.

        That is files edited, tests run, a decision made, with its files and tokens.
        run_code records itself. If anything is wrong with the arguments, nothing is
        recorded. The session must be active or paused.

        Args:
            details: What the next worker must know of it; briefings quote it.
            artifacts: The files that it created or modified.
        """

        def act(manager: SessionManager) -> object:
            return manager.record(
                _step(action, manager.current_session),
                details,
                tokens=tokens or 0,
                artifacts=[(one.path, one.artifact_type) for one in artifacts],
            )

        return await self.sessions.state_after(call, session_id, act)

    @tool("Record tokens")
    async def session_record_tokens(
        self, call: Call, session_id: SessionId, tokens: Annotated[int, Field(ge=1, le=MAX_COUNT)]
    ) -> results.TokensResult:
        """Add tokens that were spent to those of the session's budget.

        can_continue says whether the work can go on. Spending more than the budget is
        recorded, not refused. Don't record tokens again that run_code or session_record
        were given.

        Args:
            tokens: Tokens spent since last recorded.
        """

        def act(manager: SessionManager) -> bool:
            manager.record_tokens(tokens)
            return manager.can_continue()

        session, goes_on = await self.sessions.change(call, session_id, act)
        return results.TokensResult(session=self.sessions.state(session), can_continue=goes_on)

    @tool("Set a checkpoint")
    async def session_checkpoint(
        self, call: Call, session_id: SessionId
    ) -> results.SessionStateResult:
        """Mark in the session's history that the work is in a good state here.

        Everything recorded before is on disk already; a checkpoint only says so to the next
        worker. The session must be active or paused.
        """
        return await self.sessions.state_after(
            call, session_id, lambda one: one.checkpoint_session()
        )
