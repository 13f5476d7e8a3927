"""Assembles a session's page from its sections; the report is that page as one file."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from xml.etree.ElementTree import Element

from attrs import evolve

from .actions import READ_ONLY, Actions
from .attempts_section import attempts
from .document import self_contained_page
from .html import element
from .overview import briefing, data, heading, overview, title_of
from .record import checkpoints, conversations, files, history, questions, specification
from .timeline import burn_down, timeline
from .values.material import PageSource
from .values.session_view import SessionView, view_of


def session_sections(view: SessionView, actions: Actions = READ_ONLY) -> list[Element]:
    """Return the sections of a session's page, in display order."""
    found = (
        overview(view),
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
