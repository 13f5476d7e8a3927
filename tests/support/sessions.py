"""Sessions to test with, and what they must look like to a plain YAML reader."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import Any

from agentforge_sessions.base.clock import Clock, utc_now
from agentforge_sessions.harness import SessionContext, SessionManager, SessionStore


def without_digest(data: bytes) -> bytes:
    """Return a session's file less the line of its digest."""
    return re.sub(rb"\ndigest: [^\n]*\n\.\.\.\n\Z", b"\n...\n", data)


def session_id(number: int) -> str:
    """Return the id of a session by a number."""
    return f"session_20260301_093000_{number:06d}"


class SessionsInUse:
    """The sessions of a store, for tests of what else leads them."""

    def __init__(self, store: SessionStore, clock: Clock = utc_now) -> None:
        self.store = store
        self.clock = clock

    def begin(self, *, budget: int, goal: str | None) -> str:
        manager = SessionManager(self.store, clock=self.clock)
        return manager.create(token_budget=budget, goal=goal).session_id

    def open(self, session_id: str) -> SessionManager:
        manager = SessionManager(SessionStore(self.store.base_path), clock=self.clock)
        manager.open(session_id)
        return manager

    def session(self, session_id: str) -> SessionContext:
        found = SessionStore(self.store.base_path).load(session_id)
        assert found is not None
        return found


def _moment(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat(timespec="microseconds")


def as_plain(session: SessionContext, *, revision: int | None = None) -> dict[str, Any]:
    """Say what `yaml.safe_load` must make of a session's file."""
    identity = {
        "parent_id": session.parent_id,
        "title": session.title,
        "tags": list(session.tags),
    }
    data = {"metadata": session.metadata, "workflow_state": session.workflow_state}
    carried = {name: one for name, one in (identity | data).items() if one not in (None, [], {})}
    return {
        "schema_version": "1.1" if carried else 1,
        "session_id": session.session_id,
        **{name: one for name, one in carried.items() if name in identity},
        "revision": session.revision if revision is None else revision,
        "state": session.state.value,
        "workflow_type": session.workflow_type,
        "current_phase": session.current_phase,
        "attempt_number": session.attempt_number,
        "created_at": _moment(session.created_at),
        "updated_at": _moment(session.updated_at),
        "completed_at": _moment(session.completed_at),
        "token_budget": {
            "total_budget": session.token_budget.total_budget,
            "tokens_used": session.token_budget.tokens_used,
            "remaining": session.token_budget.tokens_remaining,
        },
        "goal": session.goal,
        **{name: json.loads(json.dumps(one)) for name, one in carried.items() if name in data},
        "artifacts": [
            {
                "path": artifact.path,
                "artifact_type": artifact.artifact_type,
                "timestamp": _moment(artifact.timestamp),
                "phase": artifact.phase,
            }
            for artifact in session.artifacts
        ],
        "history": [
            {
                "timestamp": _moment(entry.timestamp),
                "action": entry.action,
                "phase": entry.phase,
                "details": entry.details,
                **({"data": json.loads(json.dumps(entry.data))} if entry.data else {}),
            }
            for entry in session.history
        ],
    }
