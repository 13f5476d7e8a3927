"""The page of all sessions, filtered and sorted by the server; those that need a person first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from xml.etree.ElementTree import Element

from attrs import evolve

from ....base.errors import counted
from ....harness.views.session_head import SessionHead
from ...pages.html import Child, element
from ...pages.parts import budget_bar, muted
from ..live import QUESTIONS, SESSIONS
from ..services import UiServices
from ..session_rows import ORDER_NAMES, Listed, Row, SessionStanding, Wanted, listed
from ..view import View, ago, page_heading
from .controls import (
    hidden_label,
    row,
    search_form,
    select,
    session_about,
    session_link,
    standing_badge,
    unreadable,
)
from .forms import Form

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
            *unreadable((len(bad), " can't be read"), bad[:_UNREADABLE], rest),
            _rows(with_goals(found.rows), wanted, services),
            _pages(wanted, found),
        ],
    )


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
