"""The attempts of a session: prompt, answer, verdict and change of each; pure.

What an attempt is comes from the history, what was said in it from its stored steps, and what it
changed from two snapshots, or, where there are none, from what its answers say.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import Any, Final

from attrs import define, evolve, field, frozen

from ....harness import SessionContext, SessionHistory
from ....harness.domain.history_events import (
    AgentAnswered,
    BackAtCheckpoint,
    GateJudged,
    PhaseEnded,
    PhaseFailed,
    PhaseRetried,
    PhaseSucceeded,
    SessionForked,
    SessionRewound,
)
from ....harness.views.checkpoints import checkpoints
from ....workflows.run.progress import BEGINNINGS, attempt_label, charges, progress_of
from ....workflows.run.step_journal import StepKey
from .patches import FileDiff
from .spans import TimeSpan, within

Step = Mapping[str, Any] | str
"""A stored step as JSON has it, or why it can't be read."""


class Outcome(Enum):
    """How an attempt ended."""

    PASSED = "passed"
    FAILED = "failed"
    OPEN = "open"


@frozen(kw_only=True)
class CallView:
    """One call of an agent.

    Attributes:
        number: Which one of the attempt, from 1.
        agent: The agent's description, or None.
        tokens: What it cost, in tokens; None where the history does not say.
        usage: The same by kind ("input", "output").
        is_estimated: Whether that was estimated.
        seconds: How long it took, in seconds.
        failure: Why there is no answer, or None.
        prompt: What it was asked, or None where that is not kept or not read.
        answer: What it said, likewise.
        questions: What it asked instead of changing files.
        put_back: Paths that it changed in place and was not allowed to, each with the reason.
        dropped: Paths that it changed and that were not taken, since the project ignores them.
        problems: Why its steps can't be read.
    """

    number: int
    agent: str | None = None
    tokens: int | None = None
    usage: Mapping[str, int] = field(factory=dict)
    is_estimated: bool = False
    seconds: float = 0.0
    failure: str | None = None
    prompt: str | None = field(default=None, repr=False)
    answer: str | None = field(default=None, repr=False)
    questions: tuple[str, ...] = ()
    put_back: tuple[tuple[str, str], ...] = ()
    dropped: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()


@frozen(kw_only=True)
class VerdictView:
    """What a gate said of an attempt.

    Attributes:
        gate: The kind of gate, or None where the phase is a script's.
        passed: Whether it passed.
        summary: The verdict on one line.
        evidence: What the agent was told to do better, a text each.
        counts: What was counted ("collected", "passed", "failed", …).
        facts: What else it noted, by name.
        seconds: How long it took, in seconds; None where that was not measured.
        problem: Why the stored verdict can't be read, or None.
    """

    gate: str | None
    passed: bool
    summary: str
    evidence: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(factory=dict)
    facts: Mapping[str, Any] = field(factory=dict)
    seconds: float | None = None
    problem: str | None = None


@frozen(kw_only=True)
class ChangeView:
    """What an attempt changed in the workspace.

    Attributes:
        files: The files.
        before: The checkpoint that it is compared with; None: where the work began.
        after: The checkpoint that has its result; None where it was found from the answers.
        note: What the reader has to know of how it was found, or None.
    """

    files: tuple[FileDiff, ...] = ()
    before: int | None = None
    after: int | None = None
    note: str | None = None


@frozen(kw_only=True)
class AttemptView:
    """An attempt at a phase.

    Attributes:
        number: Its number among all attempts of the session, from 1.
        key: What its stored steps are named by.
        phase: The phase.
        label: Its name within the phase: `attempt 2`.
        began: When it began.
        ended: When it ended, or when it was heard of last.
        outcome: How it ended.
        tokens: What it cost, in tokens.
        details: What the history says of its end.
        calls: The calls of agents.
        verdict: What the gate said, or None where there was no result yet.
        change: What it changed; None where that was not looked at.
        spans: Where its time went.
        before: The last checkpoint with a snapshot before it, or None.
        after: The last one of its own, or None.
    """

    number: int
    key: StepKey
    phase: str
    label: str
    began: datetime
    ended: datetime
    outcome: Outcome
    tokens: int
    details: str = ""
    calls: tuple[CallView, ...] = ()
    verdict: VerdictView | None = None
    change: ChangeView | None = None
    spans: tuple[TimeSpan, ...] = ()
    before: int | None = None
    after: int | None = None

    @property
    def name(self) -> str:
        """Phase and label."""
        return f"{self.phase}, {self.label}" if self.phase else self.label

    @property
    def seconds(self) -> float:
        """How long it took, in seconds."""
        return (self.ended - self.began).total_seconds()


