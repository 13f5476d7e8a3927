"""Pages of sessions: one suite for every implementation of `SessionRepository`."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from fractions import Fraction
from typing import Any, Final

import pytest

from agentforge_sessions.harness import (
    InvalidSession,
    SessionContext,
    SessionFilter,
    SessionManager,
    SessionOrder,
    SessionPage,
    SessionState,
)
from agentforge_sessions.harness.views.session_filter import BudgetLeft
from agentforge_sessions.harness.views.session_page import InvalidCursor, SessionCursor
from tests.contract.harness.test_session_repository_contract import Kept, kept
from tests.support.clock import START, FakeClock
from tests.support.sessions import session_id as an_id

__all__ = ["kept"]

WORKFLOWS: Final = ("tdflow", "spec", None)
PHASES: Final = ("red", "green")
TAGS: Final = ("billing", "urgent", "ünïque")
PARENT: Final = an_id(999)
STATES: Final = tuple(SessionState)
OTHER_ORDERS: Final = (SessionOrder.FIRST_CHANGED, SessionOrder.LEAST_LEFT, SessionOrder.ID)


def fill(kept: Kept, count: int = 12) -> list[SessionContext]:
    """Keep sessions of all kinds, two of them changed at each time; return them, newest first."""
    clock = FakeClock()
    made = []
    for number in range(count):
        clock.advance(1_700 * (number % 2))
        manager = SessionManager(kept.sessions, clock=clock)
        session = SessionContext.create(
            WORKFLOWS[number % 3],
            PHASES[number % 2],
            100 * (1 + number % 3),
            session_id=an_id(100 + (number * 7) % count),
            goal=f"Make the Übersicht {number} of 100%_\\\nand its index",
            title=None if number % 3 == 2 else f"Nächtlicher Import {number} of 50%_\\ STRASSE ß",
            tags=TAGS[: number % 4],
            parent_id=PARENT if number % 5 == 1 else None,
            now=clock(),
        )
        kept.sessions.save(session)
        manager.open(session.session_id)
        manager.record_tokens(1 + 40 * (number % 5))
        match STATES[number % 4]:
            case SessionState.PAUSED:
                manager.pause()
            case SessionState.COMPLETED:
                manager.complete()
            case SessionState.ABORTED:
                manager.abort()
        made.append(kept.get(session.session_id))
    return sorted(made, key=lambda one: (one.updated_at, one.session_id), reverse=True)


def keys(order: SessionOrder) -> Callable[[SessionContext], Any]:
    """Return what sessions are sorted by in an order, as the words of the order say it."""

    def left(one: SessionContext) -> int:
        return one.token_budget.tokens_remaining

    def spent(one: SessionContext) -> int:
        return one.token_budget.tokens_used

    field: dict[str, Callable[[SessionContext], Any]] = {
        "changed": lambda one: one.updated_at,
        "created": lambda one: one.created_at,
        "left": left,
        "spent": spent,
        "id": lambda one: 0,
    }
    of = field[order.value.rpartition("_")[2]]
    return lambda one: (of(one), one.session_id)


def in_order(made: list[SessionContext], order: SessionOrder) -> list[str]:
    """Return the ids of sessions in an order."""
    backward = order.value.startswith(("last", "most"))
    return [one.session_id for one in sorted(made, key=keys(order), reverse=backward)]


def all_pages(
    kept: Kept,
    wanted: SessionFilter | None = None,
    *,
    order: SessionOrder = SessionOrder.LAST_CHANGED,
    limit: int = 3,
) -> list[str]:
    """Return the ids of page after page; no page is larger than it may be."""
    ids: list[str] = []
    after = None
    while True:
        page = kept.again().page(wanted, order=order, limit=limit, after=after)
        assert len(page.sessions) <= limit
        ids += [one.session_id for one in page.sessions]
        if page.after is None:
            assert page.more == 0
            return ids
        assert page.more != 0
        assert len(page.sessions) == limit
        after = SessionCursor.parse(str(page.after))
        assert after == page.after


def test_without_sessions_a_page_is_empty(kept: Kept) -> None:
    assert kept.sessions.page(limit=5) == SessionPage(sessions=(), more=0)


@pytest.mark.parametrize("limit", [1, 5, 12])
def test_page_after_page_has_each_session_once_in_each_order(kept: Kept, limit: int) -> None:
    made = fill(kept)
    for order in SessionOrder:
        assert all_pages(kept, order=order, limit=limit) == in_order(made, order), order


def test_the_last_changed_come_first_unless_another_order_is_asked_for(kept: Kept) -> None:
    made = fill(kept)
    page = kept.sessions.page(limit=50)
    assert [one.session_id for one in page.sessions] == [one.session_id for one in made]


def test_a_page_has_the_heads_that_the_sessions_have(kept: Kept) -> None:
    made = fill(kept)
    page = kept.sessions.page(limit=12)
    summaries = {one.session_id: one for one in kept.sessions.summaries()}
    assert page.sessions == tuple(summaries[one.session_id] for one in made)
    assert page.unreadable == ()


FILTERS: Final = (
    SessionFilter(state=SessionState.ACTIVE),
    SessionFilter(state=["active", "aborted"]),
    SessionFilter(state=(SessionState.PAUSED, "completed", "completed"), workflow_type="tdflow"),
    SessionFilter(state=tuple(SessionState)),
    SessionFilter(state=()),
    SessionFilter(state=SessionState.COMPLETED, workflow_type="spec"),
    SessionFilter(tags="billing"),
    SessionFilter(tags=["ünïque", "billing"]),
    SessionFilter(tags=["urgent"], state=["active", "aborted"]),
    SessionFilter(tags=()),
    SessionFilter(tags="bill"),
    SessionFilter(tags=["billing", "other"]),
    SessionFilter(title="nÄCHTLICHER import 1"),
    SessionFilter(title="STRAßE SS", state=["active", "paused"]),
    SessionFilter(title="0%_\\", goal="übersicht 1", tags="billing"),
    SessionFilter(title="50__"),
    SessionFilter(parent_id=PARENT),
    SessionFilter(parent_id=PARENT, tags="billing"),
    SessionFilter(parent_id=an_id(998)),
    SessionFilter(budget_left=BudgetLeft.parse("..0")),
    SessionFilter(budget_left=BudgetLeft.parse("19..")),
    SessionFilter(budget_left=BudgetLeft.parse("19..59")),
    SessionFilter(budget_left=BudgetLeft.parse("..19%")),
    SessionFilter(budget_left=BudgetLeft.parse("..18.9999%")),
    SessionFilter(budget_left=BudgetLeft.parse("59% .. 99%"), workflow_type="tdflow"),
    SessionFilter(budget_left=BudgetLeft.parse("-61%..-21%"), state=["active", "paused"]),
    SessionFilter(budget_left=BudgetLeft(least_percent=19, most_tokens=139)),
    SessionFilter(workflow_type="tdflow"),
    SessionFilter(current_phase="green", state=SessionState.PAUSED),
    SessionFilter(changed_until=START + timedelta(seconds=3_400)),
    SessionFilter(changed_since=START + timedelta(seconds=3_400)),
    SessionFilter(
        changed_since=START + timedelta(seconds=1_700),
        changed_until=START + timedelta(seconds=6_800),
        workflow_type="tdflow",
    ),
    SessionFilter(goal="übersicht 1"),
    SessionFilter(goal="ÜBERSICHT 11 OF 100%_\\\nAND"),
    SessionFilter(goal="00%_"),
    SessionFilter(goal="00_%"),
    SessionFilter(goal="of 1.0"),
    SessionFilter(goal="its index", state=SessionState.ACTIVE),
    SessionFilter(workflow_type="no such"),
)


def fits_budget(asked: BudgetLeft | None, session: SessionContext) -> bool:
    if asked is None:
        return True
    left = session.token_budget.tokens_remaining
    share = Fraction(100 * left, session.token_budget.total_budget)
    return (
        (asked.least_tokens is None or asked.least_tokens <= left)
        and (asked.most_tokens is None or left <= asked.most_tokens)
        and (asked.least_percent is None or Fraction(str(asked.least_percent)) <= share)
        and (asked.most_percent is None or share <= Fraction(str(asked.most_percent)))
    )


def test_a_page_has_those_that_fit(kept: Kept) -> None:
    made = fill(kept)
    found = 0
    for number, wanted in enumerate(FILTERS):
        fitting = [
            one.session_id
            for one in made
            if (wanted.state is None or one.state in wanted.state)
            and fits_budget(wanted.budget_left, one)
            and (wanted.tags is None or wanted.tags <= set(one.tags))
            and (wanted.parent_id is None or one.parent_id == wanted.parent_id)
            and (wanted.workflow_type is None or one.workflow_type == wanted.workflow_type)
            and (wanted.current_phase is None or one.current_phase == wanted.current_phase)
            and (wanted.changed_until is None or one.updated_at <= wanted.changed_until)
            and (wanted.changed_since is None or one.updated_at >= wanted.changed_since)
            and (wanted.goal is None or wanted.goal.casefold() in (one.goal or "").casefold())
            and (wanted.title is None or wanted.title.casefold() in (one.title or "").casefold())
        ]
        found += len(fitting)
        assert all_pages(kept, wanted, limit=2) == fitting, wanted
        among = [one for one in made if one.session_id in fitting]
        order = OTHER_ORDERS[number % len(OTHER_ORDERS)]
        assert all_pages(kept, wanted, order=order, limit=2) == in_order(among, order), wanted
        listed = [one.session_id for one in kept.sessions.summaries(wanted)]
        assert listed == sorted(fitting), wanted
    assert found > len(FILTERS)


def test_a_session_without_a_goal_has_none_to_be_found_by(kept: Kept) -> None:
    kept.put(an_id(1))
    assert kept.sessions.page(SessionFilter(goal="null"), limit=5).sessions == ()


@pytest.mark.parametrize("goal", ["", "ab", "  a  "])
def test_a_part_of_a_goal_that_is_too_short_is_refused(goal: str) -> None:
    with pytest.raises(InvalidSession, match=r"goal: .* is too short to search for"):
        SessionFilter(goal=goal)
    with pytest.raises(InvalidSession, match=r"title: .* is too short to search for"):
        SessionFilter(title=goal)


def test_a_session_is_found_by_its_title_as_it_is_by_then(kept: Kept) -> None:
    manager = SessionManager(kept.sessions)
    session = manager.create(title="Nightly import")
    manager.release()
    manager.create()
    manager.open(session.session_id)

    def found(title: str) -> list[str]:
        return [one.session_id for one in manager.find(title=title)]

    assert found("NIGHTLY") == [session.session_id]
    manager.describe(title="Weekly import")
    assert (found("nightly"), found("weekly")) == ([], [session.session_id])
    manager.describe(title=None)
    assert (found("weekly"), found("none"), found("null")) == ([], [], [])


def test_a_session_that_is_saved_comes_first_from_then_on(kept: Kept) -> None:
    made = fill(kept)
    manager = SessionManager(kept.sessions, clock=FakeClock(START + timedelta(days=1)))
    oldest = [one for one in made if not one.state.is_terminal][-1]
    manager.open(oldest.session_id)
    first = kept.sessions.page(limit=4)
    manager.add_history("noted")
    assert kept.sessions.page(limit=1).sessions[0].session_id == oldest.session_id
    # It has moved to the front, behind which the reader of pages is: the others come once each.
    second = kept.sessions.page(limit=20, after=first.after)
    seen = [one.session_id for one in (*first.sessions, *second.sessions)]
    assert sorted([*seen, oldest.session_id]) == sorted(one.session_id for one in made)


def test_a_page_goes_on_behind_a_session_that_was_deleted(kept: Kept) -> None:
    made = [one.session_id for one in fill(kept)]
    first = kept.sessions.page(limit=4)
    kept.sessions.delete(made[3])
    second = kept.sessions.page(limit=20, after=first.after)
    assert [one.session_id for one in second.sessions] == made[4:]


def test_what_cannot_be_read_hides_no_other_session(kept: Kept) -> None:
    made = fill(kept)
    kept.spoil(made[5].session_id)
    first = kept.sessions.page(limit=50)
    assert [one.session_id for one in first.unreadable] == [made[5].session_id]
    others = [one.session_id for one in made if one is not made[5]]
    assert [one.session_id for one in first.sessions] == others


@pytest.mark.parametrize("limit", [0, -1, 10_001, True, "5"])
def test_a_page_of_no_or_too_many_sessions_is_refused(kept: Kept, limit: object) -> None:
    with pytest.raises(InvalidSession, match="limit"):
        kept.sessions.page(limit=limit)  # type: ignore[arg-type]


def test_the_largest_budgets_are_compared_exactly(kept: Kept) -> None:
    largest = 10**18 - 1
    session = SessionContext.create("tdflow", "red", largest, session_id=an_id(1), now=START)
    kept.sessions.save(session)
    manager = SessionManager(kept.sessions, clock=FakeClock())
    manager.open(session.session_id)
    manager.record_tokens(largest // 2)
    for text, found in (("50%..", 1), ("50.0001%..", 0), ("..50%", 0), ("..50.0001%", 1)):
        wanted = SessionFilter(budget_left=BudgetLeft.parse(text))
        assert len(kept.sessions.page(wanted, limit=5).sessions) == found, text
        assert len(list(kept.sessions.summaries(wanted))) == found, text


@pytest.mark.parametrize("order", [*SessionOrder])
def test_a_cursor_goes_on_in_its_own_list_alone(kept: Kept, order: SessionOrder) -> None:
    fill(kept)
    wanted = SessionFilter(workflow_type="tdflow", changed_since=START)
    after = kept.sessions.page(wanted, order=order, limit=1).after
    assert after is not None
    later = SessionFilter(workflow_type="tdflow", changed_since=START - timedelta(seconds=5))
    assert kept.sessions.page(later, order=order, limit=1, after=after).sessions
    others = [(wanted, other) for other in SessionOrder if other is not order] + [
        (SessionFilter(), order),
        (SessionFilter(workflow_type="tdflow"), order),
        (SessionFilter(workflow_type="spec", changed_since=START), order),
        (SessionFilter(workflow_type="tdflow", changed_until=START + timedelta(days=9)), order),
        (SessionFilter(workflow_type="tdflow", changed_since=START, state="active"), order),
    ]
    for another, in_this in others:
        with pytest.raises(InvalidCursor, match="ended a page") as refused:
            kept.sessions.page(another, order=in_this, limit=1, after=after)
        assert refused.value.given == str(after)
