"""Drawings over time: long waits are shortened, and every attempt is to be seen."""

from __future__ import annotations

import re
from datetime import timedelta

from agentforge_sessions.entrypoints.pages.html import rendered
from agentforge_sessions.entrypoints.pages.timeline import MAX_ROWS, time_scale, timeline
from agentforge_sessions.entrypoints.pages.values.material import PageSource
from agentforge_sessions.entrypoints.pages.values.session_view import SessionView, view_of
from agentforge_sessions.entrypoints.pages.values.spans import SpanKind, TimeSpan
from agentforge_sessions.harness import SessionContext, SessionStore
from agentforge_sessions.harness.domain.history_events import AgentAnswered, PhaseFailed
from tests.support.pages import BEGAN


def span(kind: SpanKind, begin: float, end: float) -> TimeSpan:
    return TimeSpan(kind, BEGAN + timedelta(seconds=begin), BEGAN + timedelta(seconds=end))


def of(session: SessionContext) -> SessionView:
    return view_of(session, PageSource(session, SessionStore("x")).read())


def test_time_is_drawn_as_it_was_where_more_was_worked_than_waited() -> None:
    scale = time_scale([span(SpanKind.AGENT, 0, 60), span(SpanKind.IDLE, 60, 100)])
    assert scale.shortened == 0
    assert scale(BEGAN + timedelta(seconds=60)) == 600.0
    assert scale(BEGAN + timedelta(seconds=30)) == 300.0


def test_long_waits_are_shortened() -> None:
    scale = time_scale(
        [
            span(SpanKind.AGENT, 0, 50),
            span(SpanKind.IDLE, 50, 100_000),
            span(SpanKind.GATE, 100_000, 100_050),
        ]
    )
    assert scale.shortened == 1
    assert round(scale(BEGAN + timedelta(seconds=50))) == round(1000 * 50 / 110)
    assert round(scale(BEGAN + timedelta(seconds=100_000))) == round(1000 * 60 / 110)


def test_moments_outside_stand_at_the_ends() -> None:
    scale = time_scale([span(SpanKind.AGENT, 0, 10)])
    assert scale(BEGAN - timedelta(days=1)) == 0.0
    assert scale(BEGAN + timedelta(days=1)) == 1000.0


def test_attempts_of_no_time_are_to_be_seen_within_the_drawing() -> None:
    session = SessionContext.create("flow", "red", 1_000, now=BEGAN)
    now = BEGAN + timedelta(seconds=100)
    session.add_event(AgentAnswered(seconds=99.0), now=now)
    session.add_event(PhaseFailed(attempt=1), now=now)
    session.next_attempt(now=now)
    drawn = re.findall(r' x="([0-9.]+)" y="0" width="([0-9.]+)"', rendered(timeline(of(session))))
    assert len(drawn) == 3
    for begin, width in drawn:
        assert float(width) >= 2.0
        assert float(begin) + float(width) <= 1000.0


def test_many_attempts_are_cut_and_say_so() -> None:
    session = SessionContext.create("flow", "red", 1_000, now=BEGAN)
    for number in range(MAX_ROWS + 4):
        session.next_attempt(now=BEGAN + timedelta(seconds=number))
    said = rendered(timeline(of(session)))
    assert said.count("<li>") == MAX_ROWS
    assert f"The first 5 of {MAX_ROWS + 5} attempts are left out" in said
