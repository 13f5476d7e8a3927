"""Questions that nobody can take the answer of any more, ended by the next server that looks."""

from __future__ import annotations

from ...durable import DurableError
from ...event_log import get_logger
from ...questions import QuestionError, QuestionSessions

_log = get_logger("agentforge.mcp")


def withdraw_orphans(sessions: QuestionSessions) -> None:
    """End as abandoned every question whose asker was killed, as by looking at what waits.

    What can't be read or ended is logged, and hinders nobody.
    """
    try:
        sessions.pending()
    except (QuestionError, DurableError, OSError) as error:
        _log.warning("mcp.orphans_not_looked_for", error=str(error))


__all__ = ["withdraw_orphans"]
