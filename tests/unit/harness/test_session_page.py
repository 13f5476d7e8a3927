from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from agentforge_sessions.harness import InvalidSession, SessionFilter, SessionOrder, SessionState
from agentforge_sessions.harness.views.session_filter import BudgetLeft
from agentforge_sessions.harness.views.session_page import InvalidCursor, SessionCursor
from tests.support.clock import START
from tests.support.sessions import session_id as an_id

MARK = "0badcafe"


@pytest.mark.parametrize(
    "cursor",
    [
        SessionCursor(SessionOrder.LAST_CHANGED, START, an_id(1), MARK),
        SessionCursor(SessionOrder.FIRST_CREATED, START, an_id(1), MARK),
        SessionCursor(SessionOrder.LEAST_LEFT, -12, an_id(1), MARK),
        SessionCursor(SessionOrder.MOST_SPENT, 0, an_id(1), MARK),
        SessionCursor(SessionOrder.ID, None, an_id(1), MARK),
    ],
)
def test_a_cursor_is_one_word_of_a_command_and_is_read_back(cursor: SessionCursor) -> None:
    text = str(cursor)
    assert SessionCursor.parse(text) == cursor
    assert text.isascii()
    assert not set(text) & set(" \t\n'\"\\\\$`*?[]{}()<>|&;#~")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "////",
        f"2026-03-01T00:00:00Z/{an_id(1)}",
        f"last_changed/2026-03-01T00:00:00/{an_id(1)}/{MARK}",
        f"last_changed/2026-03-01T00:00:00.000000/{an_id(1)}/{MARK}",
        f"last_changed//{an_id(1)}/{MARK}",
        f"last_changed/12/{an_id(1)}/{MARK}",
        f"least_left/2026-03-01T00:00:00.000000Z/{an_id(1)}/{MARK}",
        f"least_left/{10**19}/{an_id(1)}/{MARK}",
        f"least_left/{'9' * 5_000}/{an_id(1)}/{MARK}",
        f"least_left/\u0661/{an_id(1)}/{MARK}",
        f"least_left/ 1/{an_id(1)}/{MARK}",
        f"least_left/1/{an_id(1)}/{MARK}/",
        f"least_left/1/../{MARK}",
        f"least_left/1/{an_id(1)}/",
        f"least_left/1/{an_id(1)}/xx",
        f"id/1/{an_id(1)}/{MARK}",
        f"by_heart//{an_id(1)}/{MARK}",
    ],
)
def test_a_text_that_is_no_cursor_is_refused(text: str) -> None:
    with pytest.raises(InvalidCursor, match="not where a page ended") as refused:
        SessionCursor.parse(text)
    assert refused.value.given == text
    assert len(str(refused.value)) < 300


@pytest.mark.parametrize(
    ("text", "bounds"),
    [
        ("..0", BudgetLeft(most_tokens=0)),
        ("..20%", BudgetLeft(most_percent=20.0)),
        ("5000..", BudgetLeft(least_tokens=5_000)),
        (" 10% .. 12.5 % ", BudgetLeft(least_percent=10.0, most_percent=12.5)),
        ("-5..30%", BudgetLeft(least_tokens=-5, most_percent=30.0)),
    ],
)
def test_a_range_of_a_budget_is_written_with_two_dots(text: str, bounds: BudgetLeft) -> None:
    assert BudgetLeft.parse(text) == bounds


@pytest.mark.parametrize(
    "text",
    ["", "..", "20", "20%", "1...2", "a..b", "..1e3", "..%", "1..2..3", f"..{10**16}"],
)
def test_what_is_no_range_is_refused_with_examples(text: str) -> None:
    with pytest.raises(InvalidSession, match=r"budget_left: .* is no range.*\.\.20%"):
        BudgetLeft.parse(text)


@pytest.mark.parametrize(
    "bounds",
    [
        {"least_tokens": 1.5},
        {"most_tokens": True},
        {"least_percent": "20"},
        {"most_percent": float("nan")},
        {"least_percent": float("inf")},
        {"least_tokens": 10**15 + 1},
    ],
)
def test_a_bound_that_is_no_number_is_refused(bounds: dict[str, Any]) -> None:
    with pytest.raises(InvalidSession, match=next(iter(bounds))):
        BudgetLeft(**bounds)


def test_states_that_there_are_not_are_refused_all_at_once() -> None:
    with pytest.raises(InvalidSession) as refused:
        SessionFilter(state=["active", "done", "gone"])
    assert [one.split()[1] for one in refused.value.faults] == ["'done'", "'gone'"]


@pytest.mark.parametrize("given", ["paused", SessionState.PAUSED, ["paused"], {"paused"}])
def test_a_state_is_asked_for_alone_or_among_several(given: Any) -> None:
    assert SessionFilter(state=given).state == {SessionState.PAUSED}


def test_a_fingerprint_knows_what_was_asked_and_not_when() -> None:
    some = SessionFilter(state=["paused", "active"], changed_until=START)
    at_another_time = datetime(2020, 1, 1, tzinfo=UTC)
    same = SessionFilter(state=["active", "paused"], changed_until=at_another_time)
    assert some.fingerprint == same.fingerprint
    others = [
        SessionFilter(),
        SessionFilter(state="active"),
        SessionFilter(state="active", changed_since=START),
        SessionFilter(workflow_type="active"),
        SessionFilter(current_phase="active"),
        SessionFilter(goal="active"),
        SessionFilter(tags="active"),
        SessionFilter(parent_id="active"),
        SessionFilter(goal="\ud800ab"),
        SessionFilter(budget_left=BudgetLeft(least_tokens=0)),
        SessionFilter(budget_left=BudgetLeft(most_tokens=0)),
    ]
    assert len({one.fingerprint for one in [some, *others]}) == 1 + len(others)
