"""The attempts of a session: prompt, answer, verdict and change of each; pure.

What an attempt is comes from the history, what was said in it from its stored steps, and what it
changed from two snapshots, or, where there are none, from what its answers say.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import Any, Final, TypeAlias

from attrs import evolve, field, frozen

from ....harness import SessionContext, SessionHistory
from ....harness.domain.history_events import (
    AgentAnswered,
    HistoryEvent,
    PhaseEnded,
    PhaseFailed,
    PhaseRetried,
    PhaseSucceeded,
    SessionForked,
    SessionRewound,
)
from ....harness.views.checkpoints import CheckpointEntry, checkpoints
from ....workflows.run.progress import BEGINNINGS, attempt_label, charges, progress_of
from ....workflows.run.step_journal import StepKey
from .patches import FileDiff
from .spans import TimeSpan

Step: TypeAlias = Mapping[str, Any] | str
"""A stored step as JSON has it, or why it can't be read."""


class AttemptOutcome(Enum):
    """How an attempt ended."""

    PASSED = "passed"
    FAILED = "failed"
    OPEN = "open"


@frozen(kw_only=True)
class CallView:
    """One call of an agent.

    Attributes:
        number: Which one of the attempt, from 1.
        event: What the history says of its end; None where it says nothing.
        agent: The agent's description, or None.
        failure: Why there is no answer, or None.
        prompt: What it was asked, or None where that is not stored or not read.
        answer: What it said, likewise.
        questions: What it asked instead of changing files.
        put_back: Paths that it changed in place and was not allowed to, each with the reason.
        dropped: Paths that it changed and that were not taken, since the project ignores them.
        problems: Why its steps can't be read.
    """

    number: int
    event: AgentAnswered | None = None
    agent: str | None = None
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
        evidence: What the agent should do better, a text each.
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
        label: Its name within the phase: `attempt 2`.
        began: When it began.
        ended: When it ended, or the moment of its last entry.
        result: The entry of its result, or None where it has none yet.
        answers: The answers of agents, as the history has them.
        tokens: What it cost, in tokens.
        before: The last checkpoint with a snapshot before it, or None.
        after: The last one of its own, or None.
        calls: The calls of agents, once `with_steps` added them.
        verdict: What the gate said, likewise; None where there is no result.
        change: What it changed; None where that was not looked at.
        spans: Where its time went.
    """

    number: int
    key: StepKey
    label: str
    began: datetime
    ended: datetime
    result: SessionHistory | None
    answers: tuple[AgentAnswered, ...]
    tokens: int
    before: int | None
    after: int | None
    calls: tuple[CallView, ...] = ()
    verdict: VerdictView | None = None
    change: ChangeView | None = None
    spans: tuple[TimeSpan, ...] = ()

    @property
    def phase(self) -> str:
        """The phase."""
        return self.key.phase

    @property
    def outcome(self) -> AttemptOutcome:
        """How it ended."""
        if self.result is None:
            return AttemptOutcome.OPEN
        passed = self.result.event_type is PhaseSucceeded
        return AttemptOutcome.PASSED if passed else AttemptOutcome.FAILED

    @property
    def name(self) -> str:
        """Phase and label."""
        return f"{self.phase}, {self.label}"

    @property
    def seconds(self) -> float:
        """How long it took, in seconds."""
        return (self.ended - self.began).total_seconds()


def attempts_of(session: SessionContext) -> tuple[AttemptView, ...]:
    """Return the attempts of a session, oldest first, as its history has them."""
    kept = [one for one in checkpoints(session) if one.snapshot is not None]
    costs = [cost for _, cost in charges(session.history)]
    rounds: Counter[str] = Counter()
    found: list[AttemptView] = []
    number = 1
    begun = _begun(session)
    ends = [*(first for first, _ in begun[1:]), len(costs)]
    for (first, key), end in zip(begun, ends, strict=False):
        entries = session.history[first:end]
        retried = entries[0].event_type is PhaseRetried and found
        number = number + 1 if retried else 1
        rounds[key.phase] += number == 1
        results = [one for one in entries if one.event_type in _RESULTS]
        result = results[-1] if results else None
        kept_before, after = _last(kept, first), _last(kept, end - 1)
        back = entries[0].event
        found.append(
            AttemptView(
                number=len(found) + 1,
                key=key,
                label=attempt_label(rounds[key.phase], number),
                began=entries[0].timestamp,
                ended=(result or entries[-1]).timestamp,
                result=result,
                answers=tuple(_answers(entries)),
                tokens=sum(costs[first:end]),
                before=back.checkpoint if isinstance(back, _RETURNS) else kept_before,
                after=after if result is not None and after != kept_before else None,
            )
        )
    return tuple(found)


_RESULTS: Final = (PhaseSucceeded, PhaseFailed)
_RETURNS: Final = (SessionRewound, SessionForked)


def _begun(session: SessionContext) -> list[tuple[int, StepKey]]:
    """Return where in the history an attempt at a phase begins, with its key."""
    begun = (at for at, one in enumerate(session.history) if one.event_type in BEGINNINGS)
    keys = progress_of(session).keys  # one, too, for a history that somebody cut
    return [(at, key) for at, key in zip(begun, keys, strict=False) if key.phase]


def _last(kept: Sequence[CheckpointEntry], position: int) -> int | None:
    """Return the number of the last checkpoint at a place of the history or before it."""
    index = bisect_right(kept, position, key=lambda one: one.position)
    return kept[index - 1].number if index else None


def _answers(entries: Iterable[SessionHistory]) -> Iterator[AgentAnswered]:
    for entry in entries:
        if entry.event_type is AgentAnswered and isinstance(event := entry.event, AgentAnswered):
            yield event


# ------------------------------------------------------------------------------- the stored steps

_CALL: Final = re.compile(r"\.([1-9][0-9]{0,8})\.(prompt|answer)\.json")


def with_steps(attempt: AttemptView, steps: Mapping[str, Step]) -> AttemptView:
    """Return an attempt with its calls and its verdict.

    Args:
        attempt: The attempt.
        steps: The session's stored steps by name; others than the attempt's are not looked at.
    """
    events = {one.call or number: one for number, one in enumerate(attempt.answers, 1)}
    stored: dict[int, dict[str, Step]] = {number: {} for number in events}
    for name, step in steps.items():
        found = _CALL.search(name)
        if found is not None and name == attempt.key.name(found[2], int(found[1])):
            stored.setdefault(int(found[1]), {})[found[2]] = step
    result = None if attempt.result is None else attempt.result.event
    return evolve(
        attempt,
        calls=tuple(_call(one, events.get(one), stored[one]) for one in sorted(stored)),
        verdict=_verdict(result, steps.get(attempt.key.name("verdict"))),
    )


def _call(number: int, event: AgentAnswered | None, stored: Mapping[str, Step]) -> CallView:
    prompt, answer = (stored.get(kind) for kind in ("prompt", "answer"))
    said = answer if isinstance(answer, Mapping) else {}
    change = said.get("change")
    change = change if isinstance(change, Mapping) else {}
    return CallView(
        number=number,
        event=event,
        agent=(event and event.agent) or _text(said, "agent"),
        failure=(event and event.failure) or _text(said, "failure"),
        prompt=str(prompt.get("prompt", "")) if isinstance(prompt, Mapping) else None,
        answer=str(said.get("text") or "") if isinstance(answer, Mapping) else None,
        questions=tuple(
            str(one.get("prompt", ""))
            for one in _items(said, "questions")
            if isinstance(one, Mapping)
        ),
        put_back=tuple(
            (str(one[0]), str(one[1]))
            for one in _items(change, "refused")
            if isinstance(one, list) and len(one) == 2
        ),
        dropped=tuple(map(str, change.get("dropped") or ())),
        problems=tuple(
            f"The {kind} can't be read: {step}"
            for kind, step in sorted(stored.items(), reverse=True)
            if isinstance(step, str)
        ),
    )


def _verdict(event: HistoryEvent | None, step: Step | None) -> VerdictView | None:
    """Return a verdict: by the history where that has it, with the evidence of the stored one."""
    stored = step if isinstance(step, Mapping) else {}
    if isinstance(event, PhaseEnded):
        judged, passed = event.verdict, isinstance(event, PhaseSucceeded)
        said = event.problem if judged is None else judged.summary
        known = VerdictView(
            gate=None if judged is None else judged.gate,
            passed=passed,
            summary=said or ("passed" if passed else "failed"),
            counts={} if judged is None else judged.counts,
            seconds=event.seconds,
        )
    elif step is None:
        return None
    else:
        known = VerdictView(
            gate=_text(stored, "gate"),
            passed=stored.get("passed") is True,
            summary=_text(stored, "summary") or "" if stored is step else "unknown",
        )
    facts = stored.get("facts")
    return evolve(
        known,
        evidence=tuple(map(str, _items(stored, "evidence"))),
        facts=facts if isinstance(facts, Mapping) else {},
        problem=step if isinstance(step, str) else None,
    )


def _text(step: Mapping[str, Any], name: str) -> str | None:
    return str(step.get(name) or "") or None


def _items(step: Mapping[str, Any], name: str) -> list[Any]:
    items = step.get(name)
    return items if isinstance(items, list) else []
