"""What agent programs did in a session, by conversation; derived from its history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ..domain.history_events import (
    BUDGET_CAUSE,
    AgentCompacted,
    AgentEdited,
    AgentGateJudged,
    AgentPrompted,
    AgentStarted,
    AgentTurnEnded,
    AgentUsage,
    OfAgent,
    SessionPaused,
    cost_words,
)
from ..domain.session_entries import SessionHistory

_SILENT_FOR = timedelta(hours=1)
"""How long nothing was heard of a turn that counts as interrupted."""
_ABOUT_AGENTS = "agent_"
"""The prefix of the actions of all events of agent programs."""


@dataclass(slots=True)
class Conversation:
    """One conversation of an agent program, as recorded in a session.

    Attributes:
        program: The program.
        agent_session: The program's own id of it.
        first: The time of its first entry.
        last: The time of its last entry.
        prompts: The number of a person's prompts.
        turns: The number of turns that the agent ended.
        compactions: How often its context was replaced by a summary.
        at_work: Whether its last prompt's turn has not ended, as far as is recorded.
        gates: How often the project's check judged the end of a turn.
        files: The files that it created or modified, oldest first.
        models: The reported tokens, by model; those of an unknown model under "".
        kinds: The same by kind, as far as that is known.
        micro_usd: What they cost, in millionths of a US dollar; None if that is unknown.
        unpriced: How many of them are of models whose price is unknown.
    """

    program: str
    agent_session: str
    first: datetime
    last: datetime
    prompts: int = 0
    turns: int = 0
    compactions: int = 0
    at_work: bool = False
    gates: int = 0
    files: list[str] = field(default_factory=list)
    models: dict[str, int] = field(default_factory=dict)
    kinds: Counter[str] = field(default_factory=Counter)
    micro_usd: int | None = None
    unpriced: int = 0

    @property
    def tokens(self) -> int:
        """All reported tokens."""
        return sum(self.models.values())

    @property
    def cost(self) -> str:
        """What they cost, in words."""
        return cost_words(self.micro_usd, self.unpriced)


def conversations(history: Iterable[SessionHistory]) -> list[Conversation]:
    """Return the conversations that worked on a session, in the order in which they started."""
    found: dict[tuple[str, str], Conversation] = {}
    for entry in history:
        if not entry.action.startswith(_ABOUT_AGENTS):
            continue
        event = entry.event
        if isinstance(event, OfAgent):
            key, moment = (event.program, event.agent_session), entry.timestamp
            one = found.setdefault(key, Conversation(*key, moment, moment))
            one.last = moment
            _add(one, event)
    return list(found.values())


def _add(one: Conversation, event: OfAgent) -> None:
    match event:
        case AgentPrompted():
            one.prompts += 1
            one.at_work = True
        case AgentTurnEnded():
            one.turns += 1
            one.at_work = False
        case AgentStarted():
            one.at_work = False  # the program was ended within the turn
        case AgentCompacted():
            one.compactions += 1
        case AgentGateJudged():
            one.gates += 1
        case AgentEdited(path=path) if path not in one.files:
            one.files.append(path)
        case AgentUsage():
            rest = sum(event.kinds.values()) or event.tokens
            known = {**event.models} or ({"": rest} if rest else {})
            for name, tokens in known.items():
                one.models[name] = one.models.get(name, 0) + tokens
            one.kinds.update(event.kinds)
            one.unpriced += event.unpriced
            if event.micro_usd is not None:
                one.micro_usd = (one.micro_usd or 0) + event.micro_usd


def turn_under_way(history: Iterable[SessionHistory], now: datetime) -> Conversation | None:
    """Return a conversation in which an agent seems to be at work on a prompt; None without one."""
    found = [one for one in conversations(history) if one.at_work and now - one.last < _SILENT_FOR]
    return found[-1] if found else None


def budget_stops(history: Iterable[SessionHistory]) -> list[SessionHistory]:
    """Return the entries of an agent being stopped because of the budget."""
    return [
        entry
        for entry in history
        if entry.event_type is SessionPaused
        and isinstance(event := entry.event, SessionPaused)
        and event.cause == BUDGET_CAUSE
    ]
