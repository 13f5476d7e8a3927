"""The page of all sessions: what needs a person first, narrowed and sorted by the server."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import urlencode
from xml.etree.ElementTree import Element

from attrs import evolve

from ....harness.views.session_head import SessionHead, UnreadableSession
from ...pages.html import Child, element
from ..live import QUESTIONS, SESSIONS
from ..services import Services
from ..session_rows import ORDER_NAMES, Listed, Order, Row, Standing, Wanted, listed
from ..view import View, ago
from .forms import Form

_GOAL_CHARS: Final = 160
_UNREADABLE: Final = 20
_BAR_WIDTH: Final = 120
STANDING_WORDS: Final = {
    Standing.WAITING: "waits for you",
    Standing.INTERRUPTED: "interrupted",
    Standing.ACTIVE: "active",
    Standing.PAUSED: "paused",
    Standing.ABORTED: "aborted",
    Standing.COMPLETED: "completed",
}


def list_view(services: Services, form: Form, _: str) -> View:
    """Show the sessions that are wanted.

    Raises:
        InvalidForm: The address asks for what there can't be.
        ReadError: The store refused.
    """
    wanted = Wanted.of(form)
    found = listed(services.rows_for(wanted), wanted)
    rows = services.watch.with_goals(found.rows)
    return View(
        title="Sessions",
        topics=(SESSIONS, QUESTIONS),
        address=address_of(wanted),
        content=[
            element("h1", "Sessions", id="heading", class_="visually-hidden"),
            _search(wanted, found),
            _standings(wanted, found),
            *_unreadable(services.watch.unreadable(), services),
            _rows(rows, wanted, services),
            _pages(wanted, found),
        ],
    )


def address_of(wanted: Wanted) -> str:
    """Return the address of a list."""
    fields = [("q", " ".join(wanted.words))] if wanted.words else []
    fields += [("standing", one.value) for one in Standing if one in wanted.standings]
    fields += [("workflow", wanted.workflow)] if wanted.workflow else []
    fields += [("tag", wanted.tag)] if wanted.tag else []
    fields += [("order", wanted.order.value)] if wanted.order is not Order.ATTENTION else []
    fields += [("after", wanted.after)] if wanted.after else []
    return f"/?{urlencode(fields)}" if fields else "/"


def _search(wanted: Wanted, found: Listed) -> Element:
    return element(
        "search",
        element(
            "form",
            element("label", "Filter", for_="q", class_="visually-hidden"),
            element(
                "input",
                type="search",
                id="q",
                name="q",
                value=" ".join(wanted.words),
                placeholder="Filter by goal, title, tag, phase or id",
                autocomplete="off",
                aria_keyshortcuts="/",
            ),
            _choice("workflow", "Workflow", "All workflows", found.workflows, wanted.workflow),
            _choice("tag", "Tag", "All tags", found.tags, wanted.tag) if found.tags else None,
            _order(wanted.order),
            element(
                "button",
                "Search inside",
                type="submit",
                id="to-search",
                title="Find these words in histories, questions and answers too",
            ),
            id="filter",
            class_="filter",
            hx_get="/view/",
            hx_trigger="input changed delay:120ms from:#q, change from:#view",
            hx_target="#view",
            hx_swap="keyed",
            hx_sync="#page:replace",
            data_go="/search",
            data_fields="q workflow tag",
            data_calm=True,
        ),
        id="search",
    )


def _choice(
    name: str, label: str, none: str, values: Sequence[str], chosen: str | None
) -> Sequence[Element]:
    if chosen is not None and chosen not in values:
        values = [*values, chosen]
    options = [element("option", none, value="")]
    options += [element("option", one, value=one, selected=one == chosen) for one in values]
    return (
        element("label", label, for_=name, class_="visually-hidden"),
        element("select", options, id=name, name=name),
    )


def _order(order: Order) -> Sequence[Element]:
    options = [
        element("option", name, value=one.value, selected=one is order)
        for one, name in ORDER_NAMES.items()
    ]
    return (
        element("label", "Order", for_="order", class_="visually-hidden"),
        element("select", options, id="order", name="order"),
    )


def _standings(wanted: Wanted, found: Listed) -> Element:
    """Return the states as switches, each with how many there are."""
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
            element("span", STANDING_WORDS[one]),
            element("span", found.counts.get(one, 0), class_="count"),
            class_="chip",
            data_standing=one.value,
        )
        for one in Standing
    ]
    return element(
        "fieldset",
        element("legend", "Only these", class_="visually-hidden"),
        chips,
        id="standings",
        class_="chips",
    )


def _unreadable(found: Sequence[UnreadableSession], services: Services) -> list[Element]:
    if not found:
        return []
    lines = [
        element("li", element("code", one.session_id), " ", str(one.error))
        for one in found[:_UNREADABLE]
    ]
    more = len(found) - len(lines)
    return [
        element(
            "details",
            element("summary", len(found), " can't be read"),
            element("ul", lines),
            element("p", f"and {more:,} more; `{services.places.command} list` names all")
            if more
            else None,
            id="unreadable",
            class_="card alarm",
        )
    ]


def _rows(rows: Sequence[Row], wanted: Wanted, services: Services) -> Element:
    if not rows:
        return element("div", _nothing(wanted, services), id="none", class_="card empty")
    return element(
        "ol",
        [_row(one) for one in rows],
        id="rows",
        class_="rows",
        data_keyed=True,
        aria_label="Sessions",
    )


def _nothing(wanted: Wanted, services: Services) -> Child:
    if wanted.narrows or wanted.after:
        return (
            element("p", "No session fits."),
            element("p", element("a", "Show all sessions", href="/")),
        )
    return (
        element("p", "There is no session in ", element("code", services.store.where), " yet."),
        element("p", "Begin one with ", element("code", f"{services.places.command} run"), "."),
    )


def standing_badge(standing: Standing) -> Element:
    """Return where a session stands, as a word that stands out."""
    return element("span", STANDING_WORDS[standing], class_="badge", data_state=standing.value)


def _row(row: Row) -> Element:
    head = row.head
    title = head.title or first_line(row.goal) or head.session_id
    return element(
        "li",
        standing_badge(row.standing),
        element(
            "div",
            element("a", title, href=f"/sessions/{head.session_id}", id=f"to-{head.session_id}"),
            element(
                "p",
                element("code", head.session_id),
                f" · {head.workflow_type}" if head.workflow_type else None,
                [element("span", one, class_="tag") for one in head.tags],
                class_="muted",
            ),
            class_="what",
        ),
        element("div", *_phase(head), class_="phase"),
        element("div", *budget(head.tokens_used, head.total_budget), class_="tokens"),
        element("div", ago(head.updated_at), class_="when"),
        id=f"row-{head.session_id}",
        class_="row",
    )


def first_line(goal: str | None) -> str | None:
    """Return the first line of a goal that says something, shortened; None if none does."""
    for line in (goal or "").splitlines():
        if line := line.strip():
            return line if len(line) <= _GOAL_CHARS else f"{line[: _GOAL_CHARS - 1]}…"
    return None


def _phase(head: SessionHead) -> Sequence[Child]:
    if head.current_phase is None:
        return (element("span", "no phase", class_="muted"),)
    attempt = f"attempt {head.attempt_number:,}" if head.attempt_number > 1 else None
    return (
        element("span", head.current_phase),
        element("small", attempt, class_="muted") if attempt else None,
    )


def budget(used: int, total: int) -> tuple[Element, Element]:
    """Return a budget as a bar and in words."""
    share = min(used / total, 1.0) if total else 1.0
    level = "over" if used > total else "near" if used * 100 >= total * 80 else "spent"
    bar = element(
        "svg",
        element("rect", class_="rest", x=0, y=0, width=_BAR_WIDTH, height=6, rx=3),
        element("rect", class_=level, x=0, y=0, width=round(share * _BAR_WIDTH, 2), height=6, rx=3),
        class_="bar",
        viewBox=f"0 0 {_BAR_WIDTH} 6",
        preserveAspectRatio="none",
        aria_hidden="true",
    )
    words = element(
        "small", f"{used:,} of {total:,}", element("span", " tokens", class_="visually-hidden")
    )
    return bar, words


def _pages(wanted: Wanted, found: Listed) -> Element:
    total = f"{found.total:,} session{'' if found.total == 1 else 's'}"
    links = []
    if wanted.after is not None:
        first = address_of(evolve(wanted, after=None))
        links.append(element("a", "First page", href=first, id="first-page"))
    if found.after is not None:
        following = address_of(evolve(wanted, after=found.after))
        links.append(element("a", "Next page", href=following, id="next-page", rel="next"))
    return element(
        "nav",
        element("span", total, class_="muted"),
        links,
        id="pages",
        class_="pages",
        aria_label="Pages of the list",
    )
