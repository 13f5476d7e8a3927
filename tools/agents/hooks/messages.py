"""Texts for an agent and its person; pure. None of them ever asks to delete or to force."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

from ...base.settings.choices import DEFAULT_PARTS
from ...harness.session_domain import SessionContext, SessionState
from ...harness.views.briefing import brief, most_tokens
from ...harness.views.session_head import UnreadableSession
from ...harness.views.work_state import NOTHING_KNOWN, WorkState
from ..programs.hook_event import BRIEFED, SENT_ON

MAX_BRIEFING_TOKENS: Final = 2_000
MAX_BRIEFING_CHARS: Final = 9_000
MAX_TITLE_CHARS: Final = 60
_MOST_NAMED: Final = 5


def briefing(
    session: SessionContext,
    *,
    max_chars: int = MAX_BRIEFING_CHARS,
    shows: Collection[str] = DEFAULT_PARTS,
    may_show: Callable[[str], bool] = lambda _: True,
    work: WorkState = NOTHING_KNOWN,
    changed: str = "",
) -> str:
    """Return the briefing for an agent's new context, within 2,000 tokens and `max_chars`.

    The first line names its revision, because after a compaction or a restart an earlier briefing
    may be above it. The other parameters are those of `harness.views.briefing.brief`.
    """
    first = (
        f"{BRIEFED}{session.revision} of {session.session_id}. "
        "It supersedes every earlier briefing of this session."
    )
    last = f"## Next step\n{_next_step(session)}"
    around = f"{first}\n\n\n{last}"
    per_token = max(1, max_chars // MAX_BRIEFING_TOKENS)

    def count(text: str) -> int:
        return max(most_tokens(text), -(-len(text) // per_token))

    room = max(100, MAX_BRIEFING_TOKENS - count(around) - 2)
    text = brief(
        session,
        max_tokens=room,
        count_tokens=count,
        shows=shows,
        may_show=may_show,
        work=work,
        changed=changed,
    )
    return f"{first}\n{text}\n{last}"


def title_of(text: str) -> str | None:
    """Return a title made of the first line of a prompt; None if nothing of it can be shown."""
    line = next((one for one in text.splitlines() if one.strip()), "")
    shown = " ".join("".join(one if one.isprintable() else " " for one in line).split())
    return f"{shown[: MAX_TITLE_CHARS - 1]}…" if len(shown) > MAX_TITLE_CHARS else shown or None


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
        "recorded. Choose one: /agentforge:switch ID"
    )


def unreadable(session: UnreadableSession) -> str:
    """Return that nothing is recorded, because a session can't be read."""
    return (
        f"AgentForge: session {session.session_id} can't be read, so nothing is recorded and no "
        f"session was created beside it: {session.error} Another one: /agentforge:new GOAL"
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
        f"what was done is recorded. A person goes on with: {extend_command(session)}"
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
