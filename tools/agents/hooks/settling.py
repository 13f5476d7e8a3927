"""Copy a conversation's transcript; settle other conversations before the next one goes on.

A killed agent program calls no more hooks; its own files still record what it spent and said.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Final

from ...base.errors import AgentForgeError
from ...base.event_log import get_logger
from ...base.files import DurableError
from ...harness.session_domain import SessionContext
from ..ledger import Purse
from ..programs.hook_event import HookEvent, Moment
from .binding import Binding, BindingFile, conversations_of
from .edited_files import edited_files
from .recording import Recorded, change_session, record
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


def settle_conversations(
    conversations: Path,
    place: SessionPlace,
    session_id: str,
    *,
    data_folder: Path,
    but: tuple[str, str],
    now: datetime,
    purse: Purse,
) -> None:
    """Charge the outstanding usage of every other conversation of a session; copy its transcript.

    A conversation that a hook holds at the moment is left to that hook.

    Args:
        conversations: The folder of the project's conversations.
        place: Where the session is.
        session_id: The session.
        data_folder: The project's `.agentforge`.
        but: The conversation that this hook is called for: its program and its id.
        now: The time.
        purse: Where the person's spending is recorded; locates their configuration.
    """
    for program, agent_session in conversations_of(conversations, session_id):
        if (program, agent_session) == but:
            continue
        file = BindingFile(conversations, program, agent_session, timeout_s=0.0)
        try:
            file.lock()
        except DurableError:
            continue
        try:
            event = HookEvent(program, "", Moment.ENDED, agent_session)
            _settle(file, event, place, session_id, data_folder, purse, now)
        except DurableError:
            continue
        finally:
            file.release()


def _settle(
    file: BindingFile,
    event: HookEvent,
    place: SessionPlace,
    session_id: str,
    data_folder: Path,
    purse: Purse,
    now: datetime,
) -> None:
    binding = file.read()
    binding.read_usage(event)
    edited = edited_files(binding.take_edits(event), data_folder.parent)
    if not binding.is_bound_to(place, session_id):
        return
    copy_conversation(event, binding, place, data_folder, purse.environment, now)
    if binding.meter.total == binding.charged.usage.total and not (edited or binding.waits):
        return

    spent = binding.spent(purse.environment)
    done: list[Recorded] = []

    def change(session: SessionContext) -> bool:
        if session.state.is_terminal:
            return False
        recorded = record(session, event, spent, now=now, edited=edited)
        binding.charged = recorded.charged
        done[:] = [recorded]
        return recorded.changed

    change_session(place.sessions, session_id, change)
    for recorded in done:
        purse.charge(*recorded.spent)
    binding.waits = False
    file.write(binding)
