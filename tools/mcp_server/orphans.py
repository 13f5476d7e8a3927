"""Questions whose waiting server was killed, found by the next one.

A server that is killed can't withdraw what its calls wait for. So the call id of such a question
names the process that waits, as lock files name their owners; when that process is certainly gone,
nobody can take the answer any more.
"""

from __future__ import annotations

import json
from typing import Final

from tools.durable import DurableError
from tools.event_log import get_logger
from tools.questions import QuestionError, QuestionSessions
from tools.questions.owners import OsProcesses, Owner, Processes, judge

_PREFIX: Final = "agentforge-mcp-waits "
REASON: Final = "the server that waited for it was killed"

_log = get_logger("agentforge.mcp")


def waiting_call_id(call_id: str, processes: Processes | None = None) -> str:
    """Return a call id that also names this process as the one that waits.

    Args:
        call_id: Tells the call from all others.
        processes: The machine's processes.
    """
    known = processes if processes is not None else OsProcesses()
    return _PREFIX + json.dumps(Owner.current(known, call_id).document())


def is_orphan(call_id: str | None, processes: Processes | None = None) -> bool:
    """Tell whether a call id names a waiting process that is certainly gone.

    One of another machine or container is never taken for gone, nor is a call id of anybody else.
    """
    if call_id is None or not call_id.startswith(_PREFIX):
        return False
    known = processes if processes is not None else OsProcesses()
    owner = call_id.removeprefix(_PREFIX).encode()
    return judge(owner, written_at=0.0, processes=known).is_dead


def withdraw_orphans(sessions: QuestionSessions, processes: Processes | None = None) -> list[str]:
    """End as abandoned every question that a killed server waited for.

    Args:
        sessions: The question sessions.
        processes: The machine's processes.

    Returns:
        The ids of those that were ended. What can't be read or ended is logged, and hinders
        nobody.
    """
    withdrawn = []
    try:
        waiting = sessions.pending()
    except (QuestionError, DurableError, OSError) as error:
        _log.warning("mcp.orphans_not_looked_for", error=str(error))
        return []
    for one in waiting:
        if not is_orphan(one.call_id, processes):
            continue
        try:
            sessions.abandon_session(one.session_id, REASON)
        except (QuestionError, DurableError, OSError) as error:
            _log.warning("mcp.not_withdrawn", session_id=one.session_id, error=str(error))
            continue
        withdrawn.append(one.session_id)
        _log.warning("mcp.questions_abandoned", session_id=one.session_id, reason=REASON)
    return withdrawn