@define
class _Found:
    """An attempt as the history has it, while it is read."""

    key: StepKey
    label: str
    first: int
    began: datetime
    ended: datetime
    outcome: Outcome = Outcome.OPEN
    tokens: int = 0
    result: SessionHistory | None = None
    answers: list[AgentAnswered] = field(factory=list)
    last: int = 0


def attempts_of(session: SessionContext, spans: Sequence[TimeSpan] = ()) -> tuple[AttemptView, ...]:
    """Return the attempts of a session, oldest first, without what is stored or changed.

    Args:
        session: The session.
        spans: Where the session's time went.
    """
    entries = [one for one in checkpoints(session) if one.snapshot is not None]
    kept = _Kept(tuple(one.number for one in entries), tuple(one.position for one in entries))
    found = _found(session)
    return tuple(
        AttemptView(
            number=number,
            key=one.key,
            phase=one.key.phase,
            label=one.label,
            began=one.began,
            ended=one.ended,
            outcome=one.outcome,
            tokens=one.tokens,
            details=(one.result.details or "") if one.result is not None else "",
            calls=tuple(_call(number, event) for number, event in enumerate(one.answers, 1)),
            verdict=_verdict(one.result),
            spans=within(spans, one.began, one.ended),
            before=kept.before(one, session.history),
            after=kept.after(one),
        )
        for number, one in enumerate(found, 1)
    )


def _found(session: SessionContext) -> list[_Found]:
    keys = iter(progress_of(session).keys)
    rounds: dict[str, int] = {}
    found: list[_Found] = []
    number = 1
    for position, (entry, cost) in enumerate(charges(session.history)):
        kind = entry.event_type
        if kind in BEGINNINGS:
            key = next(keys)
            number = number + 1 if kind is PhaseRetried and found else 1
            if number == 1:
                rounds[key.phase] = rounds.get(key.phase, 0) + 1
            if key.phase:
                label = attempt_label(rounds[key.phase], number)
                moment = entry.timestamp
                found.append(_Found(key, label, position, moment, moment, last=position))
        elif found:
            _add(found[-1], position, entry, cost)
    return found


def _add(one: _Found, position: int, entry: SessionHistory, cost: int) -> None:
    kind = entry.event_type
    one.tokens += cost
    one.last = position
    if kind is AgentAnswered and isinstance(event := entry.event, AgentAnswered):
        one.answers.append(event)
    if kind in {PhaseSucceeded, PhaseFailed}:
        one.outcome = Outcome.PASSED if kind is PhaseSucceeded else Outcome.FAILED
        one.result = entry
        one.ended = entry.timestamp
    elif one.outcome is Outcome.OPEN:
        one.ended = entry.timestamp


@frozen
class _Kept:
    """The checkpoints that have a snapshot: their numbers, and their places in the history."""

    numbers: tuple[int, ...]
    positions: tuple[int, ...]

    def last_until(self, position: int) -> int | None:
        """Return the number of the last one at a place of the history or before it."""
        index = bisect_right(self.positions, position)
        return self.numbers[index - 1] if index else None

    def before(self, one: _Found, history: Sequence[SessionHistory]) -> int | None:
        """Return the one that the workspace was at when an attempt began."""
        entry = history[one.first]
        if entry.event_type in _RETURNS and isinstance(back := entry.event, BackAtCheckpoint):
            return back.checkpoint
        return self.last_until(one.first)

    def after(self, one: _Found) -> int | None:
        """Return the last one of an attempt that has ended."""
        index = bisect_right(self.positions, one.last)
        own = index > 0 and self.positions[index - 1] > one.first
        return self.numbers[index - 1] if own and one.outcome is not Outcome.OPEN else None


_RETURNS: Final = (SessionRewound, SessionForked)


