"""Changes of a session by a hook: on top of what others save at the same time."""

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
    """Change a session, and save it if there is something to save.

    Args:
        sessions: The sessions.
        session_id: The session.
        change: Changes what was found, and says whether it has to be saved; called again with
            what others saved meanwhile.

    Returns:
        The session as it is stored now, or None where there is none or `change` was not called.

    Raises:
        SessionConflict: Others saved it each time.
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
