"""A session's whole page, of its parts; and the report, which is that page as one file."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Final
from xml.etree.ElementTree import Element

from attrs import evolve

from ...harness import SessionContext
from ...harness.session_ports import SessionRepository
from .actions import READ_ONLY, Actions
from .attempts_section import attempts
from .document import self_contained_page
from .html import element
from .overview import briefing, data, heading, overview, title_of
from .record import checkpoints, conversations, files, history, questions, specification
from .timeline import burn_down, timeline
from .values.material import AskedUnder, Differences, SessionSource
from .values.session_view import SessionView, view_of

SECTIONS: Final = (
    overview,
    questions,
    timeline,
    burn_down,
    attempts,
    files,
    specification,
    data,
    conversations,
    checkpoints,
    history,
    briefing,
)
"""The sections of a session's page in their order; one that has nothing to show is None."""


def session_sections(view: SessionView, actions: Actions = READ_ONLY) -> list[Element]:
    """Return the sections of a session's page."""
    return [found for part in SECTIONS if (found := part(view, actions)) is not None]


def session_body(view: SessionView, actions: Actions = READ_ONLY) -> Element:
    """Return a session's page without its frame: title, table of contents, sections."""
    sections = session_sections(view, actions)
    return element(
        "div",
        heading(view, actions),
        element(
            "div",
            contents(sections),
            element("div", sections, class_="sections"),
            class_="columns",
        ),
        class_="session",
    )


def contents(sections: list[Element]) -> Element:
    """Return the table of contents of some sections."""
    links = [
        element("li", element("a", "".join(one[0].itertext()), href=f"#{one.get('id')}"))
        for one in sections
    ]
    return element("nav", element("ul", links), class_="contents", aria_label="Contents")


def session_report(
    session: SessionContext,
    sessions: SessionRepository,
    *,
    workspace: Path | None = None,
    differences: Differences | None = None,
    questions: AskedUnder | None = None,
    now: datetime | None = None,
) -> str:
    """Write a session's page as one file.

    Args:
        session: The session.
        sessions: Where it is, for its steps and its specification; a session that was not an
            agent's has none, and the page does without.
        workspace: Its workspace on this machine, or None.
        differences: Compares its checkpoints; without it, changes are told from answers.
        questions: Finds the questions that were asked under an id, for the answers they offered.
        now: The present moment, as of `session_view.view_of`.

    Raises:
        ReadError: The system refused to list the steps, or the sessions.
    """
    source = SessionSource(
        session=session,
        sessions=sessions,
        workspace=workspace,
        differences=differences,
        questions=questions,
    )
    material = evolve(source.read(), children=source.children())
    return render_report(view_of(session, material, now=now))


def render_report(view: SessionView) -> str:
    """Write a session's page as one file, which loads and runs nothing."""
    top = element("p", element("b", "AgentForge"), " session report", class_="brand")
    return self_contained_page(title_of(view), session_body(view), top=top)