def _call(number: int, event: AgentAnswered) -> CallView:
    return CallView(
        number=event.call or number,
        agent=event.agent,
        tokens=event.tokens,
        usage=dict(event.usage),
        is_estimated=event.estimated,
        seconds=event.seconds,
        failure=event.failure,
    )


def _verdict(result: SessionHistory | None) -> VerdictView | None:
    event = None if result is None else result.event
    if not isinstance(event, PhaseEnded):
        return None
    judged: GateJudged | None = event.verdict
    passed = isinstance(event, PhaseSucceeded)
    said = judged.summary if judged is not None else event.problem
    return VerdictView(
        gate=judged.gate if judged is not None else None,
        passed=passed,
        summary=said or ("passed" if passed else "failed"),
        counts=dict(judged.counts) if judged is not None else {},
        seconds=event.seconds,
    )


# ------------------------------------------------------------------------------- the stored steps

_KINDS: Final = ("prompt", "answer")
_CALL: Final = re.compile(r"\.([1-9][0-9]{0,8})\.(prompt|answer)\.json")


def with_steps(attempt: AttemptView, steps: Mapping[str, Step]) -> AttemptView:
    """Return an attempt with what was stored of it.

    Args:
        attempt: The attempt.
        steps: The session's stored steps by name; others than the attempt's are not looked at.
    """
    calls = {one.number: one for one in attempt.calls}
    for number in {*calls, *_numbers(attempt.key, steps)}:
        stored = {
            kind: steps[name]
            for kind in _KINDS
            if (name := attempt.key.name(kind, number)) in steps
        }
        calls[number] = _with_stored(calls.get(number, CallView(number=number)), stored)
    verdict = _with_evidence(attempt.verdict, steps.get(attempt.key.name("verdict")))
    return evolve(attempt, calls=tuple(calls[one] for one in sorted(calls)), verdict=verdict)


def _numbers(key: StepKey, steps: Iterable[str]) -> Iterator[int]:
    """Return the numbers of the calls of which something is stored."""
    for name in steps:
        found = _CALL.search(name)
        if found is not None and name == key.name(found[2], int(found[1])):
            yield int(found[1])


def _with_stored(call: CallView, stored: Mapping[str, Step]) -> CallView:
    problems = tuple(
        f"The {kind} can't be read: {step}"
        for kind, step in stored.items()
        if isinstance(step, str)
    )
    prompt, answer = (stored.get(kind) for kind in _KINDS)
    call = evolve(call, problems=problems)
    if isinstance(prompt, Mapping):
        call = evolve(call, prompt=str(prompt.get("prompt", "")))
    if not isinstance(answer, Mapping):
        return call
    change = answer.get("change")
    change = change if isinstance(change, Mapping) else {}
    return evolve(
        call,
        answer=str(answer.get("text") or ""),
        agent=call.agent or str(answer.get("agent") or "") or None,
        failure=call.failure or (str(answer["failure"]) if answer.get("failure") else None),
        questions=tuple(str(one.get("prompt", "")) for one in _mappings(answer.get("questions"))),
        put_back=tuple(_pairs(change.get("refused"))),
        dropped=tuple(map(str, change.get("dropped") or ())),
    )


def _mappings(value: object) -> list[Mapping[str, Any]]:
    items = value if isinstance(value, list) else []
    return [one for one in items if isinstance(one, Mapping)]


def _pairs(value: object) -> Iterable[tuple[str, str]]:
    items = value if isinstance(value, list) else []
    return ((str(one[0]), str(one[1])) for one in items if isinstance(one, list) and len(one) == 2)


def _with_evidence(verdict: VerdictView | None, step: Step | None) -> VerdictView | None:
    if step is None:
        return verdict
    if isinstance(step, str):
        known = verdict or VerdictView(gate=None, passed=False, summary="unknown")
        return evolve(known, problem=step)
    known = verdict or VerdictView(
        gate=str(step.get("gate") or "") or None,
        passed=step.get("passed") is True,
        summary=str(step.get("summary") or ""),
    )
    evidence = step.get("evidence")
    facts = step.get("facts")
    return evolve(
        known,
        evidence=tuple(map(str, evidence)) if isinstance(evidence, list) else (),
        facts=dict(facts) if isinstance(facts, Mapping) else {},
    )
