"""The progress of a run, derived from the session's events; pure.

The session has everything that a run knows: its phase, whether that phase's current attempt has a
result, how many attempts there were. A worker that resumes a session reads only that, so it makes
no difference whether the previous worker ended well, was paused or was killed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

from attrs import frozen

from ...harness import SessionContext, SessionHistory, SessionState
from ...harness.domain.history_events import (
    AgentAnswered,
    AgentUsage,
    BackAtCheckpoint,
    BudgetExtended,
    HistoryEvent,
    InputsPlaced,
    PhaseAdvanced,
    PhaseEnded,
    PhaseFailed,
    PhaseRetried,
    PhaseSucceeded,
    QuestionAsked,
    QuestionEnded,
    SessionAborted,
    SessionCreated,
    SessionForked,
    SessionPaused,
    SessionRewound,
    WorkspacePrepared,
)
from ...harness.views.checkpoints import in_force
from ...harness.views.question_entries import waiting_question
from .step_journal import StepKey

BEGINNINGS: Final = (SessionCreated, PhaseAdvanced, PhaseRetried, SessionRewound, SessionForked)
"""The events that begin an attempt."""
_RETURNS: Final = (SessionRewound, SessionForked)
_STOPS: Final[dict[SessionState, type[HistoryEvent]]] = {
    SessionState.PAUSED: SessionPaused,
    SessionState.ABORTED: SessionAborted,
}
_BEGINNING_ACTIONS: Final = frozenset(kind.action for kind in BEGINNINGS)
_RESULTS: Final = (PhaseSucceeded, PhaseFailed)
_Charging = AgentAnswered | PhaseEnded | AgentUsage
_CHARGING: Final = (AgentAnswered, AgentUsage, *_RESULTS)
"""The events that charge tokens; charges are read from no other."""
_MOST_PATHS: Final = 1000


def attempt_label(round_number: int, attempt: int) -> str:
    """Return the label of an attempt: `attempt 2`, after a return to the phase with its round.

    Args:
        round_number: How often the phase was entered, from 1.
        attempt: The number of the attempt since then, from 1.
    """
    if round_number == 1:
        return f"attempt {attempt}"
    return f"round {round_number}" + (f", attempt {attempt}" if attempt > 1 else "")


@frozen(kw_only=True)
class Progress:
    """The progress of a session.

    Attributes:
        keys: Every attempt that was started, oldest first; the last is the current one.
        succeeded: Whether the current attempt's success is recorded.
        failed: Whether its failure is recorded.
        calls: How many calls of the agent it has recorded.
        turn: The number of this attempt at the current phase in the whole session.
        spent: The cost of the current phase in the whole session, in tokens.
        failures: How often the current phase failed in the whole session.
        waiting_for: The id of the current attempt's last questions, while neither their end nor a
            result is recorded; or None.
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
        """Return the label of an attempt: `attempt 2`, `round 2, attempt 2`."""
        return attempt_label(self._round_of(key), key.attempt)

    def _round_of(self, key: StepKey) -> int:
        return sum(
            1
            for one in set(self.keys)
            if one.phase == key.phase and one.attempt == 1 and one.serial <= key.serial
        )


@frozen
class _Attempts:
    """The attempts of a history: their keys, the last one's start, and its initial result."""

    keys: list[StepKey]
    begun: int
    result: type[HistoryEvent] | None


def _attempts(history: Sequence[SessionHistory]) -> _Attempts:
    keys: list[StepKey] = []
    at_entry: list[int] = []  # how many keys there were after each entry
    begun = taken = 0
    result: type[HistoryEvent] | None = None
    for position, entry in enumerate(history):
        if entry.action in _BEGINNING_ACTIONS and (kind := entry.event_type) is not None:
            again = kind is PhaseRetried and keys
            attempt = keys[-1].attempt + 1 if again else 1
            result, former = None, 0
            if kind in _RETURNS and isinstance(back := entry.event, BackAtCheckpoint):
                attempt, result = back.attempt, _result_of(back)
                if isinstance(back, SessionForked):
                    taken = max(taken, back.parent_entries)  # the parent's steps may be here, too
                if result is not None and back.position < position:
                    former = at_entry[back.position]  # its verdict is under its former key
            if former:
                key = keys[former - 1]
            else:
                taken += 1
                key = StepKey(serial=taken, phase=entry.phase or "", attempt=attempt)
            keys.append(key)
            begun = position + 1
        at_entry.append(len(keys))
    return _Attempts(keys, begun, result)


