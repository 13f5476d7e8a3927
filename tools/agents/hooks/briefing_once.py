"""One whole briefing in a context: a restarted conversation that has it gets what is new only."""

from __future__ import annotations

from collections.abc import Callable, Collection

from ...harness.session_domain import SessionContext
from ...harness.views.briefing import KnownRecord
from ...harness.views.work_state import NOTHING_KNOWN, WorkState
from ..programs.context_file import holds_texts
from ..programs.hook_event import HookEvent
from ..programs.registry import AgentProgram
from . import messages
from .binding import Binding

_RESUMED = "resume"


def briefing_for(
    session: SessionContext,
    event: HookEvent,
    binding: Binding,
    program: AgentProgram,
    *,
    shows: Collection[str],
    may_show: Callable[[str], bool],
    work: WorkState = NOTHING_KNOWN,
    changed: str = "",
) -> str:
    """Return the briefing for a new context, or an update where the context has one already.

    The binding remembers the briefing. Whether the context still has it, the program's own file
    says, since a killed program may not have written what it was given.
    """
    most = program.MAX_CONTEXT_CHARS
    whole = messages.briefing(
        session, max_chars=most, shows=shows, may_show=may_show, work=work, changed=changed
    )
    known, sent = binding.briefing, binding.briefed
    binding.briefing = whole
    if (
        known is not None
        and event.source == _RESUMED
        and binding.entries <= len(session.history)
        and holds_texts(event.transcript, sent, program.COMPACTED)
    ):
        update = messages.update(
            session,
            known=KnownRecord(known, binding.entries, event.agent_session),
            max_chars=most,
            shows=shows,
            may_show=may_show,
            work=work,
            changed=changed,
        )
        binding.briefed = [sent[0], messages.update_mark(session)]
        text = update
    else:
        binding.briefed = [messages.briefing_mark(session)]
        text = whole
    binding.entries = len(session.history)
    return text
