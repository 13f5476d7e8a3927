"""A session as its page shows it, as values: what the parts of the page are made of; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from attrs import evolve, field, frozen

from ....harness import SessionContext, SessionHistory, SessionState
from ....harness.domain.history_events import BudgetExtended
from ....harness.views.briefing import brief
from ....harness.views.checkpoints import CheckpointEntry, checkpoints
from ....harness.views.conversations import Conversation, budget_stops, conversations
from ....harness.views.session_head import SessionSummary
from ....workflows.run.progress import charges, extension_in
from .asked_questions import QuestionView, asked_questions
from .attempts import AttemptView, Outcome
from .contents import Content
from .material import SessionMaterial
from .spans import SpanKind, TimeSpan, seconds_by_kind, time_spans, within

MAX_HISTORY: Final = 1_000
"""How many entries of a history are shown: the last ones."""


@frozen(kw_only=True)
class BudgetPoint:
    """What was left of the budget at a moment.

    Attributes:
        at: The moment.
        left: What was left after it, in tokens; negative where more was spent.
    """

    at: datetime
    left: int


@frozen(kw_only=True)
class BudgetView:
    """A session's budget.

    Attributes:
        total: What is allotted, in tokens.
        used: What is spent.
        points: What was left after each charge and each extension, oldest first.
    """

    total: int
    used: int
    points: tuple[BudgetPoint, ...] = ()

    @property
    def left(self) -> int:
        """What is left, in tokens; negative where more was spent."""
        return self.total - self.used


@frozen(kw_only=True)
class PhaseView:
    """A phase, with all that was done in it.

    Attributes:
        name: The phase.
        attempts: The numbers of its attempts among all of the session.
        outcome: How the last of them ended.
        tokens: What they cost, in tokens.
        seconds: Where their time went, in seconds.
        is_current: Whether the session is in it, and has not ended.
    """

    name: str
    attempts: tuple[int, ...]
    outcome: Outcome
    tokens: int
    seconds: Mapping[SpanKind, float]
    is_current: bool


@frozen(kw_only=True)
class FileView:
    """A file that the session made.

    Attributes:
        path: Its path in the workspace.
        made: "created" or "modified", as it was recorded last.
        phase: The phase that made it last, or None.
        recorded_at: When it was recorded last.
        times: How often it was recorded.
        content: What it holds, or why that can't be shown.
    """

    path: str
    made: str
    phase: str | None
    recorded_at: datetime
    times: int
    content: Content | None = None


@frozen(kw_only=True)
class HistoryView:
    """The last entries of a history.

    Attributes:
        entries: The entries, oldest first.
        first: The number of the first of them in the whole history, from 1.
        total: How many there are in all.
    """

    entries: tuple[SessionHistory, ...] = field(repr=False)
    first: int
    total: int


@frozen(kw_only=True)
class SessionView:
    """A session as its page shows it.

    Attributes:
        session_id: The session.
        title: What people call it, or None.
        goal: What it is for, or None.
        tags: Words that it is found by.
        metadata: What its user keeps with it.
        workflow_state: What its workflow keeps from step to step.
        state: Its state.
        workflow: Its workflow's type, or None.
        phase: The phase that it is in, or None.
        created_at: When it began.
        updated_at: When it changed last.
        ended_at: When it ended, or None.
        revision: How often it was saved.
        parent_id: The session that it was made from, or None.
        children: Sessions that were made from it, as far as they were read.
        budget: Its budget.
        spans: Where its time went.
        phases: The phases that were begun, in the order in which they were first.
        attempts: The attempts, oldest first.
        checkpoints: The checkpoints, oldest first.
        questions: The questions to a person, oldest first.
        files: The files that it made, by path.
        specification: The specification that it works from, or None.
        conversations: The conversations of agent programs.
        stops: When agents were stopped because of the budget.
        history: The last entries of its history.
        briefing: What the next worker reads first.
    """

    session_id: str
    title: str | None
    goal: str | None
    tags: tuple[str, ...]
    metadata: Mapping[str, Any]
    workflow_state: Mapping[str, Any]
    state: SessionState
    workflow: str | None
    phase: str | None
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None
    revision: int
    parent_id: str | None
    children: tuple[SessionSummary, ...]
    budget: BudgetView
    spans: tuple[TimeSpan, ...]
    phases: tuple[PhaseView, ...]
    attempts: tuple[AttemptView, ...]
    checkpoints: tuple[CheckpointEntry, ...]
    questions: tuple[QuestionView, ...]
    files: tuple[FileView, ...]
    specification: Content | None
    conversations: tuple[Conversation, ...]
    stops: tuple[SessionHistory, ...]
    history: HistoryView
    briefing: str = field(repr=False)

    @property
    def seconds(self) -> float:
        """How long it has been going on, in seconds."""
        return sum(one.seconds for one in self.spans)

    @property
    def waiting(self) -> tuple[QuestionView, ...]:
        """The questions that wait for an answer."""
        return tuple(one for one in self.questions if one.waits)


def view_of(
    session: SessionContext,
    material: SessionMaterial,
    *,
    now: datetime | None = None,
    max_history: int = MAX_HISTORY,
) -> SessionView:
    """Return a session as its page shows it.

    Args:
        session: The session.
        material: What was read besides.
        now: The present moment, where a question that waits is to count until now; else it counts
            until the session's last change.
        max_history: How many entries of the history are shown.
    """
    until = session.updated_at if session.state.is_terminal or now is None else now
    spans = time_spans(session.history, until=until)
    attempts = _timed(material.attempts, spans, is_over=session.state.is_terminal)
    first = max(0, len(session.history) - max_history)
    return SessionView(
        session_id=session.session_id,
        title=session.title,
        goal=session.goal,
        tags=session.tags,
        metadata=session.metadata,
        workflow_state=session.workflow_state,
        state=session.state,
        workflow=session.workflow_type,
        phase=session.current_phase,
        created_at=session.created_at,
        updated_at=session.updated_at,
        ended_at=session.completed_at,
        revision=session.revision,
        parent_id=session.parent_id,
        children=material.children,
        budget=_budget(session),
        spans=spans,
        phases=_phases(session, attempts),
        attempts=attempts,
        checkpoints=tuple(checkpoints(session)),
        questions=asked_questions(session.history, material.offered),
        files=_files(session, material.contents),
        specification=material.specification,
        conversations=tuple(conversations(session.history)),
        stops=tuple(budget_stops(session.history)),
        history=HistoryView(
            entries=tuple(session.history[first:]), first=first + 1, total=len(session.history)
        ),
        briefing=brief(session),
    )


def _timed(
    attempts: Sequence[AttemptView], spans: Sequence[TimeSpan], *, is_over: bool
) -> tuple[AttemptView, ...]:
    """Return the attempts with what their time went to; one that is under way lasts until now."""
    timed = list(attempts)
    if timed and spans and timed[-1].outcome is Outcome.OPEN and not is_over:
        timed[-1] = evolve(timed[-1], ended=max(timed[-1].ended, spans[-1].ended))
    return tuple(evolve(one, spans=within(spans, one.began, one.ended)) for one in timed)


def _budget(session: SessionContext) -> BudgetView:
    budget = session.token_budget
    changes: list[tuple[datetime, int, int]] = []
    for entry, cost in charges(session.history):
        more = extension_in(entry) if entry.event_type is BudgetExtended else 0
        if cost or more:
            changes.append((entry.timestamp, cost, more))
    left = budget.total_budget - sum(more for _, _, more in changes)
    points = [BudgetPoint(at=session.created_at, left=left)]
    for moment, cost, more in changes:
        left += more - cost
        points.append(BudgetPoint(at=moment, left=left))
    # What was charged besides, as by `agentforge budget --record`, is in no entry.
    last = max(session.updated_at, points[-1].at)
    points.append(BudgetPoint(at=last, left=budget.tokens_remaining))
    return BudgetView(total=budget.total_budget, used=budget.tokens_used, points=tuple(points))


def _phases(session: SessionContext, attempts: Sequence[AttemptView]) -> tuple[PhaseView, ...]:
    by_name: dict[str, list[AttemptView]] = {}
    for one in attempts:
        by_name.setdefault(one.phase, []).append(one)
    return tuple(
        PhaseView(
            name=name,
            attempts=tuple(one.number for one in found),
            outcome=found[-1].outcome,
            tokens=sum(one.tokens for one in found),
            seconds=seconds_by_kind(span for one in found for span in one.spans),
            is_current=name == session.current_phase and not session.state.is_terminal,
        )
        for name, found in by_name.items()
    )


def _files(session: SessionContext, contents: Mapping[str, Content]) -> tuple[FileView, ...]:
    times: dict[str, int] = {}
    for one in session.artifacts:
        times[one.path] = times.get(one.path, 0) + 1
    last = {one.path: one for one in session.artifacts}
    return tuple(
        FileView(
            path=path,
            made=one.artifact_type,
            phase=one.phase,
            recorded_at=one.timestamp,
            times=times[path],
            content=contents.get(path),
        )
        for path, one in sorted(last.items())
    )
