"""Splits a session's time by activity: agent, gate, person or idle; pure."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from enum import Enum
from typing import Final

from attrs import frozen

from ....harness import SessionHistory
from ....harness.domain.history_events import (
    QUESTION_ENDINGS,
    AgentAnswered,
    AgentPrompted,
    AgentTurnEnded,
    PhaseEnded,
    PhaseFailed,
    PhaseSucceeded,
    QuestionAsked,
    QuestionEnded,
)

_TELLING: Final = frozenset(
    {
        AgentAnswered,
        AgentPrompted,
        AgentTurnEnded,
        PhaseFailed,
        PhaseSucceeded,
        QuestionAsked,
        *QUESTION_ENDINGS.values(),
    }
)
"""Events that give information on spent time; all others are ignored."""


class SpanKind(Enum):
    """The activity in a span of a session's time."""

    AGENT = "agent"
    """An agent worked on a prompt of the workflow or of a person."""
    GATE = "gate"
    """A gate or a phase's script ran."""
    PERSON = "person"
    """A question waited for a person's answer."""
    IDLE = "idle"
    """None of these, as far as the history shows."""


@frozen
class TimeSpan:
    """A span of time with one activity.

    Attributes:
        kind: The activity.
        began: Its start.
        ended: Its end; never before the start.
    """

    kind: SpanKind
    began: datetime
    ended: datetime

    @property
    def seconds(self) -> float:
        """Its duration in seconds."""
        return (self.ended - self.began).total_seconds()


def time_spans(
    history: Sequence[SessionHistory], *, until: datetime | None = None
) -> tuple[TimeSpan, ...]:
    """Split a session's time into spans without gaps or overlaps, oldest first.

    An event gives the duration of the work that ended at its moment; time claimed by two events
    belongs to the one that ended first.

    Args:
        history: The session's history.
        until: The end; the last entry's moment if None or earlier. An open question lasts until
            then.
    """
    if not history:
        return ()
    first, last = history[0].timestamp, history[-1].timestamp
    last = max(last, until or last)
    spans: list[TimeSpan] = []
    reached = first
    for kind, began, ended in sorted(_busy(history, last), key=lambda one: (one[2], one[1])):
        begun, end = max(began, reached), min(ended, last)
        if end <= begun:
            continue
        if begun > reached:
            spans.append(TimeSpan(SpanKind.IDLE, reached, begun))
        spans.append(TimeSpan(kind, begun, end))
        reached = end
    if last > reached:
        spans.append(TimeSpan(SpanKind.IDLE, reached, last))
    return tuple(spans)


def seconds_by_kind(spans: Iterable[TimeSpan]) -> dict[SpanKind, float]:
    """Return the seconds spent on each kind; every kind is present."""
    found = dict.fromkeys(SpanKind, 0.0)
    for one in spans:
        found[one.kind] += one.seconds
    return found


def within(spans: Sequence[TimeSpan], began: datetime, ended: datetime) -> tuple[TimeSpan, ...]:
    """Return consecutive spans, clipped to the time between two moments."""
    first = bisect_right(spans, began, key=lambda one: one.ended)
    last = bisect_left(spans, ended, key=lambda one: one.began)
    found = (
        TimeSpan(one.kind, max(one.began, began), min(one.ended, ended))
        for one in spans[first:last]
    )
    return tuple(one for one in found if one.ended > one.began)


def _busy(
    history: Sequence[SessionHistory], last: datetime
) -> Iterator[tuple[SpanKind, datetime, datetime]]:
    """Yield the kind, start and end of the work that each event reports."""
    first = history[0].timestamp
    asked: datetime | None = None
    prompted: datetime | None = None
    for entry in history:
        if entry.event_type not in _TELLING:
            continue
        now = entry.timestamp
        match entry.event:
            case AgentAnswered(seconds=seconds) if seconds > 0:
                yield SpanKind.AGENT, _before(now, seconds, first), now
            case PhaseEnded(seconds=float() as seconds) if seconds > 0:
                yield SpanKind.GATE, _before(now, seconds, first), now
            case AgentPrompted():
                prompted = prompted or now
            case AgentTurnEnded() if prompted is not None:
                yield SpanKind.AGENT, prompted, now
                prompted = None
            case QuestionAsked():
                asked = asked or now
            case QuestionEnded() if asked is not None:
                yield SpanKind.PERSON, asked, now
                asked = None
    if asked is not None:
        yield SpanKind.PERSON, asked, last


def _before(moment: datetime, seconds: float, first: datetime) -> datetime:
    """Return the moment `seconds` before another, but not before `first`."""
    most = (moment - first).total_seconds()  # also prevents a `datetime` overflow
    return moment - timedelta(seconds=min(seconds, max(most, 0.0)))
