"""Charge and copy what other conversations of a session did, before the next one goes on.

A killed agent program calls no more hooks; its own files still record what it spent and said.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from ...base.files import DurableError
from ...harness.session_domain import SessionContext
from ..ledger import Purse
from ..programs.hook_event import HookEvent, Moment
from .binding import BindingFile, conversations_of
from .edited_files import edited_files
from .recording import Recorded, change_session, record
from .session_place import SessionPlace
from .transcripts import copy_conversation


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
    before = binding.meter.total
    binding.read_usage(event)
    edited = edited_files(binding.take_edits(event), data_folder.parent)
    if not binding.is_bound_to(place, session_id):
        return
    copy_conversation(event, binding, place, data_folder, purse.environment, now)
    if binding.meter.total in {before, binding.charged.usage.total}:
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
    file.write(binding)
