"""A connection that is lost at any statement is told by its type, and nothing is done twice."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from attrs import frozen

from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.errors import StoreUnavailable
from agentforge_sessions.fleet.postgres.store import PostgresStore
from agentforge_sessions.harness import SessionConflict, SessionContext, SessionIdTaken
from agentforge_sessions.harness.session_layout import WORKFLOW_FILE
from tests.support.postgres import PostgresServer
from tests.support.postgres_proxy import Moment, PostgresProxy, Statement
from tests.support.postgres_sessions import advisory_locks, stored
from tests.support.promptness import wait_until
from tests.support.soak import SOAKING


@frozen
class Place:
    """A store behind a door that can lose connections, and a look past it."""

    proxy: PostgresProxy
    store: PostgresStore
    direct: psycopg.Connection[Any]

    def losing(self, number: int, moment: Moment) -> Any:
        """Lose the connection at this statement from now on."""
        last = self.proxy.statements + number

        def lose(statement: Statement, now: Moment) -> bool:
            return (statement.number, now) == (last, moment)

        return self.proxy.losing(lose)

    def session(self) -> SessionContext:
        """Create a session that can be run."""
        session = SessionContext.create("tdflow", "red", goal="a goal")
        self.store.save(session, attachments={WORKFLOW_FILE: b"name: lost\n"})
        return session

    def actions(self, session: SessionContext) -> list[str]:
        """Return what is stored of a session's history."""
        found = self.store.load(session.session_id)
        assert found is not None
        assert stored(self.direct)
        return [one.action for one in found.history]


@pytest.fixture
def place(database: Database, tmp_path: Path) -> Iterator[Place]:
    with (
        tempfile.TemporaryDirectory() as short,
        PostgresProxy(database.url, Path(short)) as proxy,
        psycopg.connect(database.url, autocommit=True) as direct,
        Database(proxy.url, monotonic=lambda: 0.0) as behind,
    ):
        yield Place(proxy, PostgresStore(behind, tmp_path / "places"), direct)


SAVE: Final = 1
"""The number of the only statement of a save by a store that knows the session."""


@pytest.mark.parametrize("moment", Moment)
def test_a_save_whose_connection_is_lost_is_told_and_is_never_done_twice(
    place: Place, moment: Moment
) -> None:
    session = place.session()
    session.add_history("noted")
    with place.losing(SAVE, moment), pytest.raises(StoreUnavailable) as lost:
        place.store.save(session)
    assert lost.value.retryable
    assert session.revision == 1
    wait_until(lambda: _is_settled(place))
    if place.actions(session) == ["session_created", "noted"]:
        assert moment is not Moment.BEFORE
        with pytest.raises(SessionConflict) as refused:
            place.store.save(session)
        assert (refused.value.expected_revision, refused.value.actual_revision) == (1, 2)
    else:
        assert moment is not Moment.DONE
        place.store.save(session)
    assert place.actions(session) == ["session_created", "noted"]


def _is_settled(place: Place) -> bool:
    """Return whether the server does nothing more for a connection that was lost."""
    busy = place.direct.execute(
        "select 1 from pg_stat_activity where datname = current_database() "
        "and pid <> pg_backend_pid() and state <> 'idle'"
    )
    return busy.fetchone() is None


@pytest.mark.parametrize("number", range(1, 7) if SOAKING else (1, 4, 6))
@pytest.mark.parametrize("moment", Moment)
def test_a_save_in_several_statements_is_done_as_a_whole_or_not(
    place: Place, number: int, moment: Moment
) -> None:
    session = place.session()
    session.history.clear()
    session.add_history("made anew")
    with place.losing(number, moment), pytest.raises(StoreUnavailable):
        place.store.save(session)
    wait_until(lambda: _is_settled(place))
    try:
        place.store.save(session)
    except SessionConflict:
        assert (number, moment) in {(6, Moment.SENT), (6, Moment.DONE)}  # the commit
    assert place.actions(session) == ["made anew"]


@pytest.mark.parametrize("moment", Moment)
def test_a_creation_whose_connection_is_lost_leaves_one_session_or_none(
    place: Place, moment: Moment
) -> None:
    place.session()  # the pool has a connection
    session = SessionContext.create()
    with place.losing(1, moment), pytest.raises(StoreUnavailable):
        place.store.save(session)
    assert session.revision == 0
    wait_until(lambda: _is_settled(place))
    if place.store.exists(session.session_id):
        assert moment is not Moment.BEFORE
        with pytest.raises(SessionIdTaken):
            place.store.save(session)
    else:
        assert moment is not Moment.DONE
        place.store.save(session)
    assert place.actions(session) == ["session_created"]


