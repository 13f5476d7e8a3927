"""What a session's history says of its attempts: pure, and the one place that reads it so."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Final

from attrs import frozen

from ..harness import SessionContext, SessionHistory
from ..harness.question_entries import ASKED, OUTCOMES, waiting_question
from .history import BEGINNINGS, attempt_label
from .step_journal import StepKey

ANSWERED: Final = "agent_answered"
"""The history's entry that an agent's answer is stored and its tokens are charged."""

RESULTS: Final = frozenset({"phase_succeeded", "phase_failed"})
"""The history's entries that end an attempt."""

_CHARGED: Final = re.compile(r"; (\d{1,19}) tokens(?:;|$)")
_EXTENDED: Final = re.compile(r"by (\d{1,19}) ")
_SECONDS: Final = re.compile(r"; (\d{1,9}\.\d\d) s(?:;|$)")
_ENDINGS: Final = frozenset(OUTCOMES.values())
_SPENT: Final = re.compile(r"call \d{1,9}: (\d{1,19}) tokens")


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
    since: list[SessionHistory] = []
    for entry in session.history:
        if entry.action in BEGINNINGS:
            again = entry.action == "phase_retried" and keys
            attempt = keys[-1].attempt + 1 if again else 1
            keys.append(StepKey(serial=len(keys) + 1, phase=entry.phase or "", attempt=attempt))
            since = []
        else:
            since.append(entry)
    phase = session.current_phase or ""
    if not keys:  # a history that somebody cut: the session itself still says where it is
        keys.append(StepKey(serial=1, phase=phase, attempt=session.attempt_number))
    actions = [entry.action for entry in since if entry.phase == phase]
    succeeded, failed = "phase_succeeded" in actions, "phase_failed" in actions
    return Standing(
        keys=tuple(keys),
        succeeded=succeeded,
        failed=failed,
        calls=actions.count(ANSWERED),
        turn=sum(1 for key in keys if key.phase == phase),
        spent=_spent(session.history, phase),
        failures=sum(
            1
            for entry in session.history
            if entry.action == "phase_failed" and entry.phase == phase
        ),
        waiting_for=None if succeeded or failed else waiting_question(since),
    )


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
        if entry.action == ANSWERED:
            agent += _seconds_in(entry)
        elif entry.action in RESULTS:
            gate += _seconds_in(entry)
        elif entry.action == ASKED:
            asked = asked or entry.timestamp
        elif entry.action in _ENDINGS and asked is not None:
            person += (entry.timestamp - asked).total_seconds()
            asked = None
    return TimeSpent(agent=agent, gate=gate, person=max(0.0, person))


def _seconds_in(entry: SessionHistory) -> float:
    found = _SECONDS.search((entry.details or "").split("\n", 1)[0])
    return 0.0 if found is None else float(found[1])


def cost_of_attempt(session: SessionContext) -> int:
    """Return what the current attempt has cost, in tokens."""
    cost = 0
    for entry in reversed(session.history):
        if entry.action in BEGINNINGS:
            break
        if entry.action == ANSWERED:
            cost += spent_in(entry)
    return cost


def spent_in(entry: SessionHistory) -> int:
    """Return what an answer's entry says that it cost, in tokens; 0 if it says nothing."""
    found = _SPENT.match(entry.details or "")
    return 0 if found is None else int(found[1])


def charges(history: Iterable[SessionHistory]) -> Iterator[tuple[SessionHistory, int]]:
    """Go through a history with what each entry charged, in tokens.

    What an agent's answer cost stands at the answer; what a script's phase cost at its result. The
    result of an agent's attempt names what its answers cost, and charges nothing itself.
    """
    answered = False
    for entry in history:
        cost = 0
        if entry.action in BEGINNINGS:
            answered = False
        elif entry.action == ANSWERED:
            answered = True
            cost = spent_in(entry)
        elif entry.action in RESULTS and not answered:
            found = _CHARGED.search((entry.details or "").split("\n", 1)[0])
            cost = 0 if found is None else int(found[1])
        yield entry, cost


def extension_in(entry: SessionHistory) -> int:
    """Return by how many tokens an entry says that the budget was extended; 0 if it does not."""
    found = _EXTENDED.match(entry.details or "") if entry.action == "budget_extended" else None
    return 0 if found is None else int(found[1])


def _spent(history: Sequence[SessionHistory], phase: str) -> int:
    return sum(
        spent_in(entry) for entry in history if entry.action == ANSWERED and entry.phase == phase
    )
