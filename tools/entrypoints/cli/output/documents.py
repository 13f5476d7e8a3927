"""Sessions as JSON documents for programs; docs/cli.md describes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ....harness import (
        SessionArtifact,
        SessionContext,
        SessionHistory,
        SessionSummary,
        TokenBudget,
        UnreadableSession,
    )
    from ....harness.session_ports import LocalSessions


def budget_document(budget: TokenBudget) -> dict[str, Any]:
    """Describe a budget."""
    return {
        "total_budget": budget.total_budget,
        "tokens_used": budget.tokens_used,
        "remaining": budget.tokens_remaining,
        "tokens_remaining": budget.tokens_remaining,
        "utilization_percent": round(budget.utilization_percent, 2),
        "is_warning": budget.is_warning,
        "is_exhausted": budget.is_exhausted,
    }


def artifact_document(artifact: SessionArtifact) -> dict[str, Any]:
    """Describe a file made."""
    return {
        "path": artifact.path,
        "artifact_type": artifact.artifact_type,
        "phase": artifact.phase,
        "timestamp": artifact.timestamp,
    }


def entry_document(index: int, entry: SessionHistory) -> dict[str, Any]:
    """Describe an entry of the history; `index` counts from 0 at the oldest."""
    return {
        "index": index,
        "timestamp": entry.timestamp,
        "action": entry.action,
        "phase": entry.phase,
        "details": entry.details,
        "data": entry.data,
    }


def labels_document(session: SessionContext) -> dict[str, Any]:
    """Describe what people call a session, find it by and keep with it."""
    return {
        "parent_id": session.parent_id,
        "title": session.title,
        "tags": session.tags,
        "metadata": session.metadata,
    }


def session_document(
    session: SessionContext,
    store: LocalSessions,
    *,
    interrupted: bool,
    children: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Return a session in full, as the published schema says, with more beside it.

    Args:
        session: The session.
        store: Where it is.
        interrupted: Whether it is active without a worker.
        children: The sessions that were made from it; None where they are not looked for.
    """
    told = session.to_dict()
    return {
        "schema_version": told["schema_version"],
        "session_id": session.session_id,
        **labels_document(session),
        "workflow_state": told["workflow_state"],
        **({} if children is None else {"children": children}),
        "state": session.state,
        "interrupted": interrupted,
        "own": store.is_own(session.session_id),
        "workflow_type": session.workflow_type,
        "goal": session.goal,
        "current_phase": session.current_phase,
        "attempt_number": session.attempt_number,
        "token_budget": budget_document(session.token_budget),
        "created_at": session.created_at,
        "updated_at": session.updated_at,
        "completed_at": session.completed_at,
        "revision": session.revision,
        "path": store.where_is(session.session_id),
        "unlike_its_digest": session.unlike_its_digest,
        "workspace": store.workspace_path(session.session_id),
        "time_s": _time_document(session),
        **_conversations_document(session),
        "artifacts": [artifact_document(one) for one in session.artifacts],
        "history": [entry_document(index, one) for index, one in enumerate(session.history)],
    }


def _conversations_document(session: SessionContext) -> dict[str, Any]:
    """Describe what agent programs did, and where the budget stopped them; nothing without any."""
    from ....harness.views.conversations import budget_stops, conversations

    found = conversations(session.history)
    if not found:
        return {}
    talks = [
        {
            "program": one.program,
            "conversation": one.agent_session,
            "first": one.first,
            "last": one.last,
            "prompts": one.prompts,
            "turns": one.turns,
            "compactions": one.compactions,
            "gates": one.gates,
            "files": one.files,
            "tokens": one.tokens,
            "models": one.models,
        }
        for one in found
    ]
    stops = [
        {"timestamp": one.timestamp, "details": one.details}
        for one in budget_stops(session.history)
    ]
    return {"conversations": talks, "budget_stops": stops}


def _time_document(session: SessionContext) -> dict[str, float] | None:
    """Describe where an agent's session has spent its time; None for one of another kind."""
    from ....harness.domain.history_events import AgentAnswered

    if not any(entry.event_type is AgentAnswered for entry in session.history):
        return None
    from ....workflows.run.progress import time_spent

    spent = time_spent(session.history)
    parts = (("agent", spent.agent), ("gate", spent.gate), ("person", spent.person))
    return {name: round(seconds, 3) for name, seconds in parts}


def state_document(session: SessionContext, store: LocalSessions) -> dict[str, Any]:
    """Describe where a session is, without its artifacts and history."""
    return {
        "session_id": session.session_id,
        "state": session.state,
        "workflow_type": session.workflow_type,
        "current_phase": session.current_phase,
        "attempt_number": session.attempt_number,
        "token_budget": budget_document(session.token_budget),
        "updated_at": session.updated_at,
        "completed_at": session.completed_at,
        "revision": session.revision,
        "path": store.where_is(session.session_id),
        "workspace": store.workspace_path(session.session_id),
    }


def summary_document(summary: SessionSummary, *, interrupted: bool, own: bool) -> dict[str, Any]:
    """Describe a session as a listing does.

    Args:
        summary: The session.
        interrupted: As in `session_document`.
        own: Whether it is this person's.
    """
    from ....harness import TokenBudget

    head = summary.head
    return {
        "session_id": head.session_id,
        "parent_id": head.parent_id,
        "title": head.title,
        "tags": head.tags,
        "state": head.state,
        "interrupted": interrupted,
        "own": own,
        "workflow_type": head.workflow_type,
        "current_phase": head.current_phase,
        "attempt_number": head.attempt_number,
        "token_budget": budget_document(TokenBudget(head.total_budget, head.tokens_used)),
        "created_at": head.created_at,
        "updated_at": head.updated_at,
        "completed_at": head.completed_at,
        "revision": head.revision,
        "path": summary.path,
        "size_bytes": summary.size_bytes,
    }


def unreadable_document(unreadable: UnreadableSession) -> dict[str, Any]:
    """Describe a session that can't be read."""
    return {
        "session_id": unreadable.session_id,
        "path": unreadable.path,
        "error": {"type": type(unreadable.error).__name__, "message": str(unreadable.error)},
    }
