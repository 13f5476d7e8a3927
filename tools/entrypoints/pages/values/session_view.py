"""A session as its page shows it, as values: what the parts of the page are made of; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

from attrs import evolve, frozen

from ....harness import SessionArtifact, SessionContext
from ....harness.domain.history_events import BudgetExtended
from ....harness.views.session_head import SessionSummary
from ....workflows.run.progress import charges, extension_in
from .asked_questions import QuestionView, asked_questions
from .attempts import AttemptView
from .contents import Content
from .material import SessionMaterial
from .spans import TimeSpan, time_spans, within


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
class FileView:
    """A file that the session made.

    Attributes:
        artifact: How it was recorded last.
        times: How often it was recorded.
        content: What it holds, or why that can't be shown.
    """

    artifact: SessionArtifact
    times: int
    content: Content | None = None

    @property
    def path(self) -> str:
        """Its path in the workspace."""
        return self.artifact.path


@frozen(kw_only=True)
class SessionView:
    """A session as its page shows it: the session, and what was found out about it.

    Attributes:
        session: The session.
        children: Sessions that were made from it, as far as they were read.
        specification: The specification that it works from, or None.
        spans: Where its time went.
        attempts: The attempts, oldest first.
        budget: What was left of the budget after each charge and each extension, oldest first.
        questions: The questions to a person, oldest first.
        files: The files that it made, by path.
    """

    session: SessionContext
    children: tuple[SessionSummary, ...]
    specification: Content | None
    spans: tuple[TimeSpan, ...]
    attempts: tuple[AttemptView, ...]
    budget: tuple[BudgetPoint, ...]
    questions: tuple[QuestionView, ...]
    files: tuple[FileView, ...]

    @property
    def seconds(self) -> float:
        """How long it has been going on, in seconds."""
        return sum(one.seconds for one in self.spans)


def view_of(
    session: SessionContext, material: SessionMaterial, *, now: datetime | None = None
) -> SessionView:
    """Return a session as its page shows it.

    Args:
        session: The session.
        material: What was read besides.
        now: The present moment, where a question that waits is to count until now; else it counts
            until the session's last change.
    """
    until = session.updated_at if session.state.is_terminal or now is None else now
    spans = time_spans(session.history, until=until)
    return SessionView(
        session=session,
        children=material.children,
        specification=material.specification,
        spans=spans,
        attempts=_timed(material.attempts, spans, is_over=session.state.is_terminal),
        budget=_budget(session),
        questions=asked_questions(session.history, material.offered),
        files=_files(session, material.contents),
    )


def _timed(
    attempts: Sequence[AttemptView], spans: Sequence[TimeSpan], *, is_over: bool
) -> tuple[AttemptView, ...]:
    """Return the attempts with what their time went to; one that is under way lasts until now."""
    timed = list(attempts)
    if timed and spans and timed[-1].result is None and not is_over:
        timed[-1] = evolve(timed[-1], ended=max(timed[-1].ended, spans[-1].ended))
    return tuple(evolve(one, spans=within(spans, one.began, one.ended)) for one in timed)


def _budget(session: SessionContext) -> tuple[BudgetPoint, ...]:
    changes = [
        (one.timestamp, cost, extension_in(one) if one.event_type is BudgetExtended else 0)
        for one, cost in charges(session.history)
    ]
    left = session.token_budget.total_budget - sum(more for _, _, more in changes)
    points = [BudgetPoint(at=session.created_at, left=left)]
    for moment, cost, more in changes:
        if cost or more:
            left += more - cost
            points.append(BudgetPoint(at=moment, left=left))
    # What was charged besides, as by `agentforge budget --record`, is in no entry.
    last = max(session.updated_at, points[-1].at)
    return (*points, BudgetPoint(at=last, left=session.token_budget.tokens_remaining))


def _files(session: SessionContext, contents: Mapping[str, Content]) -> tuple[FileView, ...]:
    times = Counter(one.path for one in session.artifacts)
    last = {one.path: one for one in session.artifacts}
    return tuple(
        FileView(artifact=one, times=times[path], content=contents.get(path))
        for path, one in sorted(last.items())
    )
