"""Texts for an agent and its person. None of them ever asks to delete or to force.

A context has one whole briefing: a restarted conversation that has it gets what is new only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from ...harness.session_domain import SessionContext, SessionState
from ...harness.session_layout import STEPS_KEY
from ...harness.views.briefing import KnownRecord, brief, most_tokens
from ...harness.views.session_head import UnreadableSession
from ...harness.views.work_state import NOTHING_KNOWN, KnownWork
from ..ledger import Standing
from ..programs.context_file import holds_texts
from ..programs.hook_event import BRIEFED, SENT_ON, UPDATED, HookEvent
from ..programs.registry import AgentProgram
from .binding import Binding
from .recording import title_of

if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import TypedDict, Unpack

    from ...harness.session_ports import LocalSessions
    from ...harness.views.work_state import WorkState

    class Briefed(TypedDict, total=False):
        """Arguments of `harness.views.briefing.brief`."""

        shows: Collection[str]
        may_show: Callable[[str], bool]
        work: WorkState
        changed: str
        steps: Sequence[str]


MAX_BRIEFING_TOKENS: Final = 2_000
MAX_BRIEFING_CHARS: Final = 9_000
_WHOLE_TOKENS: Final = 1_700
_UPDATE_TOKENS: Final = (500, 280, 180)
"""The most of the first, the second and each later update to a briefing.

