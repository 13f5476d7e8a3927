"""The public feed, on files and in PostgreSQL, in a thread and in an event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from agentforge_sessions.base.cancellation import CancelToken, OperationCancelled, cancellable
from agentforge_sessions.entrypoints.aio import AsyncSessionManager
from agentforge_sessions.fleet.postgres.database import Database
from agentforge_sessions.fleet.postgres.store import PostgresStore
from agentforge_sessions.harness import LocalSessions, SessionManager, SessionStore
from agentforge_sessions.harness.events.event_feed import EventFeed
from agentforge_sessions.harness.views.entry_events import EntryEvent
from tests.support.promptness import PATIENCE_S

Open = Callable[[], LocalSessions]


@pytest.fixture(params=["files", "postgres"])
def opened(request: pytest.FixtureRequest, base: Path) -> Open:
    if request.param == "files":
        return lambda: SessionStore(base)
    database: Database = request.getfixturevalue("database")
    return lambda: PostgresStore(database, base)


def given(feed: EventFeed) -> list[EntryEvent]:
    """Return what a feed gives, once no transaction of another test is in the way."""
    found = list(feed)
    while feed.lags:
        found += feed
    return found


def test_a_loop_is_given_what_was_and_ends_where_nothing_more_is_awaited(opened: Open) -> None:
    manager = SessionManager(opened())
    manager.create()
    manager.pause()
    feed = SessionManager(opened()).events(timeout_s=0)
    assert [one.event.name for one in given(feed)] == ["session.created", "session.paused"]
    manager.resume()
    assert [one.event.name for one in given(feed)] == ["session.resumed"]


def test_a_loop_waits_for_what_happens_next(opened: Open) -> None:
    manager = SessionManager(opened())
    feed = SessionManager(opened()).events(timeout_s=PATIENCE_S)
    found: list[str] = []
    waits = threading.Thread(target=lambda: found.append(next(feed).event.name))
    waits.start()
    manager.create()
    waits.join(PATIENCE_S)
    assert found == ["session.created"]


def test_another_process_goes_on_behind_what_was_given_out(opened: Open) -> None:
    manager = SessionManager(opened())
    manager.create()
    for number in range(5):
        manager.add_history(f"note{number}")
    feed = manager.events(timeout_s=PATIENCE_S)
    first = [next(feed) for _ in range(3)]
    rest = SessionManager(opened()).events(feed.cursor, timeout_s=0)
    every = [*first, *given(rest)]
    assert [one.number for one in every] == [1, 2, 3, 4, 5, 6]
    assert given(SessionManager(opened()).events(rest.cursor, timeout_s=0)) == []


def test_events_of_several_writers_are_all_found(opened: Open) -> None:
    def write() -> None:
        manager = SessionManager(opened())
        manager.create()
        for number in range(20):
            manager.add_history(f"note{number}")

    writers = [threading.Thread(target=write) for _ in range(4)]
    feed = SessionManager(opened()).events(timeout_s=0)
    found: list[tuple[str | None, int]] = []
    for one in writers:
        one.start()
    while any(one.is_alive() for one in writers):
        found += [(one.event.session_id, one.number) for one in feed]
        feed = SessionManager(opened()).events(feed.cursor, timeout_s=0)
    for one in writers:
        one.join()
    found += [(one.event.session_id, one.number) for one in given(feed)]
    assert len(found) == len(set(found)) == 4 * 21
    for session_id in {session_id for session_id, _ in found}:
        assert [number for one, number in found if one == session_id] == list(range(1, 22))


def test_a_cancelled_operation_ends_the_wait(opened: Open) -> None:
    token, ended = CancelToken(), threading.Event()

    def wait() -> None:
        with cancellable(token):
            try:
                next(SessionManager(opened()).events())
            except OperationCancelled:
                ended.set()

    waits = threading.Thread(target=wait)
    waits.start()
    token.cancel()
    waits.join(PATIENCE_S)
    assert ended.is_set()


def test_an_event_loop_is_given_the_same(opened: Open) -> None:
    async def follow() -> tuple[list[str], list[str]]:
        manager = AsyncSessionManager(opened())
        feed = AsyncSessionManager(opened()).events(timeout_s=PATIENCE_S)
        waits = asyncio.ensure_future(anext(feed))
        await asyncio.sleep(0)
        await manager.create()
        await manager.pause()
        first = [(await waits).event.name, (await anext(feed)).event.name]
        await manager.resume()
        rest = manager.events(feed.cursor, timeout_s=PATIENCE_S)
        return first, [(await anext(rest)).event.name]

    first, rest = asyncio.run(follow())
    assert first == ["session.created", "session.paused"]
    assert rest == ["session.resumed"]


def test_an_asynchronous_loop_ends_where_nothing_more_is_awaited(base: Path) -> None:
    async def follow() -> list[str]:
        manager = AsyncSessionManager(base)
        await manager.create()
        return [one.event.name async for one in manager.events(timeout_s=0)]

    assert asyncio.run(follow()) == ["session.created"]


def test_a_cancelled_wait_loses_no_event(opened: Open) -> None:
    async def follow() -> str:
        feed = AsyncSessionManager(opened()).events()
        waits = asyncio.ensure_future(anext(feed))
        await asyncio.sleep(0)
        waits.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waits
        await AsyncSessionManager(opened()).create()
        return (await anext(feed)).event.name

    assert asyncio.run(follow()) == "session.created"
