"""The head of a session's page: what it is, where it stands, what it took."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final
from xml.etree.ElementTree import Element

from ...base.errors import counted
from .actions import READ_ONLY, Actions
from .html import Child, element, fragment
from .parts import OUTCOME_TONES, STATE_TONES, badge, bar, facts, folded, section, table, when
from .values.session_view import PhaseView, SessionView
from .values.spans import SpanKind, seconds_by_kind
from .values.texts import as_words, cut, duration, first_line, percent

_SHORT_GOAL: Final = 160
_MAX_MEMBER: Final = 4_000
_MOST_LINKS: Final = 12


def heading(view: SessionView, actions: Actions = READ_ONLY) -> Element:
    """Return the page's title, with the state, the id, the tags and what it is for."""
    title = title_of(view)
    goal = view.goal.strip() if view.goal else ""
    parent = view.parent_id
    return element(
        "div",
        element("h1", title),
        element(
            "p",
            badge(view.state.value, STATE_TONES[view.state]),
            " ",
            element("span", view.workflow) if view.workflow else None,
            " ",
            element("code", view.session_id),
            element("span", " made from ", _session(parent, actions)) if parent else None,
            [element("span", " ", element("span", one, class_="tag")) for one in view.tags],
            class_="subtitle",
        ),
        element("p", goal, class_="goal") if goal and goal != title else None,
        actions.session(view),
        id="session",
        class_="heading",
    )


def title_of(view: SessionView) -> str:
    """Return what names a session: its title, else its goal where that is short, else its id."""
    goal = first_line((view.goal or "").strip())[0]
    return view.title or (goal if 0 < len(goal) <= _SHORT_GOAL else f"Session {view.session_id}")


def _session(session_id: str, actions: Actions) -> Child:
    address = actions.address_of(session_id)
    name = element("code", session_id)
    return element("a", name, href=address) if address else name


def data(view: SessionView, actions: Actions = READ_ONLY) -> Element | None:
    """Return what its user and its workflow keep with the session, and what was made from it.

    None where there is nothing of it.
    """
    if not (view.metadata or view.workflow_state or view.children):
        return None
    return section(
        "data",
        "Data",
        _members("Metadata", view.metadata),
        _members("Workflow state", view.workflow_state),
        element("h3", "Made from it") if view.children else None,
        table(
            "Sessions that were made from it",
            ("Session", "State", "Title", "Last change"),
            (
                (
                    _session(one.session_id, actions),
                    badge(one.head.state.value, STATE_TONES[one.head.state]),
                    one.head.title or "",
                    when(one.head.updated_at),
                )
                for one in view.children
            ),
        )
        if view.children
        else None,
        attributes=actions.section("data"),
    )


def _members(title: str, members: Mapping[str, Any]) -> Child:
    if not members:
        return None
    return fragment(
        element("h3", title),
        facts(
            (name, element("span", cut(as_words(value), _MAX_MEMBER), class_="lines"))
            for name, value in members.items()
        ),
    )


def overview(view: SessionView, actions: Actions = READ_ONLY) -> Element:
    """Return where the session stands and what it took, in figures."""
    budget = view.budget
    latest = view.attempts[-1].label if view.attempts else None
    where = ", ".join(one for one in (view.phase, latest) if one)
    spent = fragment(
        f"{budget.used:,} of {budget.total:,} ",
        element("span", percent(budget.used, budget.total), class_="muted nowrap"),
    )
    ended = (
        ("Ended", when(view.ended_at)) if view.ended_at else ("Last change", when(view.updated_at))
    )
    return section(
        "overview",
        "Overview",
        facts(
            (
                ("Phase", where or "none"),
                ("Attempts", str(len(view.attempts))),
                ("Tokens", fragment(spent, _budget_bar(view))),
                ("Took", duration(view.seconds)),
                ("Began", when(view.created_at)),
                ended,
                ("Files", str(len(view.files))),
                ("Saved", counted(view.revision, "time")),
            ),
            class_="tiles",
        ),
        element("h3", "Time"),
        time_by_kind(view),
        element("h3", "Phases") if view.phases else None,
        phases(view) if view.phases else None,
        attributes=actions.section("overview"),
    )


def _budget_bar(view: SessionView) -> Element:
    budget = view.budget
    share = min(1.0, budget.used / budget.total) if budget.total > 0 else 0.0
    kind = "over" if budget.left < 0 else "near" if share >= 0.8 else "spent"
    return bar([("rest", 0, 1000, "left"), (kind, 0, 1000 * share, "spent")])


def time_by_kind(view: SessionView) -> Element:
    """Return where the session's time went, as a bar and in words."""
    seconds = seconds_by_kind(view.spans)
    total = sum(seconds.values())
    at = 0.0
    pieces = []
    for kind, spent in seconds.items():
        width = 1000 * spent / total if total else 0.0
        pieces.append((kind.value, at, width, f"{kind.value} {duration(spent)}"))
        at += width
    return element(
        "div",
        bar(pieces) if total else None,
        element(
            "ul",
            [
                element(
                    "li",
                    element("span", class_=f"key {kind.value}", aria_hidden="true"),
                    element("b", _KINDS[kind]),
                    " ",
                    duration(spent),
                    " ",
                    element("span", percent(spent, total), class_="muted"),
                )
                for kind, spent in seconds.items()
            ],
            class_="legend",
        ),
        class_="time-by-kind",
    )


_KINDS = {
    SpanKind.AGENT: "Agent",
    SpanKind.GATE: "Gates and scripts",
    SpanKind.PERSON: "Person",
    SpanKind.IDLE: "Idle",
}


def phases(view: SessionView) -> Element:
    """Return the phases with what they took."""
    return table(
        "Phases",
        ("Phase", "Attempts", "Outcome", "Tokens", "Agent", "Gate", "Person"),
        (_phase(one) for one in view.phases),
        class_="figures",
    )


def _phase(one: PhaseView) -> tuple[Child, ...]:
    times = (one.seconds[kind] for kind in (SpanKind.AGENT, SpanKind.GATE, SpanKind.PERSON))
    outcome = one.outcome.value
    links = [
        fragment(" " if index else None, element("a", str(index + 1), href=f"#attempt-{number}"))
        for index, number in enumerate(one.attempts[:_MOST_LINKS])
    ]
    more = len(one.attempts) - _MOST_LINKS
    return (
        one.name,
        fragment(links, f" and {more:,} more" if more > 0 else None),
        badge(
            "under way" if one.is_current and outcome == "open" else outcome, OUTCOME_TONES[outcome]
        ),
        one.tokens,
        *(
            duration(seconds) if seconds else element("span", "-", class_="muted")
            for seconds in times
        ),
    )


def briefing(view: SessionView, actions: Actions = READ_ONLY) -> Element:
    """Return what the next worker reads first."""
    text = element(
        "pre", view.briefing, class_="text", tabindex=0, role="group", aria_label="Briefing"
    )
    return section(
        "briefing",
        "Briefing",
        folded("What the next worker reads first", text),
        attributes=actions.section("briefing"),
    )
