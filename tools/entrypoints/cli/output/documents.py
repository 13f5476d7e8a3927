"""Sessions as JSON documents for programs; docs/cli.md describes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ....harness.session_layout import STEPS_KEY

if TYPE_CHECKING:
    from .... import harness
    from ....harness.session_ports import LocalSessions


def selected(value: object, names: str) -> dict[str, Any]:
    """Return the attributes of a value whose names are given, separated by spaces."""
    return {name: getattr(value, name) for name in names.split()}


def error_document(error: BaseException) -> dict[str, str]:
    """Describe an error."""
    return {"type": type(error).__name__, "message": str(error)}


def budget_document(budget: harness.TokenBudget) -> dict[str, Any]:
    """Describe a budget."""
    return {
        **selected(budget, "total_budget tokens_used"),
        "remaining": budget.tokens_remaining,
        "tokens_remaining": budget.tokens_remaining,
        "utilization_percent": round(budget.utilization_percent, 2),
        **selected(budget, "is_warning is_exhausted"),
    }


def artifact_document(artifact: harness.SessionArtifact) -> dict[str, Any]:
    """Describe a file that a session recorded."""
    return selected(artifact, "path artifact_type phase timestamp")


def entry_document(index: int, entry: harness.SessionHistory) -> dict[str, Any]:
    """Describe an entry of the history; `index` counts from 0 at the oldest."""
    return {"index": index, **selected(entry, "timestamp action phase details data")}


def labels_document(session: harness.SessionContext) -> dict[str, Any]:
    """Describe a session's title, tags and metadata."""
    return selected(session, "parent_id title tags metadata")


def session_document(
    session: harness.SessionContext,
    store: LocalSessions,
    *,
    interrupted: bool,
    children: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Return a session in full, as in the published schema, with further fields.

    Args:
        session: The session.
        store: The session's store.
        interrupted: Whether the session is active without a worker.
        children: The sessions that were created from it; None if they were not searched for.
    """
    whole = session.to_dict()
    return {
        "schema_version": whole["schema_version"],
        "session_id": session.session_id,
        **labels_document(session),
        "workflow_state": whole["workflow_state"],
        **({} if children is None else {"children": children}),
        "state": session.state,
        "interrupted": interrupted,
        "own": store.is_own(session.session_id),
        **selected(session, "workflow_type goal current_phase attempt_number"),
        "token_budget": budget_document(session.token_budget),
        **selected(session, "created_at updated_at completed_at revision"),
        "path": store.where_is(session.session_id),
        "unlike_its_digest": session.unlike_its_digest,
        "workspace": store.workspace_path(session.session_id),
        "time_s": _time_document(session),
        **program_document(session, store),
        **_conversations_document(session),
        "artifacts": [artifact_document(one) for one in session.artifacts],
        "history": [entry_document(index, one) for index, one in enumerate(session.history)],
    }


def program_document(session: harness.SessionContext, store: LocalSessions) -> dict[str, Any]:
    """Describe the program that leads a session, with its last steps; empty without one."""
    if STEPS_KEY not in session.workflow_state:
        return {}
    from ....harness.steps.step_views import program_view

    program = program_view(store, session)
    return {} if program is None else {"program": program.document()}


def _conversations_document(session: harness.SessionContext) -> dict[str, Any]:
    """Describe what agent programs did and where the budget stopped them; empty without any."""
    from ....harness.views.conversations import budget_stops, conversations

    found = conversations(session.history)
    if not found:
        return {}
    counts = (
        "first last prompts turns compactions gates files tokens models kinds micro_usd unpriced"
    )
    talks = [
        {"program": one.program, "conversation": one.agent_session, **selected(one, counts)}
        for one in found
    ]
    stops = [selected(one, "timestamp details") for one in budget_stops(session.history)]
    return {"conversations": talks, "budget_stops": stops}


def _time_document(session: harness.SessionContext) -> dict[str, float] | None:
    """Describe how an agent's session spent its time; None for sessions of other kinds."""
    from ....harness.domain.history_events import AgentAnswered

    if not any(entry.event_type is AgentAnswered for entry in session.history):
        return None
    from ....workflows.run.progress import time_spent

    spent = selected(time_spent(session.history), "agent gate person")
    return {name: round(seconds, 3) for name, seconds in spent.items()}


def state_document(session: harness.SessionContext, store: LocalSessions) -> dict[str, Any]:
    """Describe a session's state, without its artifacts and history."""
    return {
        **selected(session, "session_id state workflow_type current_phase attempt_number"),
        "token_budget": budget_document(session.token_budget),
        **selected(session, "updated_at completed_at revision"),
        "path": store.where_is(session.session_id),
        "workspace": store.workspace_path(session.session_id),
    }


def summary_document(
    summary: harness.SessionSummary, *, interrupted: bool, own: bool
) -> dict[str, Any]:
    """Describe a session as a listing does.

    Args:
        summary: The session.
        interrupted: As in `session_document`.
        own: Whether the session is this person's.
    """
    from ....harness import TokenBudget

    head = summary.head
    return {
        **selected(head, "session_id parent_id title tags state"),
        "interrupted": interrupted,
        "own": own,
        **selected(head, "workflow_type current_phase attempt_number"),
        "token_budget": budget_document(TokenBudget(head.total_budget, head.tokens_used)),
        **selected(head, "created_at updated_at completed_at revision"),
        **selected(summary, "path size_bytes"),
    }


def unreadable_document(unreadable: harness.UnreadableSession) -> dict[str, Any]:
    """Describe a session that can't be read."""
    return {
        **selected(unreadable, "session_id path"),
        "error": error_document(unreadable.error),
    }
