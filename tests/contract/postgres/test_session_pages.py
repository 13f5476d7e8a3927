"""What pages of sessions cost PostgreSQL, and what they must not cost its saves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.sessions.session_pages import like_pattern, page_statement
from agentforge_sessions.fleet.postgres.sessions.session_repository import PostgresSessions
from agentforge_sessions.harness import SessionContext, SessionFilter, SessionOrder, SessionState
from tests.support.clock import START, FakeClock
from tests.support.sessions import session_id as an_id

BY_CHANGE = SessionOrder.LAST_CHANGED


FILL = b"""
with made as (
    insert into agentforge.sessions
    select 'session_20260101_' || lpad(i::text, 6, '0') || '_000000', 3,
        (array['active', 'paused', 'completed', 'aborted'])[1 + i %% 4],
        case when i %% 7 = 0 then 'tdflow' else 'spec' end,
        'red', 1, made_at, made_at, null, 9, 0, 0, 1, 100
    from (select i, timestamptz '2026-01-01' + i * interval '1 minute' as made_at
        from generate_series(1, %(sessions)s) i) every
    returning id)
insert into agentforge.session_documents
select id, 'a', 'make the ' || md5(id) || ' faster', 0, '', '' from made
"""
"""Fills the tables with sessions, so that the planner has a choice."""


@pytest.fixture
def full(database: Database) -> Database:
    """A store with 5,000 sessions, of which the planner has seen a sample."""
    with database.connection() as connection:
        connection.execute(FILL, {"sessions": 5_000})
        connection.execute("analyze agentforge.sessions, agentforge.session_documents")
    return database


def plan(
    database: Database,
    wanted: SessionFilter,
    order: SessionOrder = BY_CHANGE,
    **values: object,
) -> str:
    """Return how PostgreSQL reads a page once there are too many sessions to look at each."""
    statement = page_statement(wanted, order, limit=11, first=not values)
    given = {"workflow_type": "tdflow", **values}
    with database.transaction() as connection:
        connection.execute("set local enable_bitmapscan = off")
        return "\n".join(row[0] for row in connection.execute(b"explain " + statement, given))


@pytest.mark.parametrize("order", [SessionOrder.LAST_CHANGED, SessionOrder.FIRST_CHANGED])
@pytest.mark.parametrize(
    ("wanted", "index", "states"),
    [
        (
            SessionFilter(state=SessionState.PAUSED, workflow_type="tdflow"),
            "sessions_by_workflow",
            1,
        ),
        (SessionFilter(workflow_type="tdflow"), "sessions_by_workflow", len(SessionState)),
        (SessionFilter(state=SessionState.ACTIVE), "sessions_by_change", 1),
        (SessionFilter(state=["active", "paused"]), "sessions_by_change", 2),
        (SessionFilter(), "sessions_by_change", len(SessionState)),
    ],
)
def test_an_index_has_the_sessions_of_a_page_in_their_order(
    full: Database, order: SessionOrder, wanted: SessionFilter, index: str, states: int
) -> None:
    after = START if order.descends else datetime(2026, 1, 1, 12, tzinfo=UTC)  # before most
    for more in ({}, {"after_at": after, "after_id": an_id(1)}):
        lines = plan(full, wanted, order, **more)
        scans = [line for line in lines.splitlines() if "Index Scan" in line]
        assert len(scans) == states, lines
        assert all(index in line for line in scans), lines
        active = wanted.state is None or SessionState.ACTIVE in wanted.state
        assert ("Presorted Key" in lines) is active  # the others are in order as they are
        assert lines.count("Sort Key") == active + (states > 1)
        ranges = [line for line in lines.splitlines() if "Index Cond" in line]
        assert all(("listed_at" in line) is bool(more) for line in ranges)


@pytest.mark.parametrize("order", [SessionOrder.LAST_CREATED, SessionOrder.FIRST_CREATED])
def test_an_index_has_the_sessions_of_a_page_in_the_order_of_their_creation(
    full: Database, order: SessionOrder
) -> None:
    for more in ({}, {"after_at": START, "after_id": an_id(1)}):
        lines = plan(full, SessionFilter(), order, **more)
        assert "sessions_by_creation" in lines
        assert "Sort" not in lines
        assert ("Index Cond" in lines) is bool(more)


@pytest.mark.parametrize("text", ["goal", "title"])
def test_a_goal_and_a_title_are_found_by_an_index_of_their_trigrams(
    full: Database, text: str
) -> None:
    wanted = SessionFilter(**{text: "a1b2c3"})  # type: ignore[arg-type]
    statement = page_statement(wanted, SessionOrder.ID, limit=11, first=True)
    with full.transaction() as connection:
        for other in ("seqscan", "indexscan"):  # of so few, it would look at each
            connection.execute(f"set local enable_{other} = off".encode())
        rows = connection.execute(b"explain " + statement, {text: like_pattern("a1b2c3")})
        lines = "\n".join(row[0] for row in rows)
    assert f"session_documents_by_{text}" in lines


def test_the_saves_of_an_active_session_stay_within_a_page_of_the_table(
    fresh: Database,
) -> None:
    sessions, clock = PostgresSessions(fresh), FakeClock()
    carried: dict[str, Any] = {"title": "t", "tags": ["a"], "parent_id": an_id(2)}
    session = SessionContext.create(
        "tdflow", "red", session_id=an_id(1), now=clock(), metadata={"a": 1}, **carried
    )
    sessions.save(session)
    with fresh.connection() as connection:  # alone: the pool gives the same one to each save
        connection.execute("select pg_stat_force_next_flush()")
    for number in range(200):
        session.add_history("noted", details=str(number), now=clock.advance(5))
        sessions.save(session)
    changes = _changes(fresh)
    assert changes["updated"] == 200
    # With an index on what each save changes it were none. Not one left out: the hour that ended
    # meanwhile, and a page that is full while a snapshot of the server's own needs its dead rows.
    assert changes["within"] >= 150


def _changes(database: Database) -> dict[str, int]:
    with database.connection() as connection:
        connection.execute("select pg_stat_force_next_flush()")
        connection.execute("select 1")
        connection.execute("select pg_stat_clear_snapshot()")
        row = connection.execute(
            "select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables where relname = 'sessions' "
            "and schemaname = 'agentforge'"
        ).fetchone()
    assert row is not None
    return {"updated": row[0], "within": row[1]}


def test_a_page_is_exact_within_the_hour_that_its_index_knows(database: Database) -> None:
    sessions = PostgresSessions(database)
    for number in (3, 1, 2):
        at = START + timedelta(minutes=number)
        sessions.save(SessionContext.create("spec", "a", session_id=an_id(number), now=at))
    page = sessions.page(SessionFilter(state=SessionState.ACTIVE), limit=2)
    assert [one.session_id for one in page.sessions] == [an_id(3), an_id(2)]
    page = sessions.page(SessionFilter(state=SessionState.ACTIVE), limit=2, after=page.after)
    assert [one.session_id for one in page.sessions] == [an_id(1)]
