"""The attempts of a session: prompts, answers, verdict and changes of each; pure.

The history defines the attempts. Prompts and answers come from the stored steps. The changes come
from two snapshots or, without those, from the answers.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import Enum
from typing import Final, TypeAlias

from attrs import evolve, field, frozen

from ....base.files import ReadError
from ....harness import SessionContext, SessionHistory
from ....harness.domain.history_events import (
    AgentAnswered,
    PhaseFailed,
    PhaseRetried,
    PhaseSucceeded,
    SessionForked,
    SessionRewound,
)
from ....harness.views.checkpoints import CheckpointEntry, checkpoints
from ....workflows.gates.verdict import Verdict
from ....workflows.run.progress import BEGINNINGS, attempt_label, charges, progress_of
from ....workflows.run.step_journal import StepKey, StoredAnswer
from .patches import FileDiff
from .spans import TimeSpan

Step: TypeAlias = str | StoredAnswer | Verdict | ReadError
"""A stored step: a prompt, an answer or a verdict; or the error if it can't be read."""


class AttemptOutcome(Enum):
    """How an attempt ended."""

    PASSED = "passed"
    FAILED = "failed"
    OPEN = "open"


@frozen(kw_only=True)
class CallView:
    """One call of an agent.

    Attributes:
        number: Its number within the attempt, from 1.
        event: The history's event of its end, or None.
        prompt: The prompt, or None if it is not stored or was not read.
        stored: The answer, likewise.
        problems: Why steps of the call can't be read.
    """

    number: int
    event: AgentAnswered | None = None
    prompt: str | None = field(default=None, repr=False)
    stored: StoredAnswer | None = field(default=None, repr=False)
    problems: tuple[str, ...] = ()


@frozen(kw_only=True)
class ChangeView:
    """An attempt's changes to the workspace.

    Attributes:
        files: The differences of the changed files.
        note: A caveat on how the changes were determined, or None.
        by_snapshots: Whether they result from comparing the checkpoints before and after.
    """

    files: tuple[FileDiff, ...] = ()
    note: str | None = None
    by_snapshots: bool = False


@frozen(kw_only=True)
class AttemptView:
    """An attempt at a phase.

    Attributes:
        number: Its number among all attempts of the session, from 1.
        key: The key from which its stored steps' names are built.
        label: Its name within the phase, such as `attempt 2`.
        began: When it began.
        ended: When it ended, or the moment of its last entry.
        result: The history entry of its result, or None while it is open.
        answers: The history's events of agents' answers.
        tokens: Its cost in tokens.
        before: The number of the checkpoint with a snapshot that it started from, or None.
        after: The number of its own last checkpoint with a snapshot, or None.
        calls: The calls of agents; `with_steps` adds them.
        verdict: The stored verdict or the error of reading it, likewise; or None.
        change: Its changes; None if they were not determined.
        spans: How its time was spent.
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
    verdict: Verdict | ReadError | None = None
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
        """The phase and the label."""
        return f"{self.phase}, {self.label}"

    @property
    def seconds(self) -> float:
        """Its duration in seconds."""
        return (self.ended - self.began).total_seconds()


def attempts_of(session: SessionContext) -> tuple[AttemptView, ...]:
    """Return the attempts in a session's history, oldest first, without their stored steps."""
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
    """Return the index in the history where each attempt begins, and the attempt's key."""
    begun = (at for at, one in enumerate(session.history) if one.event_type in BEGINNINGS)
    keys = progress_of(session).keys  # has one even for a truncated history
    return [(at, key) for at, key in zip(begun, keys, strict=False) if key.phase]


def _last(kept: Sequence[CheckpointEntry], position: int) -> int | None:
    """Return the number of the last checkpoint at or before a position in the history."""
    index = bisect_right(kept, position, key=lambda one: one.position)
    return kept[index - 1].number if index else None


def _answers(entries: Iterable[SessionHistory]) -> Iterator[AgentAnswered]:
    for entry in entries:
        if entry.event_type is AgentAnswered and isinstance(event := entry.event, AgentAnswered):
            yield event


# ------------------------------------------------------------------------------- the stored steps

_CALL: Final = re.compile(r"\.([1-9][0-9]{0,8})\.(prompt|answer)\.json")


def with_steps(attempt: AttemptView, steps: Mapping[str, Step]) -> AttemptView:
    """Return an attempt with its calls and its stored verdict.

    Args:
        attempt: The attempt.
        steps: The session's stored steps by name; those of other attempts are ignored.
    """
    events = {one.call or number: one for number, one in enumerate(attempt.answers, 1)}
    stored: dict[int, list[tuple[str, Step]]] = {number: [] for number in events}
    for name, step in steps.items():
        found = _CALL.search(name)
        if found is not None and name == attempt.key.name(found[2], int(found[1])):
            stored.setdefault(int(found[1]), []).append((found[2], step))
    calls = tuple(_call(one, events.get(one), stored[one]) for one in sorted(stored))
    verdict = steps.get(attempt.key.name("verdict"))
    known = verdict if isinstance(verdict, Verdict | ReadError) else None
    return evolve(attempt, calls=calls, verdict=known)


def _call(number: int, event: AgentAnswered | None, stored: Iterable[tuple[str, Step]]) -> CallView:
    call = CallView(number=number, event=event)
    for kind, step in stored:
        if isinstance(step, str):
            call = evolve(call, prompt=step)
        elif isinstance(step, StoredAnswer):
            call = evolve(call, stored=step)
        else:
            problem = f"The {kind} can't be read: {step}"
            call = evolve(call, problems=(*call.problems, problem))
    return call
