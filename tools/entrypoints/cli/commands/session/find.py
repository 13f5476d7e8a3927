"""Commands that find sessions: list, search."""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

from attrs import asdict, frozen

from ..... import harness
from .....base.errors import counted
from .....base.identifiers import is_session_id
from ...context import Cli
from ...options import QuestionPlace, argument, complete_session_ids, misuse, option
from ...output.documents import summary_document, unreadable_document


class OrderName(StrEnum):
    """Orders of a list of sessions."""

    LAST_CHANGED = "last-changed"
    FIRST_CHANGED = "first-changed"
    LAST_CREATED = "last-created"
    FIRST_CREATED = "first-created"
    LEAST_LEFT = "least-left"
    MOST_LEFT = "most-left"
    MOST_SPENT = "most-spent"
    LEAST_SPENT = "least-spent"
    ID = "id"


@frozen
class SessionFilters:
    """Options that filter sessions; each field has the name of a manager's parameter.

    Attributes:
        state: Only those that are active, paused, completed or aborted; repeatable.
        workflow_type: Only those of this workflow type.
        current_phase: Only those in this phase.
        tags: Only those with this tag; repeatable: with all of them.
        parent_id: Only those that were made from this session.
        goal: Only those with this in their goal; at least three characters.
        title: Only those with this in their title; at least three characters.
        budget_left: Only those with so much of their budget left, as in ..20%, 5000.. or 10%..50%.
        older_than: Only those not changed for at least this long, as in 24h.
        younger_than: Only those changed within this time, as in 7d.
    """

    state: list[harness.SessionState] | None = option("--state STATE")
    workflow_type: str | None = option("--workflow TYPE")
    current_phase: str | None = option("--phase NAME")
    tags: list[str] | None = option("--tag TAG")
    parent_id: str | None = option("--parent ID", autocompletion=complete_session_ids)
    goal: str | None = option("--goal TEXT")
    title: str | None = option("--title TEXT")
    budget_left: str | None = option("--budget-left RANGE")
    older_than: timedelta | None = option("--older-than DURATION")
    younger_than: timedelta | None = option("--younger-than DURATION")

    def asked(self, manager: harness.SessionManager) -> dict[str, Any]:
        """Return the filters that were given, by name; a parent by its full id."""
        filters = asdict(self, filter=lambda _, value: value not in (None, [], ()))
        parent = self.parent_id
        if parent is not None and not is_session_id(parent):  # a full id may be of a deleted one
            filters["parent_id"] = manager.store.resolve(parent)
        if self.state:
            filters["state"] = [one.value for one in self.state]
        return filters


def list_sessions(
    cli: Cli,
    *,
    sessions: SessionFilters,
    order: OrderName | None = option("--order ORDER", f"What comes first: {', '.join(OrderName)}."),
    limit: int | None = option("--limit N", min=1),
    after: str | None = option("--after CURSOR"),
) -> None:
    """List the sessions, the last changed first by default.

    A session that can't be read is listed with the reason; it hides none of the others.

    Args:
        limit: Only the first N.
        after: With --limit: go on where a former list ended, which says it.
    """
    if after is not None and limit is None:
        raise misuse("--after", "it needs --limit")
    manager = cli.manager()
    filters = sessions.asked(manager)
    page = _page(manager, limit, after, order or OrderName.LAST_CHANGED, filters)
    unreadable = page.unreadable
    interrupted = {
        one.session_id
        for one in page.sessions
        if manager.store.is_interrupted(one.session_id, one.head.state)
    }
    found = page.sessions
    foreign = {one.session_id for one in found if not manager.store.is_own(one.session_id)}
    _say_what_was_brought(cli)
    _say_of_codex(cli)

    def document() -> dict[str, Any]:
        rows = [
            summary_document(one, interrupted=whole in interrupted, own=whole not in foreign)
            for one in found
            if (whole := one.session_id)
        ]
        return {
            "base": manager.store.where,
            "sessions": rows,
            "unreadable": [unreadable_document(one) for one in unreadable],
            "next": None if page.after is None else str(page.after),
        }

    if cli.output.wrote(document):
        return
    from ...output import render

    if found:
        now = cli.outside.clock()
        cli.output.show(
            render.session_table(found, now=now, interrupted=interrupted, foreign=foreign)
        )
        if foreign:
            cli.output.remark(
                "not adopted: they came with a clone, a copy or an archive, and no agent is shown "
                "them; `agentforge session adopt ID` shows one and makes it yours"
            )
        if page.after is not None:
            count = "more" if page.more is None else f"{page.more} more"
            cli.output.remark(f"{count} fit; --limit {limit} --after {page.after} lists the next")
    elif not unreadable:
        which = "fits" if filters or after is not None else "is there"
        cli.output.line(f"No session {which} in {manager.store.where}.")
    cli.output.show(*render.unreadable_lines(unreadable))