def progress_of(session: SessionContext) -> Progress:
    """Return a session's progress, from its history."""
    attempts = _attempts(session.history)
    keys, begun, result = attempts.keys, attempts.begun, attempts.result
    phase = session.current_phase or ""
    if not keys:  # an incomplete history: the session itself still names the phase
        keys.append(StepKey(serial=1, phase=phase, attempt=session.attempt_number))
    current = session.history[begun:]
    calls = 0
    for entry in current:
        if entry.phase == phase:
            if entry.event_type in _RESULTS:
                result = entry.event_type
            calls += _answer(entry) is not None
    in_phase = [entry for entry in session.history if entry.phase == phase]
    counting = [entry for entry in in_force(session.history) if entry.phase == phase]
    return Progress(
        keys=tuple(keys),
        succeeded=result is PhaseSucceeded,
        failed=result is PhaseFailed,
        calls=calls,
        turn=len({key for key in keys if key.phase == phase}),
        spent=sum(answer.tokens for entry in in_phase if (answer := _answer(entry))),
        failures=sum(1 for entry in counting if entry.event_type is PhaseFailed),
        waiting_for=None
        if result is not None
        else waiting_question(entry.event for entry in reversed(current)),
    )


def _result_of(back: BackAtCheckpoint) -> type[HistoryEvent] | None:
    """Return the attempt's result at the checkpoint."""
    if back.succeeded is None:
        return None
    return PhaseSucceeded if back.succeeded else PhaseFailed


def _answer(entry: SessionHistory) -> AgentAnswered | None:
    event = entry.event if entry.event_type is AgentAnswered else None
    return event if isinstance(event, AgentAnswered) else None


@frozen(kw_only=True)
class TimeSpent:
    """How an agent's session spent its time, according to its history, in seconds.

    Attributes:
        agent: Waiting for an agent.
        gate: Running gates.
        person: Waiting for a person's answers; pending questions are not included.
    """

    agent: float = 0.0
    gate: float = 0.0
    person: float = 0.0


def time_spent(history: Iterable[SessionHistory]) -> TimeSpent:
    """Add up the times in a history."""
    agent = gate = person = 0.0
    asked: datetime | None = None
    for entry in history:
        match entry.event:
            case AgentAnswered(seconds=seconds):
                agent += seconds
            case PhaseEnded(seconds=seconds):
                gate += seconds or 0.0
            case QuestionAsked(key=str()):  # one without a key is recorded at its end
                asked = asked or entry.timestamp
            case QuestionEnded() if asked is not None:
                person += (entry.timestamp - asked).total_seconds()
                asked = None
    return TimeSpent(agent=agent, gate=gate, person=max(0.0, person))


def cost_of_attempt(session: SessionContext) -> int:
    """Return the cost of the current attempt, in tokens."""
    cost = 0
    for entry in reversed(session.history):
        event = entry.event
        if isinstance(event, BEGINNINGS):
            break
        if isinstance(event, AgentAnswered):
            cost += event.tokens
    return cost


def charges(history: Iterable[SessionHistory]) -> Iterator[tuple[SessionHistory, int]]:
    """Yield each entry of a history with the tokens it charged.

    An agent program's conversation is charged where the hook recorded it, an agent's answer at the
    answer, a script's phase at its result. The result of an agent's attempt names the cost of its
    answers and charges nothing itself.
    """
    answered = False
    for entry in history:
        cost = 0
        kind = entry.event_type
        if kind in BEGINNINGS:
            answered = False
        elif kind in _CHARGING and isinstance(event := entry.event, _Charging):
            is_answer = isinstance(event, AgentAnswered)
            if is_answer or isinstance(event, AgentUsage) or not answered:
                cost = event.tokens
            answered = answered or is_answer
        yield entry, cost


def extension_in(entry: SessionHistory) -> int:
    """Return by how many tokens an entry extended the budget; 0 if it did not."""
    event = entry.event
    return event.additional_tokens if isinstance(event, BudgetExtended) else 0


def inputs_placed(targets: list[str]) -> InputsPlaced:
    """Return the event that the inputs are permanently in the workspace."""
    return InputsPlaced(paths=tuple(targets[:_MOST_PATHS]))


def has_inputs(session: SessionContext) -> bool:
    """Return whether the inputs are in the workspace."""
    return any(entry.event_type is InputsPlaced for entry in in_force(session.history))


def works_on_repository(session: SessionContext) -> bool:
    """Return whether the workspace is a checkout of a repository."""
    return any(entry.event_type is WorkspacePrepared for entry in session.history)


def phases_passed(session: SessionContext) -> set[str | None]:
    """Return the phases that succeeded at least once."""
    return {entry.phase for entry in session.history if entry.event_type is PhaseSucceeded}


def why_stopped(session: SessionContext) -> str | None:
    """Return why a session was paused or aborted; None if it was not, or without a reason."""
    kind = _STOPS.get(session.state)
    for entry in reversed(session.history):
        if entry.event_type is kind and isinstance(
            event := entry.event, SessionPaused | SessionAborted
        ):
            return event.reason
    return None


def pause_meanwhile(session: SessionContext) -> str:
    """Return in words why a session was paused while one of its phases ran."""
    reason = why_stopped(session)
    return f"paused while it ran: {reason}" if reason else "paused while it ran"


def last_problem(session: SessionContext) -> str | None:
    """Return why the last failed attempt failed; None if none did."""
    for entry in reversed(session.history):
        if entry.event_type is PhaseFailed:
            event = entry.event
            return event.problem if isinstance(event, PhaseFailed) else None
    return None
