"""A session's page: its heading and overview, then its other sections; the report is one file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final
from xml.etree.ElementTree import Element

from attrs import evolve

from ...base.errors import counted
from ...harness import SessionContext
from ...harness.views.briefing import brief
from .attempts_section import attempts
from .html import Child, element, self_contained_page
from .parts import (
    READ_ONLY,
    Actions,
    bar,
    budget_bar,
    facts,
    folded,
    muted,
    plain_text,
    section,
    state_badge,
    table,
    value_in_words,
    when,
)
from .record import checkpoints, conversations, files, history, questions, specification, steps
from .timeline import burn_down, timeline
from .values.attempts import AttemptView
from .values.material import PageSource
from .values.session_view import SessionView, view_of
from .values.spans import SpanKind, seconds_by_kind
from .values.texts import duration, percent

_SHORT_GOAL: Final = 160
_MOST_LINKS: Final = 12


def heading(view: SessionView, actions: Actions = READ_ONLY) -> Element:
    """Return the page's heading: title, state, workflow, id, parent, tags and goal."""
    session = view.session
    title, goal = title_of(session), (session.goal or "").strip()
    parent = session.parent_id
    about = (
        state_badge(session.state.value),
        " ",
        element("span", session.workflow_type) if session.workflow_type else None,
        " ",
        element("code", session.session_id),
        element("span", " made from ", _session(parent, actions)) if parent else None,
        [element("span", " ", element("span", one, class_="tag")) for one in session.tags],
    )
    return element(
        "div",
        element("h1", title),
        element("p", about, class_="subtitle"),
        element("p", goal, class_="goal") if goal and goal != title else None,
        actions.session,
        id="session",
        class_="heading",
    )


def title_of(session: SessionContext) -> str:
    """Return a session's title, else the first line of its goal if short, else its id."""
    goal = (session.goal or "").strip().partition("\n")[0]
    short = goal if 0 < len(goal) <= _SHORT_GOAL else f"Session {session.session_id}"
    return session.title or short


def _session(session_id: str, actions: Actions) -> Element:
    address = actions.address_of(session_id)
    name = element("code", session_id)
    return element("a", name, href=address) if address else name


def data(view: SessionView, actions: Actions = READ_ONLY) -> Element | None:
    """Return the session's metadata, workflow state and child sessions; None if it has none."""
    session = view.session
    if not (session.metadata or session.workflow_state or view.children):
        return None
    children = [
        (
            _session(one.session_id, actions),
            state_badge(one.head.state.value),
            one.head.title or "",
            when(one.head.updated_at),
        )
        for one in view.children
    ]
    head = ("Session", "State", "Title", "Last change")
    return section(
        "data",
        "Data",
        _members("Metadata", session.metadata),
        _members("Workflow state", session.workflow_state),
        element("h3", "Made from it") if children else None,
        table("Sessions that were made from it", head, children) if children else None,
    )


def _members(title: str, members: Mapping[str, Any]) -> Child:
    pairs = ((name, value_in_words(value)) for name, value in members.items())
    return (element("h3", title), facts(pairs)) if members else None


def overview(view: SessionView) -> Element:
    """Return the session's key figures, its time by kind and its phases."""
    session, budget = view.session, view.session.token_budget
    latest = view.attempts[-1].label if view.attempts else None
    where = ", ".join(one for one in (session.current_phase, latest) if one)
    share = element("span", percent(budget.tokens_used, budget.total_budget), class_="muted nowrap")
    ended = session.completed_at
    figures = (
        ("Phase", where or "none"),
        ("Attempts", str(len(view.attempts))),
        (
            "Tokens",
            (
                f"{budget.tokens_used:,} of {budget.total_budget:,} ",
                share,
                budget_bar(budget.tokens_used, budget.total_budget),
            ),
        ),
        ("Took", duration(view.seconds)),
        ("Began", when(session.created_at)),
        ("Ended", when(ended)) if ended else ("Last change", when(session.updated_at)),
        ("Files", str(len(view.files))),
        ("Saved", counted(session.revision, "time")),
    )
    return section(
        "overview",
        "Overview",
        facts(figures, class_="tiles"),
        element("h3", "Time"),
        time_by_kind(view),
        (element("h3", "Phases"), phases(view)) if view.attempts else None,
    )