@pytest.mark.parametrize("number", range(1, 6) if SOAKING else (2, 4, 5))
@pytest.mark.parametrize("moment", Moment)
def test_a_deletion_whose_connection_is_lost_can_be_repeated(
    place: Place, number: int, moment: Moment
) -> None:
    session = place.session()
    with place.losing(number, moment), pytest.raises(StoreUnavailable):
        place.store.delete(session.session_id)
    wait_until(lambda: _is_settled(place))
    was_there = place.store.exists(session.session_id)
    assert was_there or (number, moment) in {(5, Moment.SENT), (5, Moment.DONE)}
    assert place.store.delete(session.session_id) is was_there
    assert stored(place.direct) == []


READING: Final[dict[str, Callable[[PostgresStore, str], object]]] = {
    "load": lambda store, one: store.load(one),
    "exists": lambda store, one: store.exists(one),
    "list": lambda store, one: store.list_sessions(),
    "summaries": lambda store, one: list(store.summaries()),
    "resolve": lambda store, one: store.resolve(one),
    "attachments": lambda store, one: store.read_attachments(one),
    "attachment": lambda store, one: store.read_attachment(one, WORKFLOW_FILE),
    "step": lambda store, one: store.read_step(one, "step.json"),
    "steps": lambda store, one: store.step_names(one),
    "document": lambda store, one: store.read_document(one),
}


@pytest.mark.parametrize("what", READING)
def test_a_look_whose_connection_is_lost_is_told_and_the_next_one_is_answered(
    place: Place, what: str
) -> None:
    session = place.session()
    whole = READING[what](place.store, session.session_id)
    with place.losing(1, Moment.DONE), pytest.raises(StoreUnavailable):
        READING[what](place.store, session.session_id)
    assert READING[what](place.store, session.session_id) == whole


@pytest.mark.parametrize("moment", Moment)
def test_a_step_whose_connection_is_lost_is_kept_or_not_and_can_be_kept_again(
    place: Place, moment: Moment
) -> None:
    session = place.session()
    with place.losing(1, moment), pytest.raises(StoreUnavailable):
        place.store.keep_step(session.session_id, "step.json", b"first")
    wait_until(lambda: _is_settled(place))
    assert place.store.read_step(session.session_id, "step.json") in {None, b"first"}
    place.store.keep_step(session.session_id, "step.json", b"second")
    assert place.store.read_step(session.session_id, "step.json") == b"second"


def test_a_lock_whose_connection_is_lost_while_it_is_taken_is_no_one_s(place: Place) -> None:
    session = place.session()
    first = place.proxy.statements
    lock = place.store.run_lock(session.session_id, WORKFLOW_FILE, timeout_s=0)
    lock.acquire()
    taken = place.proxy.statements - first
    lock.release()
    for number in range(1, taken + 1):
        for moment in Moment:
            with place.losing(number, moment), pytest.raises(StoreUnavailable):
                lock.acquire()
            assert not lock.is_held
            wait_until(lambda: not advisory_locks(place.direct))
    lock.acquire()
    assert lock.is_held
    lock.release()


@pytest.mark.parametrize("moment", Moment)
def test_a_lock_whose_connection_is_lost_is_let_go_of_without_an_error(
    place: Place, moment: Moment
) -> None:
    session = place.session()
    lock = place.store.run_lock(session.session_id, WORKFLOW_FILE, timeout_s=0)
    lock.acquire()
    with place.losing(1, moment):
        lock.release()
    assert not lock.is_held
    wait_until(lambda: not advisory_locks(place.direct))
    lock.acquire()
    lock.release()


def test_all_connections_that_end_in_the_middle_of_saves_cost_no_entry_and_double_none(
    place: Place, server: PostgresServer
) -> None:
    session = place.session()
    refused = 0
    for number in range(12):
        session.add_history("noted", details=str(number))
        if number % 3 == 1:
            server.end_connections(place.proxy.url)
            with pytest.raises(StoreUnavailable):
                place.store.save(session)
            refused += 1
        place.store.save(session)
    assert refused == 4
    found = place.store.load(session.session_id)
    assert found is not None
    assert [one.details for one in found.history[1:]] == [str(one) for one in range(12)]
