"""The search page: words found in goals, histories, questions and answers, each in its context.

Passages were written by agents and people, so they are inserted as text only; matches are marked
by position.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final
from xml.etree.ElementTree import Element

from ....base.search_words import Passage, Place, SearchWords
from ....harness.views.session_search import SessionMatch
from ....questions import SessionStatus
from ....questions.listing import QuestionMatch
from ....wiring.searching import Found, search
from ...pages.html import Child, element
from ...pages.parts import muted
from ..services import UiServices, asked_for
from ..session_rows import SessionStanding, Wanted
from ..view import View, ago, page_heading
from .controls import row, search_form, session_about, session_link, standing_badge, unreadable
from .forms import Form

LIMIT: Final = 50
"""Maximum number of sessions and question sessions shown."""
_PARTS: Final = {Place.HISTORY: "history", Place.ARTIFACT: "files"}
"""The section of a session's page that shows the content of a place."""


def search_view(services: UiServices, form: Form, _: str) -> View:
    """Return the page of a search's matches, last changed first.

    Raises:
        InvalidSearch: There are too many words.
        InvalidForm: A field of the address is invalid.
        ReadError: The sessions' store can't be read.
        QuestionError: The question sessions' store can't be read.
    """
    wanted = Wanted.of(form)
    text = " ".join(" ".join(form.get("q", [])).split())
    parts = [page_heading("Search", hidden=True), _form(text, wanted)]
    if text:
        found = search(
            services.manager(),
            services.questions,
            SearchWords.parse(text),
            limit=LIMIT,
            clock=services.clock,
            workflow_type=wanted.workflow,
            tags=wanted.tag,
        )
        bad: list[tuple[str, object]] = [(one.session_id, one.error) for one in found.unreadable]
        bad += [(one.session_id, one.error) for one in found.unreadable_questions]
        summary = f"{len(bad):,} can't be read, and were not searched"
        parts += [_summary(found), *unreadable(summary, bad), *_matches(found, services)]
    title = f"Search: {text[:60]}" if text else "Search"
    return View(title=title, content=parts)


def _form(text: str, wanted: Wanted) -> Element:
    narrowed = [
        element(
            "label",
            element("input", type="checkbox", name=name, value=value, checked=True),
            element("span", f"{name}: {value}"),
            class_="chip",
        )
        for name, value in (("workflow", wanted.workflow), ("tag", wanted.tag))
        if value
    ]
    return search_form(
        "Search",
        text,
        'Words, or "a phrase", in goals, histories, questions and answers',
        narrowed,
        element("button", "Search", type="submit", id="to-search"),
        id="searched",
        data_fields="q workflow tag",
        autofocus=not text,
    )


def _summary(found: Found) -> Element:
    count = len(found.matches)
    if not count:
        text = "Nothing has all of these words."
    elif found.more:
        text = f"The {count:,} that changed last. There are more: add a word to find fewer."
    else:
        text = f"{count:,} found, the last changed first."
    return element("p", text, id="summary", class_="muted", role="status")


def _matches(found: Found, services: UiServices) -> list[Element]:
    if not found.matches:
        return []
    standings = {one.session_id: one.standing for one in services.rows()}
    lines = [
        _session(one, standings) if isinstance(one, SessionMatch) else _question(one, services)
        for one in found.matches
    ]
    return [element("ol", lines, id="rows", class_="rows found", aria_label="What was found")]


def _session(one: SessionMatch, standings: Mapping[str, SessionStanding]) -> Element:
    head = one.summary.head
    standing = standings.get(one.session_id, SessionStanding(head.state.value))
    passages = _passages(one.passages, f"/sessions/{one.session_id}")
    what = (session_link(head, one.goal), session_about(head), passages)
    return row(one.session_id, standing_badge(standing), what, when=ago(one.changed_at))


def _question(one: QuestionMatch, services: UiServices) -> Element:
    name, title = one.session_id, ", ".join(one.session.titles)
    status = services.questions.status_of(one.session)
    asker = asked_for(one.session)
    badge, address = element("span", status.word, class_="badge"), None
    if status is SessionStatus.PENDING:
        badge, address = standing_badge(SessionStanding.WAITING), f"/questions#question-{name}"
    elif asker is not None:
        address = f"/sessions/{asker}"
    if address is None:
        link = element("strong", title, class_="title")
    else:
        link = element("a", title, href=address, id=f"to-{name}")
    about = muted("question", (" of ", element("code", asker)) if asker else None, tag="p")
    what = (link, about, _passages(one.passages, None))
    return row(name, badge, what, when=ago(one.changed_at))


def _passages(found: tuple[Passage, ...], address: str | None) -> Element:
    return element("ul", [_passage(one, address) for one in found], class_="passages")


def _passage(passage: Passage, address: str | None) -> Element:
    number = "" if passage.number is None else f" {passage.number + 1:,}"
    words, part = f"{passage.place.value}{number}", _PARTS.get(passage.place)
    if address is None or part is None:
        place = element("span", words, class_="place")
    else:
        place = element("a", words, href=f"{address}#{part}", class_="place")
    text = element("span", _marked(passage), class_="passage", dir="auto")
    return element("li", place, " ", text)


def _marked(passage: Passage) -> Iterator[Child]:
    at = 0
    for begin, end in passage.marks:
        yield passage.text[at:begin]
        yield element("mark", passage.text[begin:end])
        at = end
    yield passage.text[at:]
