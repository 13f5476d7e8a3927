"""A session whose whole content follows from its revision, so that any loss or mixture shows.

Every save adds exactly one entry to the history, and what it adds depends on nothing but the
session's id and the number of the save. Whoever reads revision N knows what must be in it.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from agentforge_sessions.harness import SessionContext

_BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def id_of(number: int) -> str:
    """Return the id of a session by a number."""
    return f"session_20260101_000000_{number:06d}"


VICTIM, BYSTANDER, NEXT, SHARED = map(id_of, range(900_001, 900_005))


def begin(session_id: str) -> SessionContext:
    """Return the session as its first save finds it."""
    return SessionContext.create(
        "spec", "phase-0", session_id=session_id, goal="Survive.\nWhatever happens.", now=_BEGAN
    )


def go_on(session: SessionContext) -> None:
    """Change the session as its next save finds it."""
    number = len(session.history)
    now = _BEGAN + timedelta(seconds=number)
    if number % 5 == 0:
        session.enter_phase(f"phase-{number // 5}", now=now)
    else:
        details = f"{session.session_id}: step {number}"
        if number % 7 == 0:
            details += "\n" + "\n".join(f"line {line} of {number}" for line in range(150))
        session.add_history("step", details=details, now=now)
    if number % 2 == 0:
        session.add_artifact(f"out/{number}.txt", "created", now=now)
    session.token_budget.record_usage(number)


def at(session_id: str, revision: int) -> SessionContext:
    """Return the session as it is after its save number `revision`."""
    session = begin(session_id)
    for _ in range(revision - 1):
        go_on(session)
    session.revision = revision
    return session


def problems(session: SessionContext) -> list[str]:
    """Say in what a session that was read differs from what its revision says."""
    if session == at(session.session_id, session.revision):
        return []
    return [
        f"{session.session_id} at revision {session.revision} is not what was saved: "
        f"{len(session.history)} entries, {len(session.artifacts)} artifacts"
    ]
