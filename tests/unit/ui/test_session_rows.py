"""The list as a person asks for it: narrowed, sorted, page by page."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentforge_sessions.entrypoints.ui.errors import InvalidForm
from agentforge_sessions.entrypoints.ui.session_rows import (
    Order,
    Row,
    SessionStanding,
    Wanted,
    listed,
)
from agentforge_sessions.harness.session_domain import SessionContext, SessionState
from agentforge_sessions.harness.views.session_head import SessionHead, SessionSummary
from tests.support.sessions import session_id

BEGIN = datetime(2026, 3, 1, 9, 30, tzinfo=UTC)


def row(
    number: int,
    state: str = "active",
    *,
    age: int = 0,
    used: int = 0,
    total: int = 1000,
    goal: str | None = None,
    interrupted: bool = False,
    asks: bool = False,
    workflow: str | None = None,
    phase: str | None = None,
) -> Row:
    moment = BEGIN - timedelta(minutes=age)
    session = SessionContext(
        session_id(number),
        created_at=moment,
        workflow_type=workflow,
        current_phase=phase,
    )
    session.token_budget.total_budget = total
    session.token_budget.tokens_used = used
    head = SessionHead.of(session)._replace(state=SessionState(state))
    return Row(
        summary=SessionSummary(head, "x", 1),
        interrupted=interrupted,
        asks=asks,
        goal=goal,
    )


def numbers(rows: object) -> list[int]:
    return [int(one.session_id[-6:]) for one in rows.rows]  # type: ignore[attr-defined]


def test_what_waits_for_a_person_comes_first_then_what_was_cut_off() -> None:
    rows = [
        row(1, "completed"),
        row(2, "paused", age=1),
        row(3, age=5),
        row(4, age=9, interrupted=True),
        row(5, "paused", age=99, asks=True),
        row(6, "aborted", age=3),
        row(7, age=2),
    ]
    assert numbers(listed(rows, Wanted())) == [5, 4, 7, 3, 2, 1, 6]


def test_a_session_that_ended_waits_for_nobody() -> None:
    assert row(1, "aborted", asks=True).standing is SessionStanding.ABORTED
    assert row(1, "completed", interrupted=True).standing is SessionStanding.COMPLETED


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (Order.CHANGED, [2, 3, 1]),
        (Order.CREATED, [2, 3, 1]),
        (Order.SPENT, [1, 3, 2]),
        (Order.LEFT, [3, 2, 1]),
    ],
)
def test_each_order_is_what_it_says(order: Order, expected: list[int]) -> None:
    rows = [
        row(1, age=30, used=500, total=9000),
        row(2, age=10, used=0, total=100),
        row(3, age=20, used=300, total=200),
    ]
    assert numbers(listed(rows, Wanted(order=order))) == expected


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        ({"q": ["retries"]}, [1]),
        ({"q": ["RETRIES http"]}, [1]),
        ({"q": ["green"]}, [2]),
        ({"q": ["000003"]}, [3]),
        ({"q": ["nothing of this"]}, []),
        ({"workflow": ["tdflow"]}, [2]),
        ({"standing": ["paused"]}, [3]),
        ({"standing": ["paused", "active"], "q": [""]}, [1, 2, 3]),
    ],
)
def test_the_fields_of_the_form_narrow_the_list(
    field: dict[str, list[str]], expected: list[int]
) -> None:
    rows = [
        row(1, goal="Add retries\nto the HTTP client", age=1),
        row(2, workflow="tdflow", phase="green", age=2),
        row(3, "paused", age=3),
    ]
    assert numbers(listed(rows, Wanted.of(field))) == expected


def test_the_counts_are_of_all_that_fit_whatever_standing_is_wanted() -> None:
    rows = [row(1), row(2, "paused"), row(3, "paused"), row(4, "completed")]
    found = listed(rows, Wanted(standings=frozenset({SessionStanding.ACTIVE})))
    assert found.total == 1
    assert found.counts == {
        SessionStanding.ACTIVE: 1,
        SessionStanding.PAUSED: 2,
        SessionStanding.COMPLETED: 1,
    }


@given(
    st.lists(
        st.tuples(
            st.sampled_from(list(SessionState)),
            st.integers(0, 5),
            st.integers(0, 3),
            st.booleans(),
        ),
        max_size=40,
    ),
    st.sampled_from(list(Order)),
    st.integers(1, 7),
)
def test_page_after_page_has_each_session_once_in_order(
    drawn: list[tuple[SessionState, int, int, bool]], order: Order, limit: int
) -> None:
    rows = [
        row(number, state.value, age=age, used=used, interrupted=cut)
        for number, (state, age, used, cut) in enumerate(drawn)
    ]
    whole = [one.session_id for one in listed(rows, Wanted(order=order), limit=1000).rows]
    found, after = [], None
    while True:
        page = listed(rows, Wanted(order=order, after=after), limit=limit)
        found += [one.session_id for one in page.rows]
        if (after := page.after) is None:
            break
    assert found == whole
    assert len(set(whole)) == len(rows)


@pytest.mark.parametrize(
    "after",
    ["x", "", "[]", "7", '["changed",1,2]', "é", "[" * 5000, '["attention",1,2]', '["attention"]'],
)
def test_what_is_no_end_of_a_page_is_refused(after: str) -> None:
    wanted = Wanted(after=after)
    if not after:
        assert listed([row(1)], Wanted.of({"after": [after]})).total == 1
        return
    with pytest.raises(InvalidForm, match="not where a page of this list ended"):
        listed([row(1)], wanted)


def test_a_page_of_another_order_is_refused() -> None:
    after = listed([row(1), row(2)], Wanted(order=Order.SPENT), limit=1).after
    with pytest.raises(InvalidForm):
        listed([row(1), row(2)], Wanted(order=Order.LEFT, after=after))


@pytest.mark.parametrize("field", [{"standing": ["gone"]}, {"order": ["backwards"]}])
def test_what_there_can_not_be_is_refused(field: dict[str, list[str]]) -> None:
    with pytest.raises(InvalidForm):
        Wanted.of(field)
