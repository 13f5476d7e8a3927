"""Drawings over time: how each attempt's time was spent, and the budget left."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from datetime import datetime
from typing import Final
from xml.etree.ElementTree import Element

from attrs import frozen

from .html import element
from .parts import bar, drawing, left_out, muted, note, nothing, section, state_badge, when
from .values.attempts import AttemptView
from .values.session_view import BudgetPoint, SessionView
from .values.spans import SpanKind, TimeSpan
from .values.texts import duration

MAX_ROWS: Final = 100
"""Maximum number of attempts on the timeline; the last ones are shown."""
_WIDTH: Final = 1000.0
_LEAST: Final = 2.0
_SHARE: Final = 0.1
"""If more time was spent waiting than working, each wait is drawn no longer than this share of the
working time."""
_WAITING: Final = frozenset({SpanKind.IDLE, SpanKind.PERSON})


@frozen
class TimeScale:
    """Piecewise linear map of moments to positions from 0 to 1000, with long waits shortened.

    Attributes:
        moments: The moments at which the scale changes its slope, oldest first.
        places: Their positions.
        shortened: Number of waits that are shortened.
    """

    moments: tuple[datetime, ...]
    places: tuple[float, ...]
    shortened: int

    def __call__(self, at: datetime) -> float:
        """Return a moment's position; a moment outside the scale maps to its nearer end."""
        index = bisect_right(self.moments, at)
        if index == 0:
            return 0.0
        if index == len(self.moments):
            return self.places[-1]
        left, right = self.moments[index - 1], self.moments[index]
        share = (at - left).total_seconds() / (right - left).total_seconds()
        return self.places[index - 1] + share * (self.places[index] - self.places[index - 1])


def time_scale(spans: Sequence[TimeSpan]) -> TimeScale:
    """Return the time scale of consecutive spans."""
    if not spans:
        return TimeScale((), (), 0)
    work = sum(one.seconds for one in spans if one.kind not in _WAITING)
    waited = sum(one.seconds for one in spans) - work
    longest = work * _SHARE if waited > work > 0 else float("inf")
    lengths = [min(one.seconds, longest) if one.kind in _WAITING else one.seconds for one in spans]
    shortened = sum(1 for one, length in zip(spans, lengths, strict=True) if length < one.seconds)
    total = sum(lengths) or 1.0
    moments, places, at = [spans[0].began], [0.0], 0.0
    for one, length in zip(spans, lengths, strict=True):
        at += length
        moments.append(one.ended)
        places.append(_WIDTH * at / total)
    return TimeScale(tuple(moments), tuple(places), shortened)


def timeline(view: SessionView) -> Element:
    """Return a row for each of the last attempts, showing how its time was spent."""
    shown = view.attempts[-MAX_ROWS:]
    if not shown:
        return section("timeline", "Timeline", nothing("No phase was begun."))
    total, spans = len(view.attempts), view.spans
    if len(shown) < total:
        spans = tuple(one for one in spans if one.ended > shown[0].began)
    scale = time_scale(spans)
    log = f"agentforge session log {view.session.session_id}"
    return section(
        "timeline",
        "Timeline",
        element("ol", [_row(one, scale) for one in shown], class_="timeline"),
        element("p", when(spans[0].began), when(spans[-1].ended), class_="ends") if spans else None,
        left_out(total, len(shown), "attempts", log),
        note("Long waits are drawn shortened.") if scale.shortened else None,
    )


def _row(one: AttemptView, scale: TimeScale) -> Element:
    begin, end = scale(one.began), scale(one.ended)
    pieces = [("attempt", *_placed(begin, end), f"{one.name}, {duration(one.seconds)}")]
    for span in one.spans:
        if span.kind is not SpanKind.IDLE:
            words = f"{span.kind.value} {duration(span.seconds)}"
            pieces.append((span.kind.value, *_placed(scale(span.began), scale(span.ended)), words))
    name = (element("b", one.phase), " ", muted(one.label))
    outcome = (state_badge(one.outcome.value), " ", duration(one.seconds))
    return element(
        "li",
        element("a", name, href=f"#attempt-{one.number}", class_="name"),
        bar(pieces),
        element("span", outcome, class_="end"),
    )


def _placed(begin: float, end: float) -> tuple[float, float]:
    """Return a piece's start and width, at least `_LEAST` wide so that it stays visible."""
    width = max(_LEAST, end - begin)
    return min(begin, _WIDTH - width), width


# ------------------------------------------------------------------------------------- the budget


def burn_down(view: SessionView) -> Element:
    """Return a chart of the budget left after each charge and each extension."""
    budget = view.session.token_budget
    if budget.total_budget <= 0:
        return section("budget", "Budget", nothing("There is no budget."))
    left = f"{budget.tokens_remaining:,} of {budget.total_budget:,}"
    chart = _chart(view.budget, budget.total_budget, left)
    return section("budget", "Budget", chart, note(f"Tokens left: {left}."))


def _chart(points: Sequence[BudgetPoint], total: int, words: str) -> Element:
    low = min(0, *(one.left for one in points))
    high = max(total, *(one.left for one in points))
    first, last = points[0].at, points[-1].at
    span = max((last - first).total_seconds(), 0.001)

    def height(left: float) -> float:
        return 100 * (high - left) / (high - low)

    steps = (
        f"H{_WIDTH * (one.at - first).total_seconds() / span:.1f}V{height(one.left):.1f}"
        for one in points[1:]
    )
    line = f"M0,{height(points[0].left):.1f}{''.join(steps)}"
    marks = (
        ("edge", height(total), f"{total:,}"),
        ("warning", height(total * 0.2), "20 % left"),
        ("edge", height(0), "0"),
    )
    axis = [element("text", text, x="100%", y=f"{y:.1f}%", dy=_offset(y)) for _, y, text in marks]
    plot = drawing(
        element("path", d=f"{line}V{height(0):.1f}H0Z", class_="area"),
        [
            element("line", class_=kind, x1=0, x2=1000, y1=round(y, 1), y2=round(y, 1))
            for kind, y, _ in marks
        ],
        element("path", d=line, class_="left"),
        class_="plot",
        view="0 0 1000 100",
        role="img",
        aria_label=f"Tokens left over time: {words} at the end",
    )
    return element(
        "div",
        element(
            "div", element("svg", axis, class_="axis", aria_hidden="true"), plot, class_="chart"
        ),
        element("p", when(first), when(last), class_="ends"),
    )


def _offset(height: float) -> str:
    """Return the vertical offset of a mark's label from its line; it stays inside the drawing."""
    return "0.8em" if height < 5 else "-0.1em" if height > 95 else "0.35em"
