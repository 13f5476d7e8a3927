"""The pages of all sessions and of a search in them.

The list is filtered and sorted by the server; sessions that need a person are first. Passages that
a search finds were written by agents and people, so they are inserted as text only; matches are
marked by position.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Final
from xml.etree.ElementTree import Element

from attrs import evolve

from ....agents.ledger import spent_on
from ....base.errors import counted
from ....base.search_words import Passage, SearchWords, TextSource
from ....harness.domain.history_events import dollars
from ....harness.views.session_head import SessionHead
from ....harness.views.session_search import SessionMatch
from ....questions import SessionStatus
from ....questions.listing import QuestionMatch
from ....wiring.searching import SearchResult, search
from ...pages.html import Child, element
from ...pages.parts import budget_bar, muted
from ..live import QUESTIONS, SESSIONS
from ..services import UiServices, asked_for
from ..session_rows import ORDER_NAMES, Listed, Row, SessionStanding, Wanted, listed
from ..view import View, ago, page_heading
from .controls import (
    Form,
    hidden_label,
    row,
    search_form,
    select,
    session_about,
    session_link,
    standing_badge,
    unreadable,
)

_UNREADABLE: Final = 20


def list_view(services: UiServices, form: Form, _: str) -> View:
    """Return the page of the sessions that the address requests.

    Raises:
        InvalidForm: A field of the address is invalid.
        ReadError: The store can't be read.
    """
    wanted = Wanted.of(form)
    with_goals = services.watch.with_goals
    rows = services.rows()
    found = listed(with_goals(rows) if wanted.words else rows, wanted)
    bad = [(one.session_id, one.error) for one in services.watch.unreadable()]
    more, command = len(bad) - _UNREADABLE, f"`{services.places.command} list`"
    rest = element("p", f"and {more:,} more; {command} names all") if more > 0 else None
    return View(
        title="Sessions",
        topics=(SESSIONS, QUESTIONS),
        address=wanted.address(),
        content=[
            page_heading("Sessions", hidden=True),
            _search(wanted, found),
            _standings(wanted, found),
            *_spent_today(services),
            *unreadable((len(bad), " can't be read"), bad[:_UNREADABLE], rest),
            _rows(with_goals(found.rows), wanted, services),
            _pages(wanted, found),
        ],
    )


def _spent_today(services: UiServices) -> list[Element]:
    """Return what the person's agents spent today; empty if that is nothing."""
    tokens, cost = spent_on(services.clock(), os.environ)
    if not tokens:
        return []
    said = f"Spent by your agents today: {tokens:,} tokens, {dollars(cost)}"
    return [element("p", said, class_="muted", id="spent-today")]


def _search(wanted: Wanted, found: Listed) -> Element:
    tags = _choice("tag", "Tag", "All tags", found.tags, wanted.tag)
    return search_form(
        "Filter",
        " ".join(wanted.words),
        "Filter by goal, title, tag, phase or id",
        _choice("workflow", "Workflow", "All workflows", found.workflows, wanted.workflow),
        tags if found.tags else None,
        hidden_label("Order", "order"),
        select("order", ((one.value, name) for one, name in ORDER_NAMES.items()), wanted.order),
        element(
            "button",
            "Search inside",
            type="submit",
            id="to-search",
            title="Find these words in histories, questions and answers too",
        ),
        id="filter",
        hx_get="/view/",
        hx_trigger="input changed delay:120ms from:#q, change from:#view",
        hx_target="#view",
        hx_swap="keyed",
        hx_sync="#page:replace",
        data_fields="q workflow tag",
    )


def _choice(
    name: str, label: str, none: str, values: Sequence[str], chosen: str | None
) -> Sequence[Element]:
    if chosen is not None and chosen not in values:
        values = [*values, chosen]
    options = [("", none), *((one, one) for one in values)]
    return hidden_label(label, name), select(name, options, chosen or "")


def _standings(wanted: Wanted, found: Listed) -> Element:
    """Return a checkbox for each standing, with the number of sessions."""
    chips = [
        element(
            "label",
            element(
                "input",
                type="checkbox",
                name="standing",
                value=one.value,
                form="filter",
                id=f"standing-{one.value}",
                checked=one in wanted.standings,
            ),
            element("span", one.words),
            element("span", found.counts.get(one, 0), class_="count"),
            class_="chip",
            data_standing=one.value,
        )
        for one in SessionStanding
    ]
    legend = element("legend", "Only these", class_="visually-hidden")
    return element("fieldset", legend, chips, id="standings", class_="chips")


def _rows(rows: Sequence[Row], wanted: Wanted, services: UiServices) -> Element:
    if not rows:
        return element("div", _nothing(wanted, services), id="none", class_="card empty")
    lines = [_row(one) for one in rows]
    return element("ol", lines, id="rows", class_="rows", data_keyed=True, aria_label="Sessions")


def _nothing(wanted: Wanted, services: UiServices) -> Child:
    if wanted.narrows or wanted.after:
        everything = element("a", "Show all sessions", href="/")
        return element("p", "No session fits."), element("p", everything)
    where, run = services.store.where, f"{services.places.command} run"
    return (
        element("p", "There is no session in ", element("code", where), " yet."),
        element("p", "Begin one with ", element("code", run), "."),
    )


def _row(one: Row) -> Element:
    head = one.head
    return row(
        head.session_id,
        standing_badge(one.standing),
        (session_link(head, one.goal), session_about(head)),
        phase=_phase(head),
        tokens=_budget(head.tokens_used, head.total_budget),
        when=ago(head.updated_at),
    )


def _phase(head: SessionHead) -> Child:
    if head.current_phase is None:
        return muted("no phase")
    attempt = f"attempt {head.attempt_number:,}" if head.attempt_number > 1 else None
    return element("span", head.current_phase), muted(attempt, tag="small") if attempt else None


def _budget(used: int, total: int) -> Child:
    """Return a budget as a bar and as text."""
    unit = element("span", " tokens", class_="visually-hidden")
    return budget_bar(used, total), element("small", f"{used:,} of {total:,}", unit)


def _pages(wanted: Wanted, found: Listed) -> Element:
    links = []
    if wanted.after is not None:
        first = evolve(wanted, after=None).address()
        links.append(element("a", "First page", href=first, id="first-page"))
    if found.after is not None:
        following = evolve(wanted, after=found.after).address()
        links.append(element("a", "Next page", href=following, id="next-page", rel="next"))
    total = muted(counted(found.total, "session"))
    return element("nav", total, links, id="pages", class_="pages", aria_label="Pages of the list")


LIMIT: Final = 50
"""Maximum number of sessions and question sessions shown."""
_PARTS: Final = {TextSource.HISTORY: "history", TextSource.ARTIFACT: "files"}
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


def _summary(found: SearchResult) -> Element:
    count = len(found.matches)
    if not count:
        text = "Nothing has all of these words."
    elif found.more:
        text = f"The {count:,} that changed last. There are more: add a word to find fewer."
    else:
        text = f"{count:,} found, the last changed first."
    return element("p", text, id="summary", class_="muted", role="status")


def _matches(found: SearchResult, services: UiServices) -> list[Element]:
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