def time_by_kind(view: SessionView) -> Element:
    """Return how the session's time was spent, as a bar and a legend."""
    seconds = seconds_by_kind(view.spans)
    total = sum(seconds.values())
    pieces, legend, at = [], [], 0.0
    for kind, spent in seconds.items():
        width = 1000 * spent / total if total else 0.0
        pieces.append((kind.value, at, width, f"{kind.value} {duration(spent)}"))
        at += width
        key = element("span", class_=f"key {kind.value}", aria_hidden="true")
        words = (element("b", _KINDS[kind]), " ", duration(spent), " ")
        legend.append(element("li", key, words, muted(percent(spent, total))))
    body = element("ul", legend, class_="legend")
    return element("div", bar(pieces) if total else None, body, class_="time-by-kind")


_KINDS: Final = {
    SpanKind.AGENT: "Agent",
    SpanKind.GATE: "Gates and scripts",
    SpanKind.PERSON: "Person",
    SpanKind.IDLE: "Idle",
}


def phases(view: SessionView) -> Element:
    """Return a table of the phases with their tokens and times, in order of first attempt."""
    by_name: dict[str, list[AttemptView]] = {}
    for one in view.attempts:
        by_name.setdefault(one.phase, []).append(one)
    current = None if view.session.state.is_terminal else view.session.current_phase
    head = ("Phase", "Attempts", "Outcome", "Tokens", "Agent", "Gate", "Person")
    rows = (_phase(name, found, name == current) for name, found in by_name.items())
    return table("Phases", head, rows, class_="figures")


def _phase(name: str, attempts: Sequence[AttemptView], is_current: bool) -> tuple[Child, ...]:
    outcome = attempts[-1].outcome.value
    seconds = seconds_by_kind(span for one in attempts for span in one.spans)
    times = (seconds[kind] for kind in (SpanKind.AGENT, SpanKind.GATE, SpanKind.PERSON))
    links = [
        (" " if index else None, element("a", str(index + 1), href=f"#attempt-{one.number}"))
        for index, one in enumerate(attempts[:_MOST_LINKS])
    ]
    more = len(attempts) - _MOST_LINKS
    return (
        name,
        (links, f" and {more:,} more" if more > 0 else None),
        state_badge(outcome, "under way" if is_current and outcome == "open" else None),
        sum(one.tokens for one in attempts),
        *(duration(one) if one else muted("-") for one in times),
    )


def briefing(view: SessionView) -> Element:
    """Return the briefing that the next worker reads first, folded."""
    lines = () if view.program is None else view.program.lines()
    work, changed = view.work["work"], view.work["changed"]
    text = plain_text(brief(view.session, work=work, changed=changed, steps=lines), "Briefing")
    return section("briefing", "Briefing", folded("What the next worker reads first", text))


def session_sections(view: SessionView, actions: Actions = READ_ONLY) -> list[Element]:
    """Return the sections of a session's page, in display order."""
    found = (
        overview(view),
        steps(view, actions),
        questions(view),
        timeline(view),
        burn_down(view),
        attempts(view),
        files(view),
        specification(view),
        data(view, actions),
        conversations(view),
        checkpoints(view, actions),
        history(view),
        briefing(view),
    )
    return [one for one in found if one is not None]


def contents(sections: Sequence[Element]) -> Element:
    """Return the table of contents of the sections."""
    links = [
        element("li", element("a", "".join(one[0].itertext()), href=f"#{one.get('id')}"))
        for one in sections
    ]
    return element("nav", element("ul", links), class_="contents", aria_label="Contents")


def session_report(source: PageSource, *, now: datetime | None = None) -> str:
    """Read a session's material and return its page as one self-contained HTML file.

    Stored steps are optional: only sessions that an agent ran have them.

    Args:
        source: Reads the material.
        now: The present moment; see `session_view.view_of`.

    Raises:
        ReadError: The steps or the sessions can't be listed.
    """
    material = evolve(source.read(), children=source.children())
    return render_report(view_of(source.session, material, now=now))


def render_report(view: SessionView) -> str:
    """Return a session's page as one HTML file that loads and runs nothing."""
    top = element("p", element("b", "AgentForge"), " session report", class_="brand")
    sections = session_sections(view)
    body = element("div", sections, class_="sections")
    columns = element("div", contents(sections), body, class_="columns")
    page = element("div", heading(view), columns, class_="session")
    return self_contained_page(title_of(view.session), page, top=top)