These tokens are counted as `most_tokens` does, 3 bytes each: with the briefing, the first three
take 2,000 tokens of 4 characters.
"""
_MOST_NAMED: Final = 5
_RESUMED: Final = "resume"


def known_work(
    sessions: LocalSessions, session: SessionContext, may_show: Callable[[str], bool]
) -> KnownWork:
    """Return the state of a session's work for its briefing, without what can't be read."""
    from ...base.errors import AgentForgeError
    from ..transcripts.state import work_state
    from .work_tree import changed_files

    try:
        work = work_state(sessions, session.session_id, session, may_show=may_show)
    except AgentForgeError:  # a briefing without it is better than none
        work = NOTHING_KNOWN
    steps: list[str] = []
    if STEPS_KEY in session.workflow_state and may_show(""):
        from ...harness.steps.step_views import program_view

        program = program_view(sessions, session)
        steps = [] if program is None else program.lines()
    changed = changed_files(sessions, session.session_id)
    return KnownWork(work=work, changed=changed, steps=steps)


def briefing_for(
    session: SessionContext,
    event: HookEvent,
    binding: Binding,
    program: AgentProgram,
    **more: Unpack[Briefed],
) -> str:
    """Return the briefing for a new context, or an update where the context has one already.

    The binding remembers the briefing. Whether the context still has it, the program's own file
    says, since a killed program may not have written what it was given.
    """
    most = program.MAX_CONTEXT_CHARS
    text = whole = briefing(session, max_chars=most, **more)
    briefed = [_briefing_mark(session)]
    if (
        event.source == _RESUMED
        and binding.briefing is not None
        and binding.entries <= len(session.history)
        and holds_texts(event.transcript, binding.briefed, program.COMPACTED)
    ):
        known = KnownRecord(binding.briefing, binding.entries, event.agent_session)
        updates = min(len(binding.briefed), len(_UPDATE_TOKENS))
        text = update(session, known, _UPDATE_TOKENS[updates - 1], max_chars=most, **more)
        briefed = [*binding.briefed[: len(_UPDATE_TOKENS)], _update_mark(session)]
    binding.briefing, binding.briefed = whole, briefed
    binding.entries = len(session.history)
    return text


def _briefing_mark(session: SessionContext) -> str:
    """Return how the briefing of a session at its revision begins."""
    return f"{BRIEFED}{session.revision} of {session.session_id}."


def _update_mark(session: SessionContext) -> str:
    """Return how the update to an earlier briefing begins."""
    return f"{UPDATED}{session.revision} of {session.session_id}:"


def briefing(
    session: SessionContext, *, max_chars: int = MAX_BRIEFING_CHARS, **more: Unpack[Briefed]
) -> str:
    """Return the briefing for an agent's new context, within 2,000 tokens and `max_chars`.

    The first line names its revision, because after a compaction or a restart an earlier briefing
    may be above it.
    """
    first = f"{_briefing_mark(session)} It supersedes every earlier briefing of this session."
    last = f"\n## Next step\n{_next_step(session)}"
    return f"{first}\n{_record(session, first + last, max_chars, more)}{last}"


def update(
    session: SessionContext,
    known: KnownRecord,
    max_tokens: int,
    *,
    max_chars: int = MAX_BRIEFING_CHARS,
    **more: Unpack[Briefed],
) -> str:
    """Return what is new since a briefing that the agent's context has, within such limits.

    One line if nothing is.
    """
    budget = session.token_budget
    first = (
        f"{_update_mark(session)} {max(0, budget.tokens_remaining):,} of "
        f"{budget.total_budget:,} tokens are left. The briefing above still holds"
    )
    last = f"\n## Next step\n{_next_step(session)}" if session.state is SessionState.PAUSED else ""
    news = _record(session, first + last, max_chars, more, known, max_tokens)
    return f"{first}, but for what is new:\n{news}{last}" if news else f"{first}.{last}"


def _record(
    session: SessionContext,
    around: str,
    max_chars: int,
    more: Briefed,
    known: KnownRecord | None = None,
    max_tokens: int = _WHOLE_TOKENS,
) -> str:
    """Return the session's record, in the room that is left beside the text around it."""
    per_token = max(1, max_chars // MAX_BRIEFING_TOKENS)

    def count(text: str) -> int:
        return max(most_tokens(text), -(-len(text) // per_token))

    room = max(50, max_tokens - count(around) - 10)
    return brief(session, max_tokens=room, count_tokens=count, known=known, **more)


def first_line(session: SessionContext) -> str:
    """Return what a person sees when a conversation begins to work on a session."""
    budget = session.token_budget
    name = session.title or title_of(session.goal or "")
    said = f": '{name}'" if name else ""
    return (
        f"session {session.session_id[-4:]}{said}, {budget.utilization_percent:.0f} % of "
        f"{budget.total_budget:,} tokens; agentforge ui"
    )


def several(session_ids: Sequence[str]) -> str:
    """Return that it is not known which of a branch's open sessions a conversation is about."""
    names = ", ".join(session_ids[:_MOST_NAMED])
    return (
        f"AgentForge: {len(session_ids)} sessions of this branch are open ({names}), so nothing is "
        "recorded. Choose one: agentforge:switch ID"
    )


def unreadable(session: UnreadableSession) -> str:
    """Return that nothing is recorded, because a session can't be read."""
    return (
        f"AgentForge: session {session.session_id} can't be read, so nothing is recorded and no "
        f"session was created beside it: {session.error} Another one: agentforge:new GOAL"
    )


def _next_step(session: SessionContext) -> str:
    if session.state is SessionState.PAUSED:
        if session.token_budget.is_exhausted:
            return (
                "The session is paused, because its budget is spent. A person extends it: "
                f"{extend_command(session)}"
            )
        return "The session is paused. A person decides when it goes on."
    phase = " its phase" if session.current_phase else " its goal"
    return (
        f"Go on with{phase} from where the record ends. Check what is done rather than do it again."
    )


def warning(session: SessionContext) -> str:
    """Return the warning for 80 % of the budget."""
    budget = session.token_budget
    return (
        f"AgentForge: {budget.utilization_percent:.0f} % of this session's token budget is spent, "
        f"{max(0, budget.tokens_remaining):,} tokens are left. Finish what matters most, and say "
        "what is left to do."
    )


def spent(session: SessionContext) -> str:
    """Return why the agent has to stop, and what a person can do."""
    budget = session.token_budget
    return (
        f"AgentForge: the token budget of session {session.session_id} is spent "
        f"({budget.tokens_used:,} of {budget.total_budget:,} tokens). The session is paused, and "
        f"what was done is recorded. A person goes on with: agentforge:budget TOKENS; elsewhere, "
        f"with {extend_command(session)}, or in agentforge ui"
    )


def near(limit: Standing) -> str:
    """Return the line for 80 % of a limit of the person."""
    return f"AgentForge: {limit.spent * 100 // limit.most} % of a limit is spent: {limit}."


def over(session: SessionContext, limit: Standing) -> str:
    """Return why the agent has to stop for a limit of the person, and what they can do."""
    more = "5usd" if limit.unit == "micro_usd" else "TOKENS"
    return (
        f"AgentForge: a limit is spent: {limit}. The session is paused, and what was done is "
        f"recorded. A person goes on with: agentforge:budget {more} {limit.scope}; elsewhere, with "
        f"{limit.extension(session.session_id)}, or in agentforge ui"
    )


def extend_command(session: SessionContext) -> str:
    """Return the command by which a person extends the budget."""
    return f"agentforge session budget {session.session_id} --extend TOKENS"


def not_done(summary: str, evidence: str, *, number: int, most: int) -> str:
    """Return why the agent is sent back to work: the gate's verdict and its evidence."""
    return (
        f"{SENT_ON} ({summary}; {number} of at most {most} times that you are sent on). "
        f"Mend what it shows:\n{evidence}"
    )
