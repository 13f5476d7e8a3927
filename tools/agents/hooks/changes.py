"""Changes a hook makes to a session, merged with concurrent saves."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ...base.event_log import get_logger
from ...harness.events.session_events import SessionEvents
from ...harness.services.session_recording import SessionChanges
from ...harness.session_domain import SessionContext

if TYPE_CHECKING:
    from ...harness.session_ports import LocalSessions

_ROUNDS: Final = 8


def change_session(
    sessions: LocalSessions, session_id: str, change: Callable[[SessionContext], bool]
) -> SessionContext | None:
    """Change a session, and save it if the change asks for that.

    Args:
        sessions: The sessions.
        session_id: The session.
        change: Changes the loaded session and returns whether to save it; called again with the
            newer session if another process saved meanwhile.

    Returns:
        The session as it is stored now; None if it does not exist or `change` was not called.

    Raises:
        SessionConflict: Other processes saved it at every try.
        SessionCorrupted: Its file can't be read as a session.
        WriteError: It could not be saved.
    """
    changes = SessionChanges(sessions, SessionEvents(get_logger("agentforge.session")))
    last: list[tuple[SessionContext, bool]] = []

    def noted(session: SessionContext) -> bool:
        changed = change(session)
        last[:] = [(session, changed)]
        return changed

    for _ in range(_ROUNDS):
        last.clear()
        saved = changes.change_elsewhere(session_id, noted)
        if saved or not last or not last[0][1]:
            break
    return last[0][0] if last else None
