"""When a conversation's transcript is copied to its session, and from where."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

from ...base.errors import AgentForgeError
from ...base.event_log import get_logger
from ..programs.hook_event import HookEvent, Moment
from .binding import Binding
from .session_place import SessionPlace

_MOMENTS: Final = frozenset(
    {
        *(Moment.STARTED, Moment.PROMPTED, Moment.TURN_ENDED, Moment.ENDED),
        *(Moment.COMPACTED, Moment.COMPACTION_FOUND),
    }
)
"""Not at each call of a tool, which waits for its hooks."""

_log = get_logger("agentforge.agents")


def copy_conversation(
    event: HookEvent,
    binding: Binding,
    place: SessionPlace,
    data_folder: Path,
    environment: Mapping[str, str],
    now: datetime,
) -> None:
    """Copy what is new of a conversation's transcript to the session that it is bound to.

    A failure is logged and changes nothing else: the next call copies what is missing.
    """
    if (event.moment not in _MOMENTS and not event.parts) or binding.session_id is None:
        return
    from ...base.settings.privacy import read_transcripts
    from ..transcripts.copying import ConversationSource, copy_transcript
    from ..transcripts.opencode import entries_of

    own = [binding.transcript] if binding.transcript else []
    conversation = ConversationSource(
        event.program,
        event.agent_session,
        files=[*own, *binding.meter.offsets],
        begins=binding.begins,
        entries=list(entries_of(event.parts, event.agent_session)),
    )
    try:
        how = read_transcripts(data_folder, environment)
        copy_transcript(place.sessions, binding.session_id, conversation, how=how, now=now)
    except AgentForgeError as error:
        _log.warning(
            "agent.transcript_not_copied",
            session_id=binding.session_id,
            program=event.program,
            agent_session=event.agent_session,
            error=str(error),
        )
