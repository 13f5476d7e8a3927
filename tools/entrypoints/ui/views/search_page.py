"""The page of a search: words in goals, histories, questions and answers, each where it stands.

Its text is what agents and people wrote: it stands in the page as text, and the marks are cut from
it by their places.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from xml.etree.ElementTree import Element

from ....base.search_words import Passage, Place, SearchWords
from ....harness.views.session_search import SessionMatch
from ....questions import SessionStatus
from ....questions.search import QuestionMatch
from ....wiring.searching import Found, search
from ...pages.html import Child, element
from ..services import Services, asked_for
from ..session_rows import Standing, Wanted
from ..view import View, ago
from .forms import Form
from .list_page import first_line, standing_badge

LIMIT: Final = 50
"""The most sessions and question sessions that are shown."""
_PARTS: Final = {Place.HISTORY: "history", Place.ARTIFACT: "files"}
"""The part of a session's page that has what is found in a place."""


def search_view(services: Services, form: Form, _: str) -> View:
    """Show what a search finds, the last changed first.

    Raises:
        InvalidSearch: There are too many words.
        InvalidForm: The address asks for what there can't be.
        ReadError: The store of the sessions refused.
        QuestionError: The store of the question sessions refused.
    """
    wanted = Wanted.of(form)
    text = " ".join(" ".join(form.get("q", [])).split())
    parts = [element("h1", "Search", id="heading", class_="visually-hidden"), _form(text, wanted)]
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
        parts += [_summary(found), *_unreadable(found), *_matches(found, services)]
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
    return element(
        "search",
        element(
            "form",
            element("label", "Search", for_="q", class_="visually-hidden"),
            element(
                "input",
                type="search",
                id="q",
                name="q",
                value=text,
                placeholder='Words, or "a phrase", in goals, histories, questions and answers',
                autocomplete="off",
                aria_keyshortcuts="/",
                autofocus=not text,
            ),
            narrowed,
            element("button", "Search", type="submit", id="to-search"),
            id="searched",
            class_="filter",
            data_go="/search",
            data_fields="q workflow tag",
            data_calm=True,
        ),
        id="search",
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


def _unreadable(found: Found) -> list[Element]:
    failed = [(one.session_id, one.error) for one in found.unreadable]
    questions = [(one.session_id, one.error) for one in found.unreadable_questions]
    if not failed and not questions:
        return []
    lines = [
        element("li", element("code", name), f" {error}") for name, error in failed + questions
    ]
    return [
        element(
            "details",
            element("summary", f"{len(lines):,} can't be read, and were not searched"),
            element("ul", lines),
            id="unreadable",
            class_="card alarm",
        )
    ]


def _matches(found: Found, services: Services) -> list[Element]:
    if not found.matches:
        return []
    standings = {row.session_id: row.standing for row in services.rows()}
    lines = [
        _session(one, standings) if isinstance(one, SessionMatch) else _question(one, services)
        for one in found.matches
    ]
    return [element("ol", lines, id="rows", class_="rows found", aria_label="What was found")]


def _session(one: SessionMatch, standings: Mapping[str, Standing]) -> Element:
    head = one.summary.head
    address = f"/sessions/{one.session_id}"
    return _line(
        one.session_id,
        standing_badge(standings.get(one.session_id, Standing(head.state.value))),
        element(
            "a",
            head.title or first_line(one.goal) or one.session_id,
            href=address,
            id=f"to-{one.session_id}",
        ),
        (
            element("code", one.session_id),
            f" · {head.workflow_type}" if head.workflow_type else None,
            [element("span", tag, class_="tag") for tag in head.tags],
        ),
        [_passage(passage, address) for passage in one.passages],
        ago(one.changed_at),
    )


def _question(one: QuestionMatch, services: Services) -> Element:
    status = services.questions.status_of(one.session)
    waits = status is SessionStatus.PENDING
    asker = asked_for(one.session)
    address = None
    if waits:
        address = f"/questions#question-{one.session_id}"
    elif asker is not None:
        address = f"/sessions/{asker}"
    title = ", ".join(one.session.titles)
    return _line(
        one.session_id,
        standing_badge(Standing.WAITING) if waits else element("span", status.word, class_="badge"),
        element("strong", title, class_="title")
        if address is None
        else element("a", title, href=address, id=f"to-{one.session_id}"),
        ("question", (" of ", element("code", asker)) if asker else None),
        [_passage(passage, None) for passage in one.passages],
        ago(one.changed_at),
    )


def _line(
    name: str,
    badge: Element,
    title: Element,
    about: Child,
    passages: Sequence[Element],
    changed: Element,
) -> Element:
    return element(
        "li",
        badge,
        element(
            "div",
            title,
            element("p", about, class_="muted"),
            element("ul", passages, class_="passages"),
            class_="what",
        ),
        element("div", changed, class_="when"),
        id=f"row-{name}",
        class_="row",
    )


def _passage(passage: Passage, address: str | None) -> Element:
    number = "" if passage.number is None else f" {passage.number + 1:,}"
    place = f"{passage.place.value}{number}"
    part = _PARTS.get(passage.place)
    return element(
        "li",
        element("span", place, class_="place")
        if address is None or part is None
        else element("a", place, href=f"{address}#{part}", class_="place"),
        " ",
        element("span", list(_marked(passage)), class_="passage", dir="auto"),
    )


def _marked(passage: Passage) -> Iterator[Child]:
    at = 0
    for begin, end in passage.marks:
        yield passage.text[at:begin]
        yield element("mark", passage.text[begin:end])
        at = end
    yield passage.text[at:]