def _say_what_was_brought(cli: Cli) -> None:
    brought = cli.sessions_brought()
    count = 0 if brought is None else sum(1 for _ in brought.list_sessions())
    if brought is not None and count:
        cli.output.remark(
            f"{counted(count, 'session')} came with this repository, in {brought.where}: "
            f"`agentforge --base {brought.where} list` lists them, `agentforge session adopt ID` "
            "shows one and makes it yours"
        )


def _say_of_codex(cli: Cli) -> None:
    """Remark that Codex does not call the installed hooks: it says nothing itself."""
    from .....agents.setup.manifest import Places, Scope

    places = Places(Path.home(), Path.cwd(), os.environ)
    if not any((places.state(one) / "codex.json").exists() for one in Scope):
        return
    from .....agents.setup.health import codex_lacks_review

    if codex_lacks_review(places):
        cli.output.remark(
            "Codex records nothing: you have not reviewed all hooks of agentforge there. Start "
            "codex, enter /hooks, and trust them; `agentforge doctor` checks it"
        )


def _page(
    manager: harness.SessionManager,
    limit: int | None,
    after: str | None,
    order: OrderName,
    filters: Mapping[str, Any],
) -> harness.SessionPage:
    """Return the sessions to list; all of them without a limit."""
    name = order.value.replace("-", "_")
    if limit is not None:
        return manager.page(limit, after=after, order=name, **filters)
    unreadable: list[harness.UnreadableSession] = []
    found = manager.list(order=name, on_unreadable=unreadable.append, **filters)
    return harness.SessionPage(sessions=tuple(found), more=0, unreadable=tuple(unreadable))


def search(
    cli: Cli,
    *,
    words: list[str] = argument("WORDS"),
    sessions: SessionFilters,
    limit: int = option("--limit N", default=20, min=1),
    place: QuestionPlace,
) -> None:
    """Find sessions by words in their titles, goals, histories and artifacts, and questions.

    All words occur in each session or question session that is found, capital or small, the last
    changed first. Questions are found by what was asked and answered.

    Args:
        words: Words that all occur; one with a space in it is a phrase.
        limit: The first N, 20 by default.
    """
    from .....base.search_words import SearchWords
    from .....wiring.searching import search as search_all
    from ...asking import question_sessions

    asked = SearchWords.of_arguments(words)
    manager = cli.manager()
    questions = question_sessions(cli, place)
    filters = sessions.asked(manager)
    found = search_all(manager, questions, asked, limit=limit, clock=cli.outside.clock, **filters)
    from ...found import found_document, show_found

    if cli.output.wrote(lambda: found_document(found, asked, manager, questions)):
        return
    show_found(cli, found, manager, questions)
    if found.more:
        cli.output.remark(f"more are found; --limit {2 * limit} shows more, further words fewer")
    elif not found.matches:
        cli.output.line(f"Nothing has {asked} in {manager.store.where} or {questions.where}.")
