"""The view model of a session's page; pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

from attrs import evolve, frozen

from ....harness import SessionArtifact, SessionContext
from ....harness.domain.history_events import BudgetExtended
from ....harness.steps.step_views import ProgramView
from ....harness.views.session_head import SessionSummary
from ....harness.views.work_state import KnownWork
from ....workflows.run.progress import charges, extension_in
from .asked_questions import QuestionView, asked_questions
from .attempts import AttemptView
from .contents import Content
from .material import SessionMaterial
from .spans import TimeSpan, time_spans, within


@frozen(kw_only=True)
class BudgetPoint:
    """The budget left at a moment.

    Attributes:
        at: The moment.
        left: The tokens left from then on; negative if the budget was exceeded.
    """

    at: datetime
    left: int


@frozen(kw_only=True)
class FileView:
    """A file that the session made.

    Attributes:
        artifact: Its last record.
        times: The number of its records.
        content: Its content or the reason why that can't be shown; None if it was not read.
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
    """A session with everything else that its page shows.

    Attributes:
        session: The session.
        children: Its child sessions, as far as they were read.
        program: The program that leads it, or None.
        specification: The specification that it works from, or None.
        spans: How its time was spent.
        attempts: The attempts, oldest first.
        budget: The budget left after each charge and each extension, oldest first.
        questions: The questions to a person, oldest first.
        files: The files that it made, by path.
        work: The state of the work, for its briefing.
    """

    session: SessionContext
    children: tuple[SessionSummary, ...]
    program: ProgramView | None
    specification: Content | None
    spans: tuple[TimeSpan, ...]
    attempts: tuple[AttemptView, ...]
    budget: tuple[BudgetPoint, ...]
    questions: tuple[QuestionView, ...]
    files: tuple[FileView, ...]
    work: KnownWork

    @property
    def seconds(self) -> float:
        """Its duration so far in seconds, idle time included."""
        return sum(one.seconds for one in self.spans)


def view_of(
    session: SessionContext, material: SessionMaterial, *, now: datetime | None = None
) -> SessionView:
    """Return the view of a session.

    Args:
        session: The session.
        material: The material read for its page.
        now: The present moment, up to which the time of an unfinished session counts; if None, it
            counts up to the session's last change.
    """
    until = session.updated_at if session.state.is_terminal or now is None else now
    spans = time_spans(session.history, until=until)
    return SessionView(
        session=session,
        children=material.children,
        program=material.program,
        specification=material.specification,
        spans=spans,
        attempts=_timed(material.attempts, spans, is_over=session.state.is_terminal),
        budget=_budget(session),
        questions=asked_questions(session.history, material.offered),
        files=_files(session, material.contents),
        work=material.work,
    )


def _timed(
    attempts: Sequence[AttemptView], spans: Sequence[TimeSpan], *, is_over: bool
) -> tuple[AttemptView, ...]:
    """Return the attempts with their spans; an open one extends to the end of the last span."""
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
    # Other charges, such as those of `agentforge session budget --record`, have no history entry.
    last = max(session.updated_at, points[-1].at)
    return (*points, BudgetPoint(at=last, left=session.token_budget.tokens_remaining))


def _files(session: SessionContext, contents: Mapping[str, Content]) -> tuple[FileView, ...]:
    times = Counter(one.path for one in session.artifacts)
    last = {one.path: one for one in session.artifacts}
    return tuple(
        FileView(artifact=one, times=times[path], content=contents.get(path))
        for path, one in sorted(last.items())
    )
