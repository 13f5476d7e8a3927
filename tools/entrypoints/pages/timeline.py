"""Drawings over time: where each attempt's time went, and what was left of the budget."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from datetime import datetime
from typing import Final
from xml.etree.ElementTree import Element

from attrs import frozen

from .actions import READ_ONLY, Actions
from .html import element, fragment
from .parts import OUTCOME_TONES, badge, bar, note, section, when
from .values.attempts import AttemptView
from .values.session_view import BudgetView, SessionView
from .values.spans import SpanKind, TimeSpan
from .values.texts import duration

MAX_ROWS: Final = 100
"""How many attempts the timeline has: the last ones."""
_WIDTH: Final = 1000.0
_LEAST: Final = 2.0
_SHARE: Final = 0.1
"""Where more time was waited than worked, a wait longer than this share of the time of work is
drawn as if it were that long."""
_WAITING: Final = frozenset({SpanKind.IDLE, SpanKind.PERSON})


@frozen
class TimeScale:
    """Where moments stand on a line of 1000, long waits drawn shortened.

    Attributes:
        moments: The moments at which the scale bends, oldest first.
        places: Where they stand.
        shortened: How many waits are drawn shortened.
    """

    moments: tuple[datetime, ...]
    places: tuple[float, ...]
    shortened: int

    def __call__(self, at: datetime) -> float:
        """Return where a moment stands; one outside stands at the end next to it."""
        index = bisect_right(self.moments, at)
        if index == 0:
            return 0.0
        if index == len(self.moments):
            return self.places[-1]
        left, right = self.moments[index - 1], self.moments[index]
        share = (at - left).total_seconds() / (right - left).total_seconds()
        return self.places[index - 1] + share * (self.places[index] - self.places[index - 1])


def time_scale(spans: Sequence[TimeSpan]) -> TimeScale:
    """Return the scale of a session's time."""
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


def timeline(view: SessionView, actions: Actions = READ_ONLY) -> Element:
    """Return a row for each attempt, with what its time went to."""
    shown = view.attempts[-MAX_ROWS:]
    left_out = len(view.attempts) - len(shown)
    spans = view.spans
    if left_out:
        spans = tuple(one for one in spans if one.ended > shown[0].began)
    scale = time_scale(spans)
    attributes = actions.section("timeline")
    if not shown:
        return section(
            "timeline",
            "Timeline",
            element("p", "No phase was begun.", class_="none"),
            attributes=attributes,
        )
    said = []
    if left_out:
        said.append(
            f"The first {left_out:,} of {len(view.attempts):,} attempts are left out; "
            f"`agentforge log {view.session_id}` lists all."
        )
    if scale.shortened:
        said.append("Long waits are drawn shortened.")
    return section(
        "timeline",
        "Timeline",
        element("ol", [_row(one, scale) for one in shown], class_="timeline"),
        element("p", when(spans[0].began), when(spans[-1].ended), class_="ends") if spans else None,
        note(" ".join(said)) if said else None,
        attributes=attributes,
    )


def _row(one: AttemptView, scale: TimeScale) -> Element:
    begin, end = scale(one.began), scale(one.ended)
    pieces = [("attempt", *_placed(begin, end), f"{one.name}, {duration(one.seconds)}")]
    for span in one.spans:
        if span.kind is not SpanKind.IDLE:
            words = f"{span.kind.value} {duration(span.seconds)}"
            pieces.append((span.kind.value, *_placed(scale(span.began), scale(span.ended)), words))
    outcome = one.outcome.value
    return element(
        "li",
        element(
            "a",
            element("b", one.phase),
            " ",
            element("span", one.label, class_="muted"),
            href=f"#attempt-{one.number}",
            class_="name",
        ),
        bar(pieces),
        element(
            "span", badge(outcome, OUTCOME_TONES[outcome]), " ", duration(one.seconds), class_="end"
        ),
    )


def _placed(begin: float, end: float) -> tuple[float, float]:
    """Return where a piece begins and how wide it is; one of no time is still to be seen."""
    width = max(_LEAST, end - begin)
    return min(begin, _WIDTH - width), width


# ------------------------------------------------------------------------------------- the budget


def burn_down(view: SessionView, actions: Actions = READ_ONLY) -> Element:
    """Return what was left of the budget after each charge and each extension, drawn."""
    budget = view.budget
    if budget.total <= 0:
        body = fragment(element("p", "There is no budget.", class_="none"))
    else:
        body = fragment(
            _chart(budget),
            note(f"Tokens left: {budget.left:,} of {budget.total:,}."),
        )
    return section("budget", "Budget", body, attributes=actions.section("budget"))


def _chart(budget: BudgetView) -> Element:
    points = budget.points
    low = min(0, *(one.left for one in points))
    high = max(budget.total, *(one.left for one in points))

    def height(left: float) -> float:
        return 100 * (high - left) / (high - low)

    first = points[0].at
    span = max((points[-1].at - first).total_seconds(), 0.001)

    def across(at: datetime) -> float:
        return _WIDTH * (at - first).total_seconds() / span

    line = f"M0,{height(points[0].left):.1f}" + "".join(
        f"H{across(one.at):.1f}V{height(one.left):.1f}" for one in points[1:]
    )
    ground = height(0)
    area = f"{line}V{ground:.1f}H0Z"
    marks = [(budget.total, f"{budget.total:,}"), (budget.total * 0.2, "20 % left"), (0, "0")]
    rules = [
        element(
            "line", class_=kind, x1=0, x2=1000, y1=round(height(at), 1), y2=round(height(at), 1)
        )
        for kind, (at, _) in zip(("edge", "warning", "edge"), marks, strict=True)
    ]
    return element(
        "div",
        element(
            "div",
            element(
                "svg",
                [
                    element("text", words, x="100%", y=f"{height(at):.1f}%", dy=_offset(height(at)))
                    for at, words in marks
                ],
                class_="axis",
                aria_hidden="true",
            ),
            element(
                "svg",
                element("path", d=area, class_="area"),
                rules,
                element("path", d=line, class_="left"),
                class_="plot",
                viewBox="0 0 1000 100",
                preserveAspectRatio="none",
                role="img",
                aria_label=f"Tokens left over time: {budget.left:,} of {budget.total:,} at the end",
            ),
            class_="chart",
        ),
        element("p", when(first), when(points[-1].at), class_="ends"),
    )


def _offset(height: float) -> str:
    """Return how far below its line a mark's words begin, so that they stay in the drawing."""
    return "0.8em" if height < 5 else "-0.1em" if height > 95 else "0.35em"
