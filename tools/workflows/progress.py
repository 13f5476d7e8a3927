"""What a session's history says of its attempts, read from its events; pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime

from attrs import frozen

from ..harness import SessionContext, SessionHistory
from ..harness.history_events import (
    AgentAnswered,
    BudgetExtended,
    HistoryEvent,
    PhaseEnded,
    PhaseFailed,
    PhaseRetried,
    PhaseSucceeded,
    QuestionAsked,
    QuestionEnded,
)
from ..harness.question_entries import waiting_question
from .history import BEGINNINGS, attempt_label
from .step_journal import StepKey


@frozen(kw_only=True)
class Standing:
    """Where a session stands.

    Attributes:
        keys: Every attempt that was begun, oldest first; the last is the current one.
        succeeded: Whether the current attempt's success is recorded.
        failed: Whether its failure is.
        calls: How many calls of the agent are recorded in it.
        turn: Which attempt at the current phase in the whole session it is.
        spent: What the current phase has cost in the whole session, in tokens.
        failures: How often the current phase failed in the whole session.
        waiting_for: The id of the questions that were asked last in the current attempt, while
            neither their end nor a result is recorded; or None.
    """

    keys: tuple[StepKey, ...]
    succeeded: bool
    failed: bool
    calls: int
    turn: int
    spent: int
    failures: int
    waiting_for: str | None

    @property
    def key(self) -> StepKey:
        """The current attempt."""
        return self.keys[-1]

    @property
    def round_number(self) -> int:
        """How often the current phase was entered in the whole session, from 1."""
        return self._round_of(self.key)

    def label(self, key: StepKey) -> str:
        """Name an attempt: `attempt 2`, `round 2, attempt 2`."""
        return attempt_label(self._round_of(key), key.attempt)

    def _round_of(self, key: StepKey) -> int:
        return sum(
            1
            for one in self.keys
            if one.phase == key.phase and one.attempt == 1 and one.serial <= key.serial
        )


def standing_of(session: SessionContext) -> Standing:
    """Read from the history where a session stands."""
    keys: list[StepKey] = []
    happened = [(entry.phase, entry.event) for entry in session.history]
    since = 0
    for position, (begun, event) in enumerate(happened):
        if isinstance(event, BEGINNINGS):
            again = isinstance(event, PhaseRetried) and keys
            attempt = keys[-1].attempt + 1 if again else 1
            keys.append(StepKey(serial=len(keys) + 1, phase=begun or "", attempt=attempt))
            since = position + 1
    phase = session.current_phase or ""
    if not keys:  # a history that somebody cut: the session itself still says where it is
        keys.append(StepKey(serial=1, phase=phase, attempt=session.attempt_number))
    in_phase = [event for where, event in happened if where == phase]
    in_attempt = [event for where, event in happened[since:] if where == phase]
    succeeded = _count(in_attempt, PhaseSucceeded) > 0
    failed = _count(in_attempt, PhaseFailed) > 0
    return Standing(
        keys=tuple(keys),
        succeeded=succeeded,
        failed=failed,
        calls=_count(in_attempt, AgentAnswered),
        turn=sum(1 for key in keys if key.phase == phase),
        spent=sum(event.tokens for event in in_phase if isinstance(event, AgentAnswered)),
        failures=_count(in_phase, PhaseFailed),
        waiting_for=None
        if succeeded or failed
        else waiting_question(event for _, event in reversed(happened[since:])),
    )


def _count(events: Iterable[HistoryEvent | None], kind: type[HistoryEvent]) -> int:
    return sum(1 for event in events if isinstance(event, kind))


@frozen(kw_only=True)
class TimeSpent:
    """Where an agent's session has spent its time, as far as the history says, in seconds.

    Attributes:
        agent: While an agent was asked.
        gate: While gates judged.
        person: While a person was asked; a question that still waits is not in it.
    """

    agent: float = 0.0
    gate: float = 0.0
    person: float = 0.0


def time_spent(history: Iterable[SessionHistory]) -> TimeSpent:
    """Add up where the time went."""
    agent = gate = person = 0.0
    asked: datetime | None = None
    for entry in history:
        match entry.event:
            case AgentAnswered(seconds=seconds):
                agent += seconds
            case PhaseEnded(seconds=seconds):
                gate += seconds or 0.0
            case QuestionAsked(key=str()):  # those of the first versions were recorded too late
                asked = asked or entry.timestamp
            case QuestionEnded() if asked is not None:
                person += (entry.timestamp - asked).total_seconds()
                asked = None
    return TimeSpent(agent=agent, gate=gate, person=max(0.0, person))


def cost_of_attempt(session: SessionContext) -> int:
    """Return what the current attempt has cost, in tokens."""
    cost = 0
    for entry in reversed(session.history):
        event = entry.event
        if isinstance(event, BEGINNINGS):
            break
        if isinstance(event, AgentAnswered):
            cost += event.tokens
    return cost


def charges(history: Iterable[SessionHistory]) -> Iterator[tuple[SessionHistory, int]]:
    """Go through a history with what each entry charged, in tokens.

    What an agent's answer cost stands at the answer; what a script's phase cost at its result. The
    result of an agent's attempt names what its answers cost, and charges nothing itself.
    """
    answered = False
    for entry in history:
        cost = 0
        event = entry.event
        if isinstance(event, BEGINNINGS):
            answered = False
        elif isinstance(event, AgentAnswered):
            answered = True
            cost = event.tokens
        elif isinstance(event, PhaseEnded) and not answered:
            cost = event.tokens
        yield entry, cost


def extension_in(entry: SessionHistory) -> int:
    """Return by how many tokens an entry says that the budget was extended; 0 if it does not."""
    event = entry.event
    return event.additional_tokens if isinstance(event, BudgetExtended) else 0
